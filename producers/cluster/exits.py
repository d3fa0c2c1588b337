"""Exits of processes, in the kubelet's words, where no supervisor tells them.

(pod, start) is the identity of an exit, the same from every reporter. Unsupervised, a start is a start of the container. Supervised, the
supervisor has told its own exits long before the container ends, with its own numbers, which are never lower; so the kubelet's word is used
only for what kills the supervisor with its child (out of memory, SIGKILL), and its number, counted in containers, is at or below theirs:
whatever was told already is not counted again. The end of a container in a pod that is being deleted or evicted is that deletion, no end of
its own.
"""

from __future__ import annotations

from typing import Final

from producers.cluster.pods import ContainerEnd, Pod
from schemas.signals import NodeRef, ProcessExit

_SIGNALLED: Final = 128
_KILLED: Final = 137
_LAST_SIGNAL: Final = 64


def exits(pod: Pod, run: str, node: NodeRef, told: int) -> list[tuple[ProcessExit, ContainerEnd]]:
    """Exits above the start that was last told, oldest first."""
    if pod.deleting or pod.disruption:
        return []
    return [
        (_exit(pod, run, node, end), end)
        for end in pod.ends
        if end.restarts + 1 > told and (not pod.supervised or end.oom or end.exit_code == _KILLED)
    ]


def _exit(pod: Pod, run: str, node: NodeRef, end: ContainerEnd) -> ProcessExit:
    number = end.exit_code - _SIGNALLED
    placement = pod.placement(run).model_copy(update={"container": end.container[:200]})
    return ProcessExit(
        node=node,
        placement=placement,
        start=end.restarts + 1,
        exit_code=end.exit_code,
        signal=number if 0 < number <= _LAST_SIGNAL else None,
        oom=end.oom,
    )
