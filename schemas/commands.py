"""Commands to actuators, and their outcomes.

A step is one idempotent action with a deadline. No command runs longer than 10 s: an actuator begins, answers `pending` with when to
look again, and is asked to look (finding R29). The command id is (incident, attempt, step): the same order sent twice has one effect.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AwareDatetime, Field

from schemas.envelope import Payload
from schemas.signals import LogText, Name, ShortText


class StepName(StrEnum):
    """Steps an actuator can be asked for; a rulebook's strategies are lists of these."""

    STOP_PROCESSES = "stop_processes"
    HEAL_CHIPS = "heal_chips"
    START_PROCESSES = "start_processes"
    FIND_SPARE = "find_spare"
    ISOLATE_NODE = "isolate_node"
    RELEASE_NODE = "release_node"
    SUSPEND_JOB = "suspend_job"
    RESUME_JOB = "resume_job"
    DELETE_PODS = "delete_pods"
    SAVE_CHECKPOINT = "save_checkpoint"
    FAIL_JOB = "fail_job"
    RELEASE_JOB = "release_job"
    NOTIFY = "notify"


class Command(Payload):
    """Do this step: `begin` it, `look` how it stands, or `cancel` what is not done yet."""

    TYPE: ClassVar[str] = "dev.relight.command.v1"
    kind: Literal["command"] = "command"
    command: Name
    incident: Name
    attempt: Annotated[int, Field(ge=0)]
    step: StepName
    index: Annotated[int, Field(ge=0)]
    """Position of the step in its strategy."""
    action: Literal["begin", "look", "cancel"] = "begin"
    look: Annotated[int, Field(ge=0)] = 0
    """How many looks went before."""
    subject: Name
    epoch: Annotated[int, Field(ge=0)] = 0
    """Epoch of the run the step is meant for; an actuator refuses when the world is at another."""
    deadline: AwareDatetime
    not_after: AwareDatetime
    """Past this the step acts only if the world still shows the cause at this epoch (finding R23)."""
    reason: LogText
    rulebook: ShortText
    trigger: Name
    """Event that caused the decision."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Typed by step; see docs/topics."""


class OutcomeResult(StrEnum):
    """What became of a command."""

    DONE = "done"
    PENDING = "pending"
    FAILED = "failed"
    REFUSED = "refused"
    """The world is not as the command supposes (other epoch, other UID, a human's override)."""
    BLOCKED = "blocked"
    """A guard of the operator forbids it."""
    UNSUPPORTED = "unsupported"
    UNREACHABLE = "unreachable"
    """The API did not answer: nothing is known, nothing may be concluded."""


class Outcome(Payload):
    """What became of a command, sent to the mailbox of the subject that asked."""

    TYPE: ClassVar[str] = "dev.relight.outcome.v1"
    kind: Literal["outcome"] = "outcome"
    command: Name
    incident: Name
    attempt: Annotated[int, Field(ge=0)]
    step: StepName
    look: Annotated[int, Field(ge=0)] = 0
    result: OutcomeResult
    look_again_seconds: Annotated[float, Field(gt=0, le=600)] | None = None
    cause: ShortText | None = None
    """Short cause for anything but `done`: `no_capacity`, `guard:rate`, `still_faulty`, ..."""
    detail: LogText | None = None
    told: Annotated[int, Field(ge=0)] | None = None
    """stop_processes, start_processes: how many pods were told."""
    spare: bool | None = None
    """find_spare: there is room; a dated hint, not a promise."""
    epoch: Annotated[int, Field(ge=0)] | None = None
    """resume_job: epoch of the issue that was started."""
    failed_on: tuple[Name, ...] = ()
    """heal_chips: UIDs of the nodes on which it failed; empty: on all it was asked for."""
    effects: tuple[LogText, ...] = ()
    """What was written, for the audit trail."""
