"""Messages between mailboxes, ticks, and operators' orders: what stands in the inbox besides signals, facts and outcomes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, Field

from schemas.envelope import Payload
from schemas.signals import ChipRef, CodeText, LogText, Name, NodeRef, Placement, ShortText


class Tick(Payload):
    """A due time of a cell has come. Carries that time, so that a tick for a cell that moved on changes nothing."""

    TYPE: ClassVar[str] = "dev.relight.mailbox.tick.v1"
    kind: Literal["tick"] = "tick"
    cell: Name
    due: AwareDatetime


class HoldCause(Payload):
    """Why a node is to be isolated: chip or condition, code, and the evidence. Identity of a hold is (namespace, code, chip)."""

    namespace: CodeText
    code: CodeText
    chip: ChipRef | None = None
    evidence: Name
    ladder_class: ShortText
    seen_at: AwareDatetime


class HoldRequest(Payload):
    """A run asks its node to be held for a cause (finding Q4: only the node's mailbox isolates and releases)."""

    TYPE: ClassVar[str] = "dev.relight.mailbox.hold_request.v1"
    kind: Literal["hold_request"] = "hold_request"
    node: NodeRef
    run: Name
    incident: Name
    attempt: Annotated[int, Field(ge=0)]
    cause: HoldCause
    reason: LogText
    rule: ShortText


class HoldAnswer(Payload):
    """The node's answer: held, blocked by a guard, or refused."""

    TYPE: ClassVar[str] = "dev.relight.mailbox.hold_answer.v1"
    kind: Literal["hold_answer"] = "hold_answer"
    node: NodeRef
    incident: Name
    attempt: Annotated[int, Field(ge=0)]
    answer: Literal["held", "blocked", "refused"]
    cause: ShortText | None = None


class NodeNews(Payload):
    """The node hands a fault of its own, or of an unstamped chip, on to a run that lives on it."""

    TYPE: ClassVar[str] = "dev.relight.mailbox.node_news.v1"
    kind: Literal["node_news"] = "node_news"
    node: NodeRef
    placement: Placement
    namespace: CodeText
    code: CodeText
    chip: ChipRef | None = None
    state: Literal["asserted", "cleared", "once"]
    evidence: Name
    seen_at: AwareDatetime
    severity: ShortText | None = None
    product: ShortText | None = None
    """Product the code was reported for; with the severity it decides the class where the table has no row."""
    detail: LogText | None = None


class Order(Payload):
    """Base of what an operator orders through the command line."""

    by: ShortText
    """Who ordered it, as the command line knows it."""
    reason: LogText


class PauseOrder(Order):
    """Freeze the clocks of a subject's incident; `until` bounds it, None needs a resume."""

    TYPE: ClassVar[str] = "dev.relight.order.pause.v1"
    kind: Literal["pause"] = "pause"
    until: AwareDatetime | None = None


class ResumeOrder(Order):
    """End a pause, or take a halted subject up again from a resync."""

    TYPE: ClassVar[str] = "dev.relight.order.resume.v1"
    kind: Literal["resume"] = "resume"


class ReleaseNodeOrder(Order):
    """Release a node as a human: all holds end, what is pending is cancelled, nothing is checked."""

    TYPE: ClassVar[str] = "dev.relight.order.release_node.v1"
    kind: Literal["release_node"] = "release_node"


class CancelIncidentOrder(Order):
    """End the open incident by its shortest safe end."""

    TYPE: ClassVar[str] = "dev.relight.order.cancel_incident.v1"
    kind: Literal["cancel_incident"] = "cancel_incident"


class RulebookSwitch(Payload):
    """From here on this partition decides by that rulebook; written to every inbox partition explicitly (finding Q25)."""

    TYPE: ClassVar[str] = "dev.relight.mailbox.rulebook_switch.v1"
    kind: Literal["rulebook_switch"] = "rulebook_switch"
    rulebook: Name
    released_by: ShortText


class PartitionGap(Payload):
    """The stage's position fell below the start of the inbox log: what stood between is lost and the subjects revalidate."""

    TYPE: ClassVar[str] = "dev.relight.mailbox.partition_gap.v1"
    kind: Literal["partition_gap"] = "partition_gap"
    first_lost: Annotated[int, Field(ge=0)]
    first_kept: Annotated[int, Field(ge=0)]


MAILBOX: tuple[type[Payload], ...] = (
    Tick,
    HoldRequest,
    HoldAnswer,
    NodeNews,
    PauseOrder,
    ResumeOrder,
    ReleaseNodeOrder,
    CancelIncidentOrder,
    RulebookSwitch,
    PartitionGap,
)
