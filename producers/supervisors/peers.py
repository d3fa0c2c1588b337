"""Who is at the other end of the socket, by the kernel's word and nobody else's (design 11).

The kernel keeps the process that connected; its control group names the pod, as every kubelet and container runtime writes it (cgroup v1 and
v2, systemd and cgroupfs drivers; containerd, CRI-O, Docker). Only the outermost group that names a pod counts: a pod that may make groups of
its own makes them below that one.

A process number may be used again. Where the kernel gives a handle of the peer itself (SO_PEERPIDFD, Linux 6.5) the number is read through
it. Elsewhere the process must be older than the last moment at which nobody waited to be accepted: a number that was used again after the
connection was made belongs to a younger process. Whoever ended meanwhile, or is too young to tell, is refused and connects again.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from producers.errors import PeerUnknown

PROC: Final = Path("/proc")
SO_PEERPIDFD: Final = 77
_CREDENTIALS: Final = struct.Struct("3i")
_PARENT_FIELD: Final = 1  # of /proc/PID/stat behind the name
_START_FIELD: Final = 19  # start time in ticks since the boot
MOST_ANCESTORS: Final = 64
_UID: Final = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD: Final = re.compile(
    rf"^(?:(?:[a-z0-9]+-)*kubepods(?:-burstable|-besteffort)?-)?pod({_UID})(?:\.slice)?$"
)
_CONTAINER: Final = re.compile(r"^(?:(?:cri-containerd|crio|docker|libpod)[-:])?([0-9a-f]{64})(?:\.scope)?$")
_BEHIND_POD: Final = re.compile(r"^([^:]+\.slice):(?:cri-containerd|crio|docker)$")


@dataclass(frozen=True, slots=True)
class PeerPod:
    """The pod a process is in, and its container's id where the group says it."""

    uid: str
    container_id: str | None = None
    container: str | None = None
    """Its name, where a kubelet says it rather than an id."""


class PodResolver(Protocol):
    """Knows the pod of a process."""

    def pod_of(self, pid: int) -> PeerPod | None:
        """None when the process is in no pod, or gone."""
        ...


class CgroupPods:
    """Pods by control groups: the production's word."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc

    def pod_of(self, pid: int) -> PeerPod | None:
        """The pod all hierarchies agree on."""
        try:
            text = (self._proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return pod_of_groups(text)


class NamespacePods:
    """Pods by what a kubelet that makes no control groups notes in a folder: whose a mark of a process is (see `marks`)."""

    def __init__(self, folder: Path, proc: Path = PROC) -> None:
        """A file is JSON, `{"uid": "...", "container": "..."}`; only the kubelet may write there."""
        self._folder = folder
        self._proc = proc

    def pod_of(self, pid: int) -> PeerPod | None:
        """Whose the first mark is that was noted."""
        for mark in marks(pid, self._proc):
            try:
                noted = json.loads((self._folder / mark).read_text(encoding="utf-8"))
                return PeerPod(str(noted["uid"]), container=str(noted["container"]))
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError):
                return None
        return None


def marks(pid: int, proc: Path = PROC) -> Iterator[str]:
    """Names a container may be noted by: the process namespace's number, then the process itself and its ancestors, the nearest first."""
    try:
        yield str((proc / str(pid) / "ns" / "pid").stat().st_ino)
    except OSError:
        return
    for _ in range(MOST_ANCESTORS):
        mark = process_mark(pid, proc)
        if mark is None:
            return
        yield mark
        pid = _parent_of(pid, proc)


def process_mark(pid: int, proc: Path = PROC) -> str | None:
    """A process and when it began, so that nobody who gets its number later is taken for it. None: it is gone."""
    fields = _stat(pid, proc)
    return None if fields is None else f"{pid}-{fields[_START_FIELD]}"


def _parent_of(pid: int, proc: Path) -> int:
    fields = _stat(pid, proc)
    return 0 if fields is None else int(fields[_PARENT_FIELD])


def _stat(pid: int, proc: Path) -> list[str] | None:
    """Fields of `/proc/PID/stat` behind the name."""
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return fields if len(fields) > _START_FIELD else None


def pod_of_groups(text: str) -> PeerPod | None:
    """Read `/proc/PID/cgroup`. None when no group names a pod, or two groups name different ones."""
    found = {pod for line in text.splitlines() if (pod := _pod_of_path(line.split(":", 2)[-1])) is not None}
    uids = {pod.uid for pod in found}
    if len(uids) != 1:
        return None
    containers = {pod.container_id for pod in found} - {None}
    return PeerPod(uids.pop(), containers.pop() if len(containers) == 1 else None)


def _pod_of_path(path: str) -> PeerPod | None:
    parts: list[str] = []
    for part in path.split("/"):  # cgroup v1 under containerd's systemd driver: `<slice>:cri-containerd:<id>`
        slice_, colon, rest = part.partition(":")
        parts += [slice_, rest.replace(":", "-", 1)] if colon and slice_.endswith(".slice") else [part]
    for place, part in enumerate(parts):
        pod = _POD.match(part)
        if pod is None:
            continue
        inside = parts[place + 1] if place + 1 < len(parts) else ""
        container = _CONTAINER.match(inside)
        return PeerPod(_uid(pod[1]), None if container is None else container[1])
    return None


def _uid(text: str) -> str:
    return text.replace("_", "-")


def identify(peer: socket.socket, pods: PodResolver, *, quiet_at: float, proc: Path = PROC) -> PeerPod:
    """The pod of who connected. `quiet_at`: when nobody waited to be accepted, seconds since the boot. Raises PeerUnknown."""
    try:
        handle = _handle(peer)
        pid = _pid_of_handle(handle, proc) if handle is not None else _pid_of(peer)
    except OSError as error:
        raise PeerUnknown(f"the process is gone: {error}") from error
    try:
        if pid <= 0:
            raise PeerUnknown(
                "the process is in no namespace we see; right would be the host's process namespace"
            )
        if handle is None and started_at(pid, proc) >= quiet_at:
            raise PeerUnknown(f"process {pid} is too young to be told from one that used its number before")
        found = pods.pod_of(pid)
        if handle is not None and _ended(handle):
            raise PeerUnknown(f"process {pid} ended meanwhile")
    finally:
        if handle is not None:
            os.close(handle)
    if found is None:
        raise PeerUnknown(f"process {pid} is in no pod")
    return found


def started_at(pid: int, proc: Path = PROC) -> float:
    """Seconds from the boot to the start of a process. Raises PeerUnknown."""
    fields = _stat(pid, proc)
    if fields is None or not fields[_START_FIELD].isdigit():
        raise PeerUnknown(f"process {pid} cannot be read")
    return int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")


def _pid_of(peer: socket.socket) -> int:
    pid: int = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[
        0
    ]
    return pid


def _handle(peer: socket.socket) -> int | None:
    try:
        return peer.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:  # a kernel before 6.5
            return None
        raise


def _pid_of_handle(handle: int, proc: Path) -> int:
    for line in (proc / "self" / "fdinfo" / str(handle)).read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "Pid":
            return int(value)
    return 0


def _ended(handle: int) -> bool:
    looking = select.poll()
    looking.register(handle, select.POLLIN)
    return bool(looking.poll(0))
