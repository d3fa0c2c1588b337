"""Who is on a reset unit, by the process table and by the API's pods; settings of the whole agent."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from actuators.node_agent.device_holders import HoldersUnknown
from actuators.node_agent.orders import Unit
from producers.own_pods import OwnPod, OwnPods
from producers.supervisors.peers import PeerPod
from relight.cli import main
from relight.node_hands import Occupants
from runtime.informer import Difference
from runtime.kubernetes import Listing, Watch
from sandbox import tied_process
from tests.producers.supervisors.supervised import NOW, pod_object

GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}


class Silent:
    def list(self, path: str, *, labels: str = "", fields: str = "") -> Listing:
        raise NotImplementedError

    def watch(self, path: str, *, since: str, labels: str = "", fields: str = "") -> Watch:
        raise NotImplementedError


class Resolver:
    def __init__(self) -> None:
        self.pod: PeerPod | None = None

    def pod_of(self, pid: int) -> PeerPod | None:
        assert pid > 0
        return self.pod


class Scene:
    def __init__(self, folder: Path) -> None:
        self.device = folder / "dev"
        self.device.touch()
        self.unit = Unit("u", ("GPU-1",), (str(self.device),))
        self.pods = OwnPods(Silent(), "node-1", lambda: NOW)
        self.chips: dict[str, frozenset[str]] = {}
        self.resolver = Resolver()
        self.occupants = Occupants(
            self.pods, self.chips_of, self.resolver, lambda: datetime.now(UTC), must_see_all=False
        )

    def chips_of(self, pod: OwnPod) -> frozenset[str]:
        return self.chips.get(pod.uid, frozenset())

    def add(
        self, uid: str, run: str | None, *chips: str, phase: str = "Running", devices: bool = True
    ) -> None:
        self.chips[uid] = frozenset(chips)
        container = GPU if devices else {}
        self.pods.tell(Difference(None, pod_object(uid, run=run, phase=phase, container=container)))

    def on_unit(self) -> list[tuple[str, str | None]]:
        return [(one.name, one.run) for one in self.occupants.holders(self.unit, "run-1")]


def test_pods_of_others_that_were_given_its_chips_are_on_a_unit(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.add("own", "run-1", "GPU-1")
    scene.add("elsewhere", "run-2", "GPU-2")
    scene.add("plain", "run-2", devices=False)
    scene.add("over", "run-2", "GPU-1", phase="Succeeded")
    assert scene.on_unit() == []

    scene.add("pending", "run-2", "GPU-1", phase="Pending")  # it is about to start
    scene.add("inference", None, "*")
    assert sorted(scene.on_unit()) == [
        ("pod team-a/name-of-inference", None),
        ("pod team-a/name-of-pending", "run-2"),
    ]


def test_a_pod_whose_devices_nobody_can_name_may_hold_these(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.add("unnamed", "run-2")

    assert scene.on_unit() == [("pod team-a/name-of-unnamed", "run-2")]


@pytest.mark.parametrize(
    ("pod", "run"), [("own", "run-1"), ("other", "run-2"), ("unknown", None), (None, None)]
)
def test_a_process_is_of_the_run_its_pod_is_of(tmp_path: Path, pod: str | None, run: str | None) -> None:
    scene = Scene(tmp_path)
    scene.add("own", "run-1", "GPU-1")
    scene.add("other", "run-2", "GPU-2")
    scene.resolver.pod = None if pod is None else PeerPod(pod)
    program = f"import time; f = open({str(scene.device)!r}); print('open', flush=True); time.sleep(60)"
    holder = tied_process.start([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    found = scene.on_unit()
    holder.kill()
    holder.wait()
    holder.stdout.close()

    assert [one[1] for one in found] == [run]


def test_where_the_process_table_must_be_seen_whole_and_is_not_nothing_is_known(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.device.unlink()

    with pytest.raises(HoldersUnknown):
        replace(scene.occupants, must_see_all=True).holders(scene.unit, "run-1")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"RELIGHT_REPAIR__COMMAND": '["reset", "--all"]'}, "every unit alike"),
        ({"RELIGHT_SUPERVISORS__PEERS_FROM": "namespaces"}, "peers_folder"),
        ({"RELIGHT_SUPERVISORS__PEERS_FROM": "hearsay"}, "PEERS_FROM"),
        (
            {"RELIGHT_ON_CLUSTER": "true", "RELIGHT_KUBERNETES__KUBECONFIG": "/nowhere"},
            "no way to the cluster",
        ),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_in_words(
    tmp_path: Path, more: dict[str, str], said: str
) -> None:
    env = {
        "RELIGHT_CLUSTER": "c",
        "RELIGHT_NODE__NAME": "n",
        "RELIGHT_NODE__UID": "u",
        "RELIGHT_SPOOL__FOLDER": str(tmp_path / "state"),
        "RELIGHT_SOURCES__KERNEL_LOG": "false",
        **more,
    }

    result = CliRunner().invoke(main, ["node-agent"], env=env)

    assert result.exit_code == 1
    assert said in result.output
