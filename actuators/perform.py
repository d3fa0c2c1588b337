"""One command in, one outcome out, whatever happens in between.

Nothing is raised and nothing ends without an outcome. Trouble with the API is `unreachable`, never `failed`: a failed healing isolates a
node, and a silent API says nothing about one. A fault of our own is `refused` for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from actuators.registry import NOT_BUILT, STEPS
from actuators.reply import Answered, Blocked, Refused, Reply, Unsupported, pending
from actuators.world import World
from runtime import logs
from runtime.errors import (
    ApiConflict,
    ApiError,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiTooMany,
)
from schemas.commands import Command, Outcome, OutcomeResult

LONGEST_WAIT: Final = 600.0
"""Seconds: the longest an outcome may say."""

_ANSWERS: Final[dict[type[ApiError], Callable[[str], Answered]]] = {
    ApiForbidden: partial(Blocked, "rights"),
    ApiNotFound: partial(Refused, "gone"),
    ApiInvalid: partial(Refused, "not_admitted"),
}

_log = logs.get(__name__)


def perform(command: Command, world: World) -> Outcome:
    """Carry the command out."""
    return reply_to(command, world).to_outcome(command)


def reply_to(command: Command, world: World) -> Reply:
    """The answer to a command; never raises."""
    try:
        return _act(command, world)
    except Answered as answer:
        return answer.reply()
    except ApiError as error:
        return reply_to_trouble(error, world)
    except Exception as error:  # noqa: BLE001 - no fault of ours may end without an outcome
        _log.exception("a step broke", command=command.command, step=command.step)
        return Refused("error", f"a fault of relight's own: {error!r}").reply()


def _act(command: Command, world: World) -> Reply:
    step = STEPS.get(command.step)
    if step is None:
        raise Unsupported("not_built", NOT_BUILT)
    if step.writes and world.settings.dry_run:
        raise Blocked("guard:dry_run", f"{command.action} {command.step} was not carried out: dry run")
    if step.harms and world.settings.paused and command.action != "cancel":
        raise Blocked("guard:paused", "the operator paused everything that stops, isolates or ends")
    if step.harms and world.now() > command.not_after and command.action != "cancel":
        # The core took its silence for an answer long ago; that the epoch still stands says nothing of the cause (finding R23).
        raise Refused("too_late", f"not after {command.not_after.isoformat()}")
    return step.act(command)(command, world)


def reply_to_trouble(error: ApiError, world: World) -> Reply:
    """What trouble with the API means. Never `failed`."""
    said = str(error)
    for kind, answer in _ANSWERS.items():
        if isinstance(error, kind):
            return answer(said).reply()
    # Not sooner for a first look: a server in trouble is not to be asked more often.
    again = world.settings.look_again.total_seconds()
    if isinstance(error, ApiConflict):
        return pending("conflict", again=again, detail=said)
    wait = error.retry_after if isinstance(error, ApiTooMany) else again
    return Reply(OutcomeResult.UNREACHABLE, cause="api", detail=said, again=min(max(wait, 0.1), LONGEST_WAIT))
