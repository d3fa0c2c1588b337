"""Who speaks: control groups as kubelets and runtimes write them, and what must never pass for another pod."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from producers.errors import PeerUnknown
from producers.supervisors import peers
from producers.supervisors.peers import CgroupPods, NamespacePods, PeerPod, identify, pod_of_groups
from sandbox import tied_process

UID = "3d8f1c2e-5b7a-4e0d-9f16-0a1b2c3d4e5f"
UNDER = UID.replace("-", "_")
OTHER = "99999999-5b7a-4e0d-9f16-0a1b2c3d4e5f"
ID = "0123456789abcdef" * 4

V2_SYSTEMD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{u}.slice"
RECORDED = {
    "v2 systemd containerd": (f"0::{V2_SYSTEMD.format(u=UNDER)}/cri-containerd-{ID}.scope\n", ID),
    "v2 systemd cri-o": (f"0::{V2_SYSTEMD.format(u=UNDER)}/crio-{ID}.scope\n", ID),
    "v2 systemd cri-o, group of its own": (
        f"0::{V2_SYSTEMD.format(u=UNDER)}/crio-{ID}.scope/container\n",
        ID,
    ),
    "v2 systemd docker": (f"0::{V2_SYSTEMD.format(u=UNDER)}/docker-{ID}.scope\n", ID),
    "v2 systemd guaranteed": (
        f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/cri-containerd-{ID}.scope\n",
        ID,
    ),
    "v2 cgroupfs": (f"0::/kubepods/besteffort/pod{UID}/{ID}\n", ID),
    "v2 kind": (
        (
            f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
            f"kubelet-kubepods-besteffort-pod{UNDER}.slice/cri-containerd-{ID}.scope\n"
        ),
        ID,
    ),
    "v2 seen from a private namespace": (
        f"0::/../../kubepods-burstable-pod{UNDER}.slice/cri-containerd-{ID}.scope\n",
        ID,
    ),
    "v1 systemd": (
        (
            f"12:pids:{V2_SYSTEMD.format(u=UNDER)}/docker-{ID}.scope\n"
            f"11:memory:{V2_SYSTEMD.format(u=UNDER)}/docker-{ID}.scope\n1:name=systemd:/\n0::/system.slice\n"
        ),
        ID,
    ),
    "v1 cgroupfs": (
        f"11:cpu,cpuacct:/kubepods/burstable/pod{UID}/{ID}\n1:name=systemd:/kubepods/burstable/pod{UID}/{ID}\n",
        ID,
    ),
    "v1 containerd under the systemd driver": (
        f"11:memory:/system.slice/containerd.service/kubepods-burstable-pod{UNDER}.slice:cri-containerd:{ID}\n",
        ID,
    ),
    "a pod in a pod: the outer one is the node's": (
        f"0::{V2_SYSTEMD.format(u=UNDER)}/cri-containerd-{ID}.scope/kubepods/pod{OTHER}/{ID}\n",
        ID,
    ),
    "no container named": (f"0::/kubepods/burstable/pod{UID}/init\n", None),
}
NOBODY = {
    "the host": "0::/user.slice/user-1000.slice/session-3.scope\n",
    "the root": "12:pids:/\n0::/\n",
    "empty": "",
    "an agent's own view of its siblings": f"0::/../cri-containerd-{ID}.scope\n",
    "two pods": f"11:memory:/kubepods/pod{UID}/{ID}\n10:pids:/kubepods/pod{OTHER}/{ID}\n",
    "docker without Kubernetes": f"0::/system.slice/docker-{ID}.scope\n",
    "a name that only looks like it": f"0::/kubepods/xpod{UID}/{ID}\n",
    "a short uid": "0::/kubepods/pod1234/abc\n",
}


@pytest.mark.parametrize("name", RECORDED)
def test_control_groups_name_the_pod_and_the_container(name: str) -> None:
    text, container = RECORDED[name]

    assert pod_of_groups(text) == PeerPod(UID, container)


@pytest.mark.parametrize("name", NOBODY)
def test_control_groups_that_name_no_one_pod_name_nobody(name: str) -> None:
    assert pod_of_groups(NOBODY[name]) is None


def test_static_pods_have_uids_without_dashes() -> None:
    uid = "0123456789abcdef0123456789abcdef"

    assert pod_of_groups(f"0::/kubepods/burstable/pod{uid}/{ID}\n") == PeerPod(uid, ID)


def test_a_process_that_is_gone_is_in_no_pod(tmp_path: Path) -> None:
    assert CgroupPods(tmp_path).pod_of(4711) is None
    assert NamespacePods(tmp_path, tmp_path).pod_of(4711) is None


@pytest.mark.parametrize("noted", [None, "{", "[]", '{"uid": "u"}'])
def test_a_process_namespace_nobody_noted_names_nobody(tmp_path: Path, noted: str | None) -> None:
    own = Path("/proc/self/ns/pid").stat().st_ino
    if noted is not None:
        (tmp_path / str(own)).write_text(noted)

    assert NamespacePods(tmp_path).pod_of(os.getpid()) is None


def test_a_kubelet_without_control_groups_names_pods_by_process_namespaces(tmp_path: Path) -> None:
    own = Path("/proc/self/ns/pid").stat().st_ino
    (tmp_path / str(own)).write_text('{"uid": "u-1", "namespace": "n", "name": "p", "container": "trainer"}')

    assert NamespacePods(tmp_path).pod_of(os.getpid()) == PeerPod("u-1", container="trainer")


def recorded_proc(folder: Path, pid: int, groups: str) -> Path:
    process = folder / str(pid)
    process.mkdir(parents=True)
    (process / "cgroup").write_text(groups)
    return folder


def connected(folder: Path, code: str = "") -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Another process at the other end."""
    path = folder / "s"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    program = (
        f"import os, socket, sys, time; s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r}); {code}"
        "\ntime.sleep(60)"
    )
    process = tied_process.start([sys.executable, "-c", program])
    accepted, _ = listener.accept()
    listener.close()
    return accepted, process


