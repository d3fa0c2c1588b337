"""Which pod a process belongs to: what a node agent on a real node reads from the process's cgroup.

A file says whose a mark is that all processes of a container have in common: the inode of their process namespace or, where a container has
none of its own, the program that is above them all. So it holds for whatever a container starts, from any process of the machine, without
asking the kubelet.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from producers.supervisors.peers import marks

FOLDER: Final = "process-namespaces"  # in the kubelet's own folder


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """A container of a pod, by the pod's UID."""

    uid: str
    namespace: str
    name: str
    container: str


@dataclass(frozen=True, slots=True)
class Owner:
    """An identity and the kubelet's folder in which it is noted."""

    kubelet_folder: Path
    identity: PodIdentity


def note(owner: Owner, mark: str) -> Path:
    """Note whose a mark is (see `producers.supervisors.peers.marks`), until the returned file is removed."""
    folder = owner.kubelet_folder / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / mark
    part = file.with_suffix(".part")
    part.write_text(json.dumps(asdict(owner.identity)), encoding="utf-8")
    part.rename(file)  # whoever reads finds it whole
    return file


def pod_of(kubelet_folder: Path, pid: int) -> PodIdentity | None:
    """Whose a process is; None for one that is gone or belongs to no container of this kubelet."""
    for mark in marks(pid):
        try:
            noted = (kubelet_folder / FOLDER / mark).read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        return PodIdentity(**json.loads(noted))
    return None
