"""What telling pods comes to, as a step's answer."""

from __future__ import annotations

from actuators.pods.desired_state import Tally
from actuators.reply import Refused, Reply, done, pending
from actuators.world import World
from schemas.commands import OutcomeResult


def reply_of(tally: Tally, what: str, world: World) -> Reply:
    """Done when all were told. Raises Refused when a higher order stands on a pod: this one is old news."""
    if tally.superseded:
        raise Refused(
            "superseded", f"{tally.superseded} pods have been told something newer than this {what}"
        )
    effects = (tally.in_words(what),)
    if not tally.missed:
        return done(told=tally.told, effects=effects)
    if not tally.told and tally.away == tally.missed:
        return Reply(
            OutcomeResult.UNREACHABLE, cause="api", detail=f"none of {tally.missed} pods could be told"
        )
    return pending("telling", again=min(1.0, world.again), told=tally.wanted, effects=effects)
