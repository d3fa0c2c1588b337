"""Records for people and other systems: decisions, incidents, released rulebooks."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AwareDatetime, Field

from schemas.envelope import Payload
from schemas.signals import LogText, Name, ShortText


class FaultDomain(StrEnum):
    """What a fault can take down (seed 002, section 1). The ladder acts on the first four, the others notify."""

    PROCESS = "process"
    POD = "pod"
    NODE = "node"
    NETWORK = "network"
    CLUSTER = "cluster"
    REGION = "region"
    DATA_OR_MODEL = "data_or_model"


class Counters(Payload):
    """Budgets and chains as they stand after a decision; both are in every decision (recovery 2)."""

    job_retries_used: int = 0
    job_retry_num: int = 0
    pod_retries_used: int = 0
    pod_retry_num: int = 0
    unconditional_chain: int = 0
    hang_chain: int = 0
    schedule_count: int = 1
    in_place_since_progress: int = 0


class Considered(Payload):
    """A rule that was looked at and why it did not decide."""

    rule: ShortText
    row: ShortText
    outcome: Literal["matched", "shadow", "not_matched", "not_affordable", "disabled", "merged"]
    detail: LogText | None = None


class Decision(Payload):
    """What was decided about a message that reached a rule's index, "nothing, because" included."""

    TYPE: ClassVar[str] = "dev.relight.decision.v1"
    kind: Literal["decision"] = "decision"
    verdict: ShortText
    """`record`, `merge`, `hold`, a strategy's id, `fail_job`, `release_job`, `correct`, ..."""
    rule: ShortText
    row: ShortText
    """Row of the ladder in the docs."""
    mode: Literal["enforce", "shadow"] = "enforce"
    reason: LogText
    rulebook: ShortText
    trigger: Name
    trigger_time: AwareDatetime
    incident: Name | None = None
    attempt: Annotated[int, Field(ge=0)] | None = None
    domain: FaultDomain
    code: ShortText | None = None
    node: ShortText | None = None
    chip: ShortText | None = None
    count: Annotated[int, Field(ge=0)] | None = None
    """Occurrences in the rule's window, this one included."""
    flags: tuple[ShortText, ...] = ()
    """Circumstances worth counting: `clamped`, `software_filtered`, `not_isolated`, `no_spare`, `late`, ..."""
    counters: Counters | None = None
    considered: tuple[Considered, ...] = ()


class IncidentState(StrEnum):
    """Life of an incident."""

    ATTRIBUTING = "attributing"
    ACTING = "acting"
    STABILISING = "stabilising"
    CLOSED = "closed"


class IncidentResult(StrEnum):
    """How an incident ended."""

    RECOVERED = "recovered"
    FAILED = "failed"
    RELEASED = "released"
    INCOMPLETE = "incomplete"
    """Restarted, but nobody said that throughput came back."""
    CANCELLED = "cancelled"
    RUN_ENDED = "run_ended"


class Incident(Payload):
    """Current state of one incident, compacted by its id, for consumers."""

    TYPE: ClassVar[str] = "dev.relight.incident.v1"
    kind: Literal["incident"] = "incident"
    incident: Name
    state: IncidentState
    result: IncidentResult | None = None
    result_cause: ShortText | None = None
    opened_at: AwareDatetime
    fault_time: AwareDatetime
    updated_at: AwareDatetime
    attempt: Annotated[int, Field(ge=0)]
    strategy: ShortText | None = None
    step: ShortText | None = None
    trigger: Name
    domain: FaultDomain
    nodes: tuple[ShortText, ...] = ()
    chips: tuple[ShortText, ...] = ()
    epoch: Annotated[int, Field(ge=0)]
    paused: bool = False
    rulebook: ShortText


class RulebookRelease(Payload):
    """A compiled rulebook and who released it; its key is the hash of its content."""

    TYPE: ClassVar[str] = "dev.relight.rulebook.v1"
    kind: Literal["rulebook"] = "rulebook"
    rulebook: Name
    released_by: ShortText
    released_at: AwareDatetime
    title: ShortText = ""
    content: dict[str, Any]


RECORDS: tuple[type[Payload], ...] = (Decision, Incident, RulebookRelease)
