"""Source: pods that stand still, and that they move again.

Of class exit: an edge that was dropped would never come again. While reports of pods wait for room nobody looks: what would show that a pod
lives may be among them. Nor while what is told would reach nobody at once: a stall that waits in the spool is acted on when it is long over,
and what takes the broker away may be what holds up the job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from producers.identity import Identity
from producers.observation import Batch, Observation, SignalClass, State
from producers.supervisors.standstills import Edge, Standstills
from schemas.signals import HangEvidence

NAME: Final = "hangs"
METHOD: Final = "steps"
"""Which rule saw it (`HangEvidence.method`): no word of the training processes, which told steps before."""


class Hangs:
    """The source."""

    name = NAME
    works = True

    def __init__(
        self,
        standstills: Standstills,
        identity: Identity,
        now: Callable[[], datetime],
        *,
        may_tell: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_tell`: whether all that pods said was taken, and what is told now is heard now."""
        self._standstills = standstills
        self._identity = identity
        self._now = now
        self._may_tell = may_tell
        self._every = standstills.settings.look_every.total_seconds()
        self._counted: dict[str, int] = {}

    def restore(self, state: State | None) -> None:
        """Go on behind this state."""
        self._standstills.restore(state)

    def counts(self) -> dict[str, int]:
        """Edges told."""
        counted, self._counted = self._counted, {}
        return counted

    async def next(self) -> Batch:
        """Wait for an edge."""
        while True:
            if self._may_tell() and (edges := self._standstills.look()):
                told = tuple(self._observation(edge) for edge in edges)
                return Batch(SignalClass.EXIT, told, self._standstills.state())
            await asyncio.sleep(self._every)

    def _observation(self, edge: Edge) -> Observation:
        now = self._now()
        name = f"pods_{edge.state}"
        self._counted[name] = self._counted.get(name, 0) + 1
        signal = HangEvidence(
            node=self._identity.node,
            placement=edge.peer.placement,
            state=edge.state,
            method=METHOD,
            last_progress=edge.last_progress,
            start=edge.launch,
        )
        place = (edge.peer.key, edge.launch, edge.state, now.isoformat())
        return Observation(signal, self._identity.derive(HangEvidence.TYPE, *place), now)
