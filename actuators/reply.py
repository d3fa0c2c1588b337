"""What a step answers, before it is an `Outcome` on the wire; and the exceptions that are answers.

    Answered                root: ends a step with an answer, from wherever in it
    ├── Refused             the world is not as the command supposes
    ├── Unsupported         there is no way to do this here
    ├── Blocked             an operator's setting forbids it
    ├── Waiting             begun, and something has to happen before it goes on: the core asks again
    ├── Failed              it was tried and did not succeed
    └── OutOfTime           the step's time is used up: pending, the core asks again

A step returns its `Reply` or raises one of these; nothing else leaves `actuators.perform`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schemas.commands import Command, Outcome, OutcomeResult

LONGEST_CAUSE = 200
LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; fields as in `schemas.commands.Outcome`."""

    result: OutcomeResult
    cause: str = ""
    detail: str = ""
    again: float | None = None
    """Seconds until a look is worth it."""
    told: int | None = None
    spare: bool | None = None
    epoch: int | None = None
    failed_on: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()

    def to_outcome(self, command: Command) -> Outcome:
        """On the wire, cut to what fits."""
        return Outcome(
            command=command.command,
            incident=command.incident,
            attempt=command.attempt,
            step=command.step,
            look=command.look,
            result=self.result,
            look_again_seconds=self.again,
            cause=self.cause[:LONGEST_CAUSE] or None,
            detail=self.detail[:LONGEST_TEXT] or None,
            told=self.told,
            spare=self.spare,
            epoch=self.epoch,
            failed_on=self.failed_on,
            effects=tuple(effect[:LONGEST_TEXT] for effect in self.effects),
        )


def done(
    *,
    told: int | None = None,
    spare: bool | None = None,
    epoch: int | None = None,
    effects: tuple[str, ...] = (),
) -> Reply:
    """The effect is there, as read from the world."""
    return Reply(OutcomeResult.DONE, told=told, spare=spare, epoch=epoch, effects=effects)


def pending(
    cause: str, *, again: float, told: int | None = None, detail: str = "", effects: tuple[str, ...] = ()
) -> Reply:
    """Begun, or to be begun; look again after `again` seconds."""
    return Reply(OutcomeResult.PENDING, cause=cause, detail=detail, again=again, told=told, effects=effects)


def failed(cause: str, *, detail: str = "", failed_on: tuple[str, ...] = ()) -> Reply:
    """It was tried and did not succeed. Never for trouble with the API: a failed healing isolates a node."""
    return Reply(OutcomeResult.FAILED, cause=cause, detail=detail, failed_on=failed_on)


class Answered(Exception):  # noqa: N818 - an answer, not an error
    """Ends a step with an answer."""

    result: ClassVar[OutcomeResult]

    def __init__(self, cause: str, detail: str = "", *, effects: tuple[str, ...] = ()) -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause
        self.detail = detail
        self.effects = effects

    def reply(self) -> Reply:
        """The answer it is."""
        return Reply(self.result, cause=self.cause, detail=self.detail, effects=self.effects)


class Refused(Answered):
    """The world is not as the command supposes: other epoch, other UID, a human's override."""

    result = OutcomeResult.REFUSED


class Unsupported(Answered):
    """There is no adapter, or the objects do not carry what the step needs."""

    result = OutcomeResult.UNSUPPORTED


class Blocked(Answered):
    """An operator's setting, or missing rights, forbid it."""

    result = OutcomeResult.BLOCKED


class Waiting(Answered):
    """Begun; what is waited for is the cause."""

    result = OutcomeResult.PENDING

    def __init__(self, cause: str, detail: str = "", *, again: float) -> None:
        super().__init__(cause, detail)
        self.again = again

    def reply(self) -> Reply:
        """With when to ask again."""
        return Reply(self.result, cause=self.cause, detail=self.detail, again=self.again)


class Failed(Answered):
    """Tried, and it did not succeed. Never for trouble with the API."""

    result = OutcomeResult.FAILED


class OutOfTime(Answered):
    """No call is begun any more: no command runs longer than 10 s (finding R29)."""

    result = OutcomeResult.PENDING

    def reply(self) -> Reply:
        """Asked to look at once: what is done stays done."""
        return Reply(self.result, cause=self.cause, detail=self.detail, again=1.0)
