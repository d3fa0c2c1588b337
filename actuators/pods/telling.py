"""What telling pods comes to, as a step's answer."""

from __future__ import annotations

from actuators.pods.desired_state import Tally
from actuators.reply import Refused, Reply, done, pending
from actuators.world import World
from schemas.commands import OutcomeResult
from schemas.wording import agreeing, counted


def reply_of(tally: Tally, what: str, world: World) -> Reply:
    """Done when all were told. Raises Refused when a higher order stands on a pod: this one is old news."""
    if tally.superseded:
        pods = f"{counted(tally.superseded, 'pod')} {agreeing(tally.superseded, 'has', 'have')}"
        raise Refused("superseded", f"{pods} been told something newer than this {what}")
    effects = (tally.in_words(what),)
    if not tally.missed:
        return done(told=tally.told, effects=effects)
    if not tally.told and tally.away == tally.missed:
        return Reply(
            OutcomeResult.UNREACHABLE,
            cause="api",
            detail=f"none of {counted(tally.missed, 'pod')} could be told",
        )
    return pending("telling", again=min(1.0, world.again), told=tally.wanted, effects=effects)
