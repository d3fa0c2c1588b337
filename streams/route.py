"""The route, once: to which mailboxes a signal or a fact goes (design 2).

What is stamped with a run goes to the run. A chip fault or an exit goes to the node as well, as evidence; a node's condition to the node only,
which hands it on to the runs that live there.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Final

from schemas.envelope import Payload
from schemas.facts import IssueState, NodeGone, NodeSeen, PodBound, PodEnded, RunEnded, RunSeen
from schemas.ids import Subject, node_subject, run_subject
from schemas.signals import (
    ChipFault,
    Heartbeat,
    NodeCondition,
    ProcessExit,
    RepairResult,
    Signal,
    SignalGap,
)

NOBODY: Final[tuple[Subject, ...]] = ()


@singledispatch
def mailboxes(payload: Payload) -> tuple[Subject, ...]:
    """Subjects a payload is meant for; nobody when it is no signal and no fact, or names neither run nor node."""
    del payload
    return NOBODY


@mailboxes.register
def _(payload: Signal) -> tuple[Subject, ...]:
    if payload.placement is not None:
        return (run_subject(payload.placement.run),)
    if payload.node is not None:
        return (node_subject(payload.node.uid),)
    return NOBODY


@mailboxes.register(ChipFault)
@mailboxes.register(ProcessExit)
def _(payload: ChipFault | ProcessExit) -> tuple[Subject, ...]:
    run = () if payload.placement is None else (run_subject(payload.placement.run),)
    node = () if payload.node is None else (node_subject(payload.node.uid),)
    return run + node


@mailboxes.register(NodeCondition)
@mailboxes.register(Heartbeat)
@mailboxes.register(SignalGap)
@mailboxes.register(RepairResult)
@mailboxes.register(NodeSeen)
@mailboxes.register(NodeGone)
def _(
    payload: NodeCondition | Heartbeat | SignalGap | RepairResult | NodeSeen | NodeGone,
) -> tuple[Subject, ...]:
    return (node_subject(payload.node.uid),)


@mailboxes.register(RunSeen)
@mailboxes.register(RunEnded)
@mailboxes.register(IssueState)
def _(payload: RunSeen | RunEnded | IssueState) -> tuple[Subject, ...]:
    return (run_subject(payload.run),)


@mailboxes.register(PodBound)
@mailboxes.register(PodEnded)
def _(payload: PodBound | PodEnded) -> tuple[Subject, ...]:
    return (run_subject(payload.placement.run), node_subject(payload.node.uid))
