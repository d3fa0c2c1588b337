"""Who speaks: the cluster and the node a source looks at, and the mailboxes its signals are meant for."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.ids import Subject, derive_id, node_subject, run_subject
from schemas.signals import NodeRef, Signal


@dataclass(frozen=True, slots=True)
class Identity:
    """The cluster and the node; part of every id a source derives."""

    cluster: str
    node: NodeRef

    def derive(self, *parts: str | int) -> str:
        """Event id for what this node saw there."""
        return derive_id(self.cluster, self.node.uid, *parts)


def subject_of(signal: Signal) -> Subject | None:
    """Mailbox a signal is about: the run where it is placed, else the node; None when it names neither."""
    if signal.placement is not None:
        return run_subject(signal.placement.run)
    if signal.node is not None:
        return node_subject(signal.node.uid)
    return None
