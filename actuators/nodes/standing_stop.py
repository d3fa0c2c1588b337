"""The stop that stands while chips are repaired: nothing is ordered without it, nothing outlasts it, and a long repair keeps it standing.

A stop ends by itself at its `until`; then the processes run again, relight or no relight. So a repair order carries the earliest of these ends
and the agent's reset is over by then. A hold moves the repair's deadline on: then the stop is renewed, under conditions, as it stands on each
pod. One that is about to end, or did, is never brought back: its processes may run already, and a supervisor that runs them would take the
renewed order for one it has obeyed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from actuators.jobs.run_objects import RunObject, has_ended, pods_of
from actuators.pods.desired_state import order_of, tell
from actuators.reply import Refused
from actuators.world import World
from runtime.kubernetes import Object
from schemas.cluster import Desired, ProcessOrder
from schemas.commands import Command

LEAST: Final = timedelta(seconds=10)
"""A stop with less time left counts as over: writing takes a moment, and clocks differ."""


@dataclass(frozen=True, slots=True)
class StandingStop:
    """When the processes of all pods stay stopped until; or on which pod no stop of this attempt stands."""

    ends: datetime | None
    missing: str = ""

    def need(self) -> datetime | None:
        """The end; None where no pod lives. Raises Refused: without a stop that stands nothing is repaired."""
        if self.missing:
            raise Refused("not_stopped", self.missing)
        return self.ends


def keep_standing(command: Command, run: RunObject, until: datetime | None, world: World) -> StandingStop:
    """Read the stop on every pod that lives; renew what fell behind `until`."""
    now = world.now()
    pods = [pod for pod in pods_of(run, world) if not has_ended(pod)]
    standing: dict[str, Desired] = {}
    ends: dict[str, datetime] = {}
    missing = ""
    for pod in pods:
        name = pod["metadata"]["name"]
        stands = order_of(pod)
        wanted = (run.epoch, command.attempt, ProcessOrder.STOP)
        if stands is None or (stands.epoch, stands.attempt, stands.state) != wanted or stands.until is None:
            missing = missing or f"pod {name} is not told to stop for this attempt"
        elif stands.until - LEAST <= now:
            missing = missing or (
                f"the stop of the processes ended by itself, or is about to, at {stands.until.isoformat()}"
            )
        else:
            standing[pod["metadata"]["uid"]], ends[name] = stands, stands.until
    earliest = min(ends.values(), default=None)
    if until is not None and earliest is not None and until - earliest >= world.settings.renew_behind:
        earliest = _renew(pods, standing, until, earliest, world)
    return StandingStop(earliest, missing)


def _renew(
    pods: list[Object], standing: Mapping[str, Desired], until: datetime, earliest: datetime, world: World
) -> datetime:
    """The end there is now: the old one where not everybody could be told."""

    def renewed(pod: Object) -> Desired:
        was = standing[pod["metadata"]["uid"]]
        stands = order_of(pod)
        if stands is not None and stands.rank() != was.rank():
            return stands  # told something newer meanwhile: it stays
        return was.model_copy(update={"until": max(until, was.until or until)})

    mine = [pod for pod in pods if pod["metadata"]["uid"] in standing]
    tally = tell(mine, renewed, world)
    if tally.missed or tally.superseded:
        return earliest
    return until - world.settings.renew_behind if tally.standing else until


__all__ = ["LEAST", "StandingStop", "keep_standing"]
