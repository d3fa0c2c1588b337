"""Devices go to one container each, never a sick one, all or nothing."""

import pytest

from sandbox.errors import NotEnoughDevices
from sandbox.kubelet.container import Backoff
from sandbox.kubelet.devices import Devices

CHIPS = "huawei.com/Ascend910"


def test_no_device_is_given_twice() -> None:
    devices = Devices({CHIPS: 4})

    devices.allocate("pod-a", {"main": {CHIPS: 1}, "other": {CHIPS: 2}})
    devices.allocate("pod-b", {"main": {CHIPS: 1}})

    held = [
        devices.held(pod, container).get(CHIPS, [])
        for pod, container in (("pod-a", "main"), ("pod-a", "other"), ("pod-b", "main"))
    ]
    assert held == [[0], [1, 2], [3]]


def test_a_pod_that_does_not_fit_takes_nothing() -> None:
    devices = Devices({CHIPS: 4})

    with pytest.raises(NotEnoughDevices, match="wants 3"):
        devices.allocate("pod-a", {"main": {CHIPS: 2}, "other": {CHIPS: 3}})

    devices.allocate("pod-b", {"main": {CHIPS: 4}})
    assert devices.held("pod-a", "main") == {}


def test_what_runs_beforehand_uses_what_the_others_will_have() -> None:
    devices = Devices({CHIPS: 4})

    devices.allocate("pod-a", {"main": {CHIPS: 2}}, beforehand={"check": {CHIPS: 2}, "burn": {CHIPS: 3}})

    held = {name: devices.held("pod-a", name)[CHIPS] for name in ("main", "check", "burn")}
    assert held == {"main": [0, 1], "check": [0, 1], "burn": [0, 1, 2]}
    devices.allocate("pod-b", {"main": {CHIPS: 1}})
    assert devices.held("pod-b", "main") == {CHIPS: [3]}
    devices.release("pod-a")
    devices.allocate("pod-c", {"main": {CHIPS: 3}})


def test_a_device_that_turns_sick_stays_with_its_holder_and_goes_to_nobody_afterwards() -> None:
    devices = Devices({CHIPS: 2})
    devices.allocate("pod-a", {"main": {CHIPS: 2}})

    devices.set_health(CHIPS, 0, healthy=False)

    assert devices.held("pod-a", "main") == {CHIPS: [0, 1]}
    assert (devices.capacity(), devices.allocatable()) == ({CHIPS: 2}, {CHIPS: 1})
    devices.release("pod-a")
    devices.allocate("pod-b", {"main": {CHIPS: 1}})
    assert devices.held("pod-b", "main") == {CHIPS: [1]}


@pytest.mark.parametrize(("resource", "index"), [(CHIPS, 2), (CHIPS, -1), ("nvidia.com/gpu", 0)])
def test_a_device_that_is_not_there_cannot_turn_sick(resource: str, index: int) -> None:
    with pytest.raises(ValueError, match="no device"):
        Devices({CHIPS: 2}).set_health(resource, index, healthy=False)


def test_a_container_is_told_its_devices_in_its_vendors_words() -> None:
    devices = Devices({CHIPS: 2, "nvidia.com/gpu": 1})
    devices.allocate("pod-a", {"main": {CHIPS: 2, "nvidia.com/gpu": 1}, "plain": {}})

    assert devices.environment("pod-a", "main") == {
        "ASCEND_VISIBLE_DEVICES": "0,1",
        "NVIDIA_VISIBLE_DEVICES": "0",
        "RELIGHT_SANDBOX_DEVICES": f"{CHIPS}=0,1;nvidia.com/gpu=0",
    }
    assert devices.environment("pod-a", "plain") == {}


def test_waits_between_runs_are_kubernetes_own_by_default() -> None:
    waits = [Backoff().before(restart).total_seconds() for restart in (1, 2, 3, 4, 7, 1000)]

    assert waits == [0, 10, 20, 40, 300, 300]
