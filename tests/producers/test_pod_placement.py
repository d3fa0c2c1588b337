"""What ran on a chip by the pods of the node: by what names the chip, by event time, for as long as a window."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from producers.device_grants import KubeletCheckpoint, read_grants
from producers.own_pods import OwnPod
from producers.pod_placement import PodPlacements
from schemas.signals import Placement
from tests.producers.supervisors.supervised import NOW, own_pod

LIMITS = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}


class Clock:
    now = NOW

    def __call__(self) -> datetime:
        return self.now


def gpu_pod(uid: str = "pod-1", run: str | None = "run-1", **more: object) -> OwnPod:
    return own_pod(uid, run=run, container=LIMITS, **more)


def run_at(placements: PodPlacements, chip: str = "GPU-1", minutes: float = -1) -> str | None:
    found = placements.at(chip, NOW + timedelta(minutes=minutes))
    return None if found is None else found.run


def test_a_chip_is_of_the_pod_that_was_given_it_while_it_ran() -> None:
    placements = PodPlacements(Clock(), {"pod-1": ("GPU-1",), "pod-2": ("GPU-2",)}.get)  # type: ignore[arg-type]
    placements.heard(gpu_pod("pod-1", "run-1"))
    placements.heard(gpu_pod("pod-2", "run-2"))

    assert run_at(placements) == "run-1"
    assert run_at(placements, "GPU-2") == "run-2"
    assert run_at(placements, "GPU-3") is None
    assert run_at(placements, minutes=-61) is None  # before its pod started


def test_a_fault_told_late_is_stamped_with_what_ran_when_it_happened() -> None:
    clock = Clock()
    placements = PodPlacements(clock, lambda _: ("GPU-1",))
    placements.heard(gpu_pod("old", "run-1"))
    clock.now = NOW + timedelta(minutes=10)
    placements.heard(replace(gpu_pod("old", "run-1"), gone=True))
    placements.heard(gpu_pod("new", "run-2", started="2026-03-01T12:11:00Z"))

    assert run_at(placements, minutes=5) == "run-1"
    assert run_at(placements, minutes=10.5) is None
    assert run_at(placements, minutes=12) == "run-2"


def test_a_grant_the_kubelet_writes_a_moment_later_is_learnt_and_outlives_it() -> None:
    grants: dict[str, tuple[str, ...]] = {}
    placements = PodPlacements(Clock(), lambda uid: grants.get(uid, ()))
    placements.heard(gpu_pod())
    assert run_at(placements) is None
    grants["pod-1"] = ("GPU-1",)
    assert run_at(placements) == "run-1"
    grants.clear()
    placements.heard(gpu_pod(phase="Failed"))

    assert run_at(placements) == "run-1"


def test_without_names_a_pod_holds_every_chip_only_if_it_holds_as_many_as_there_are() -> None:
    whole = PodPlacements(Clock(), node_resources=lambda: {"nvidia.com/gpu": 1})
    part = PodPlacements(Clock(), node_resources=lambda: {"nvidia.com/gpu": 8})
    for placements in (whole, part):
        placements.heard(gpu_pod())

    assert run_at(whole) == "run-1"
    assert run_at(part) is None


@pytest.mark.parametrize("pod", [own_pod(), gpu_pod(run=None)])
def test_a_pod_without_devices_or_of_no_run_is_on_no_chip(pod: OwnPod) -> None:
    placements = PodPlacements(Clock(), lambda _: ("GPU-1",))
    placements.heard(pod)

    assert run_at(placements) is None


def test_what_people_wrote_comes_first() -> None:
    class File:
        def at(self, chip: str | None, time: datetime) -> Placement | None:
            assert time.tzinfo is not None
            return Placement(run="written") if chip == "GPU-1" else None

    placements = PodPlacements(Clock(), lambda _: ("GPU-1", "GPU-2"), File())
    placements.heard(gpu_pod())

    assert run_at(placements) == "written"
    assert run_at(placements, "GPU-2") == "run-1"


def test_history_is_a_day_however_many_pods_come_and_go() -> None:
    clock = Clock()
    placements = PodPlacements(clock, lambda _: ("GPU-1",))
    for hour in range(60):
        clock.now = NOW + timedelta(hours=hour)
        placements.heard(gpu_pod(f"pod-{hour}", f"run-{hour}", started=clock.now.isoformat()))
        clock.now += timedelta(minutes=30)
        placements.heard(
            replace(gpu_pod(f"pod-{hour}", f"run-{hour}", started=clock.now.isoformat()), gone=True)
        )

    assert len(placements._stays) <= 25


CHECKPOINT = {
    "Data": {
        "PodDeviceEntries": [
            {
                "PodUID": "a",
                "ContainerName": "c",
                "ResourceName": "nvidia.com/gpu",
                "DeviceIDs": {"-1": ["GPU-1"]},
            },
            {
                "PodUID": "a",
                "ContainerName": "d",
                "ResourceName": "nvidia.com/gpu",
                "DeviceIDs": {"0": ["GPU-2"]},
            },
            {
                "PodUID": "b",
                "ContainerName": "c",
                "ResourceName": "huawei.com/Ascend910",
                "DeviceIDs": ["Ascend910-3"],
            },
        ],
        "RegisteredDevices": {},
    },
    "Checksum": 1,
}


def test_the_kubelet_s_own_file_of_grants_is_read() -> None:
    assert read_grants(json.dumps(CHECKPOINT)) == {"a": ("GPU-1", "GPU-2"), "b": ("index:3",)}
    assert read_grants('{"Data": {"PodDeviceEntries": null}}') == {}


def test_a_file_of_grants_that_turns_wrong_or_goes_leaves_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    grants = KubeletCheckpoint(path)
    assert grants("a") == ()
    path.write_text(json.dumps(CHECKPOINT))
    assert grants("a") == ("GPU-1", "GPU-2")
    for wrong in ("{", "[]", '{"Data": 1}', '{"Data": {"PodDeviceEntries": [{}]}}'):
        path.write_text(wrong)
        assert grants("a") == ("GPU-1", "GPU-2")
    path.unlink()
    assert grants("b") == ("index:3",)
