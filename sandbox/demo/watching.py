"""Looks at the world from outside, again and again, from a thread of its own: topics, API, files of the job. Nothing is asked of the players.

What it finds it tells as happenings, in order, and keeps as the latest `Glance`. A look that fails (the API is away) is left out: the next one
sees what is there then.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Self

from runtime import paths
from runtime.errors import ApiError
from runtime.kubernetes import Object
from sandbox.demo.happening import Happening, Kind, Teller
from sandbox.demo.world import World
from sandbox.stage.records import Records
from sandbox.stage.training_job import Start
from schemas import topics
from schemas.cluster import JOB_UID_LABEL
from schemas.envelope import Event

EVERY: Final = 0.25
TOPICS: Final = (topics.SIGNALS, topics.DECISIONS, topics.COMMANDS, topics.INBOX, topics.INCIDENTS)
TWICE: Final = frozenset({topics.INBOX.name})
"""Of the mailboxes only outcomes are told: signals come by them a second time."""

Tell = Callable[[Happening], None]


@dataclass(frozen=True)
class Glance:
    """The world at one moment."""

    at: datetime
    nodes: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    events: Sequence[Event] = ()
    """Everything in the topics, in the order of times."""
    starts: Sequence[Start] = ()
    arrived: Mapping[str, datetime] = field(default_factory=dict)
    """When the broker had each event, by its id."""


class Watching:
    """``with Watching(world, tell) as watching: ... watching.glance``."""

    def __init__(self, world: World, tell: Tell) -> None:
        self._world = world
        self._tell = tell
        self._teller = Teller(world.job.ranks)
        self._told: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)
        self.glance = Glance(datetime.now(UTC))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def say(self, text: str) -> None:
        """Tell what we do ourselves."""
        self._tell(Happening(datetime.now(UTC), Kind.STAGE, text))

    def _run(self) -> None:
        records = Records(self._world.stage.settings())
        try:
            while not self._stop.wait(EVERY):
                self._look(records)
            self._look(records)
        finally:
            records.close()

    def _look(self, records: Records) -> None:
        """Whoever hears of something finds it in the glance already."""
        records.refresh()
        events = sorted(
            (event for topic in TOPICS for event in records.events(topic) if _is_told(topic, event)),
            key=lambda event: event.time,
        )
        now, nodes, pods = datetime.now(UTC), self.glance.nodes, self.glance.pods
        with contextlib.suppress(ApiError):
            nodes, pods = self._nodes(), self._pods()
        self.glance = Glance(now, nodes, pods, events, self._world.job.starts(), dict(records.arrived))
        for event in events:
            if event.id not in self._told:
                self._told.add(event.id)
                for happening in self._teller.event(event):
                    self._tell(happening)
        for happening in (*self._teller.nodes(nodes, now), *self._teller.pods(pods, now)):
            self._tell(happening)

    def _nodes(self) -> Sequence[Object]:
        return sorted(
            self._world.stage.api.list(paths.nodes()).items, key=lambda node: str(node["metadata"]["name"])
        )

    def _pods(self) -> Sequence[Object]:
        job = self._world.job
        return list(
            self._world.stage.api.list(
                paths.pods(job.namespace), labels=f"{JOB_UID_LABEL}={self._world.run}"
            ).items
        )


def _is_told(topic: topics.Topic, event: Event) -> bool:
    return topic.name not in TWICE or getattr(event.data, "kind", "") == "outcome"
