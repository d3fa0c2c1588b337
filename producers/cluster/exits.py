"""Exits of processes, in the kubelet's words, where no supervisor tells them.

(pod, start) is the identity of an exit, the same from every reporter. Unsupervised, a start is a start of the container. Supervised, the number
of a start is the supervisor's, and what kills it with its child (out of memory, SIGKILL) is told by the node agent, which has heard the
number. Where the agent has been silent for a while nobody has told it, and it is told from here, with a number above all that supervisors
count: it cannot pass for an exit that was told before. Where nothing is known of agents it has the container's own number, which is at or
below theirs: right for the first start, and never counted again for a later one. The end of a container in a pod that is being deleted or
evicted is that deletion, no end of its own.
"""

from __future__ import annotations

from typing import Final, Literal

from producers.cluster.pods import ContainerEnd, Pod
from producers.told_ends import LAST_SIGNAL, SIGNALLED, is_kill
from schemas.signals import NodeRef, ProcessExit

UNNUMBERED: Final = 1_000_000_000
"""Above every start a supervisor counts: the start of an exit whose number nobody alive knows."""
Agent = Literal["speaks", "silent", "unknown"]
"""The node agent beside a pod, by its own pod."""


def exits(
    pod: Pod, run: str, node: NodeRef, told: int, agent: Agent
) -> list[tuple[ProcessExit, ContainerEnd]]:
    """Exits above the start that was last told, oldest first."""
    if pod.deleting or pod.disruption:
        return []
    base = UNNUMBERED if pod.supervised and agent == "silent" else 0
    return [
        (_exit(pod, run, node, end, base + end.restarts + 1), end)
        for end in pod.ends
        if end.restarts + 1 > told % UNNUMBERED and _is_ours(pod, end, agent)
    ]


def _is_ours(pod: Pod, end: ContainerEnd, agent: Agent) -> bool:
    return not pod.supervised or (agent != "speaks" and is_kill(end.exit_code, oom=end.oom))


def _exit(pod: Pod, run: str, node: NodeRef, end: ContainerEnd, start: int) -> ProcessExit:
    number = end.exit_code - SIGNALLED
    placement = pod.placement(run).model_copy(update={"container": end.container[:200]})
    return ProcessExit(
        node=node,
        placement=placement,
        start=start,
        exit_code=end.exit_code,
        signal=number if 0 < number <= LAST_SIGNAL else None,
        oom=end.oom,
    )