def test_a_peer_is_the_pod_of_its_own_process(tmp_path: Path) -> None:
    accepted, process = connected(tmp_path)
    pods = CgroupPods(recorded_proc(tmp_path / "proc", process.pid, RECORDED["v2 cgroupfs"][0]))

    assert identify(accepted, pods, quiet_at=0.0) == PeerPod(UID, ID)

    process.kill()
    process.wait()
    accepted.close()


def test_a_peer_that_ended_is_refused_even_where_its_number_says_a_pod(tmp_path: Path) -> None:
    accepted, process = connected(tmp_path)
    pods = CgroupPods(recorded_proc(tmp_path / "proc", process.pid, RECORDED["v2 cgroupfs"][0]))
    process.kill()
    process.wait()

    with pytest.raises(PeerUnknown):
        identify(accepted, pods, quiet_at=time.clock_gettime(time.CLOCK_BOOTTIME))
    accepted.close()


def test_a_socket_handed_to_a_child_speaks_for_the_process_that_connected(tmp_path: Path) -> None:
    accepted, process = connected(tmp_path, "os.fork() and os._exit(0)")
    process.wait()  # the child lives on and holds the socket
    pods = CgroupPods(recorded_proc(tmp_path / "proc", process.pid, RECORDED["v2 cgroupfs"][0]))

    with pytest.raises(PeerUnknown):
        identify(accepted, pods, quiet_at=time.clock_gettime(time.CLOCK_BOOTTIME))
    os.killpg(process.pid, 9)
    accepted.close()


def test_without_a_handle_a_process_younger_than_the_queue_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_handle", lambda _: None)
    accepted, process = connected(tmp_path)
    pods = CgroupPods(recorded_proc(tmp_path / "proc", process.pid, RECORDED["v2 cgroupfs"][0]))
    started = peers.started_at(process.pid)

    assert identify(accepted, pods, quiet_at=started + 0.1) == PeerPod(UID, ID)
    with pytest.raises(PeerUnknown, match="too young"):
        identify(accepted, pods, quiet_at=started)

    process.kill()
    process.wait()
    accepted.close()


def test_a_process_outside_every_pod_is_refused(tmp_path: Path) -> None:
    accepted, process = connected(tmp_path)

    with pytest.raises(PeerUnknown, match="in no pod"):
        identify(accepted, CgroupPods(tmp_path / "proc"), quiet_at=0.0)

    process.kill()
    process.wait()
    accepted.close()
