"""A seeded script of events for the toy core, as a router that restarts would send them: each with its origin, some again and out of turn."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime

from confluent_kafka.cimpl import murmur2

from schemas.envelope import Origin, encode, make_event
from schemas.ids import mailbox_key, run_subject
from tests.streams.toy_core import fault, told_node
from tests.torture.pipeline import PARTITIONS

CLUSTER = "torture"
KEYS = 200
DETAILS = ("quiet", "quiet", "quiet", "count", "count", "arm", "command", "tell")
REPEATED = 0.05
"""Share of events that are sent once more, with the same origin."""


class Script:
    """Makes events and remembers what they must come to."""

    def __init__(self, seed: int, *, keys: int = KEYS) -> None:
        self._dice = random.Random(seed)
        self._keys = keys
        self._sequence: Counter[int] = Counter()
        self._made = 0
        self.counted: Counter[str] = Counter()
        """How often each subject has to have counted in the end."""

    def events(self, number: int, details: tuple[str, ...] = DETAILS) -> list[tuple[bytes, bytes]]:
        """Key and value of the next events, repeats included."""
        made: list[tuple[bytes, bytes]] = []
        for _ in range(number):
            made.append(self.event(self._dice.randrange(self._keys), self._dice.choice(details)))
            if self._dice.random() < REPEATED:
                made.append(self._dice.choice(made[-20:]))
        return made

    def one_each(self, detail: str = "count") -> list[tuple[bytes, bytes]]:
        """One event for every subject."""
        return [self.event(key, detail) for key in range(self._keys)]

    def event(self, number: int, detail: str) -> tuple[bytes, bytes]:
        """Key and value of one new event."""
        self._made += 1
        subject = run_subject(f"r{number}")
        key = mailbox_key(CLUSTER, subject)
        partition = murmur2(key, PARTITIONS)
        self._sequence[partition] += 1
        if detail != "quiet":
            self.counted[subject] += 1
        if detail == "tell":
            self.counted[f"node/{told_node(subject)}"] += 1
        event = make_event(
            fault(detail),
            id=f"e{self._made}",
            source="/clusters/torture/script",
            subject=subject,
            time=datetime.now(UTC),
            cluster=CLUSTER,
            origin=Origin("router", partition, self._sequence[partition], 0),
        )
        return key, encode(event)
