"""A seeded script for relight's own core, as a router and actuators would write it into the inbox: origins in order, some messages again.

Two sorts of runs. Lively ones have nodes, faults, exits, reports, orders, and actuators that answer: what comes of them only the oracle knows.
Counting ones have faults of one kind and nothing else, so that the script itself knows how often the counted rule has to have counted.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from confluent_kafka.cimpl import murmur2

from rules.check import check, released
from rules.compiled import CompiledRulebook
from rules.loader import DEFAULT
from rules.model import RulebookDocument
from schemas.commands import Command
from schemas.envelope import Event, Origin, encode, make_event
from schemas.facts import RunSeen, WorkloadKind
from schemas.ids import mailbox_key, run_subject
from schemas.signals import ChipFault, ChipRef, FaultState, NodeRef, Placement
from tests.torture.live_world import CLUSTER, LiveWorld, happen, new_world
from tests.torture.pipeline import PARTITIONS

RULE: Final = "torture-counted"
AT_LEAST: Final = 3
"""Occurrences at which the counted rule fires; its window is cleared then."""
LIVELY, COUNTING, CHIPS = 40, 24, 2
COUNTED_SHARE: Final = 0.3
REPEATED: Final = 0.05
"""Share of messages that are sent once more as they were, and of occurrences that are told once more by another message."""

Record = tuple[bytes, bytes]
Place = tuple[str, str]
"""A counting run's subject and a chip of it."""


@cache
def rulebook() -> tuple[RulebookDocument, CompiledRulebook]:
    """The default rulebook, its windows shortened, with the counted rule."""
    return released(check([DEFAULT, Path(__file__).parent / "rulebooks" / "torture"]))


@dataclass
class _Quiet:
    """Who gets nothing more for now: their keys must stay right although nobody mends them."""

    worlds: frozenset[int] = frozenset()
    counting: frozenset[int] = frozenset()


class RunScript:
    """Makes messages and remembers what the counted rule must come to. Not for two threads at once."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._sequence: Counter[int] = Counter()
        self._made = 0
        self._born = 0
        self._quiet = _Quiet()
        self.counted: Counter[Place] = Counter()
        """Occurrences of each counting run and chip."""
        self.commands: Counter[str] = Counter()
        """Steps the actuators were asked for."""
        self._had: set[str] = set()
        self._by_subject: dict[str, LiveWorld] = {}
        self._waiting: list[Event] = []
        self._worlds = [self._new_world() for _ in range(LIVELY)]
        for number in range(COUNTING):
            self._waiting.append(self._event(f"run/c{number}", _seen(f"c{number}")))

    def events(self, number: int) -> list[Record]:
        """Key and value of at least so many next messages, repeats included."""
        made = [self._stamped(event) for event in self._take_waiting()]
        while len(made) < number:
            events = self._occur() if self._dice.random() < COUNTED_SHARE else self._live()
            made += [self._stamped(event) for event in events]
            if made and self._dice.random() < REPEATED:
                made.append(self._dice.choice(made[-20:]))
        return made

    def answers(self, event: Event) -> list[Record]:
        """What the actuators say to a command, once to each however often it comes."""
        command = event.data
        if not isinstance(command, Command) or event.id in self._had:
            return []
        self._had.add(event.id)
        self.commands[command.step.value] += 1
        world = self._by_subject.get(command.subject)
        if world is None:
            return []
        world.carry_out(command)
        return [self._stamped(said) for said in world.take_outbox()]

    def hush(self) -> None:
        """Let one half of all runs be quiet until the next time, another half than now."""
        self._quiet = _Quiet(
            frozenset(self._dice.sample(range(LIVELY), LIVELY // 2)),
            frozenset(self._dice.sample(range(COUNTING), COUNTING // 2)),
        )

    def _occur(self) -> list[Event]:
        """The counted fault, sometimes told twice."""
        number = self._dice.choice([n for n in range(COUNTING) if n not in self._quiet.counting])
        run, chip = f"c{number}", f"chip-{self._dice.randrange(CHIPS)}"
        self.counted[run_subject(run), chip] += 1
        event = self._event(run_subject(run), _counted_fault(run, chip))
        return [event, event] if self._dice.random() < REPEATED else [event]

    def _live(self) -> list[Event]:
        number = self._dice.choice([n for n in range(LIVELY) if n not in self._quiet.worlds])
        if self._worlds[number].over:
            self._worlds[number] = self._new_world()
            return self._take_waiting()
        world = self._worlds[number]
        happen(world, self._dice)
        return world.take_outbox()

    def _new_world(self) -> LiveWorld:
        self._born += 1
        world = new_world(f"r{self._born}", self._dice)
        self._by_subject |= dict.fromkeys(
            (run_subject(world.run), *(f"node/{name}" for name in world.nodes)), world
        )
        self._waiting += world.take_outbox()
        return world

    def _take_waiting(self) -> list[Event]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _event(self, subject: str, data: RunSeen | ChipFault) -> Event:
        self._made += 1
        return make_event(
            data,
            id=f"counting-{self._made}",
            source="/clusters/torture/script",
            subject=subject,
            time=datetime.now(UTC),
            cluster=CLUSTER,
        )

    def _stamped(self, event: Event) -> Record:
        """As the router would write it: every message of a source partition has a higher origin than those before."""
        key = mailbox_key(event.cluster, event.subject)
        partition = murmur2(key, PARTITIONS)
        self._sequence[partition] += 1
        origin = Origin("router", partition, self._sequence[partition], 0)
        return key, encode(event.model_copy(update={"origin": str(origin)}))


def _seen(run: str) -> RunSeen:
    return RunSeen(
        run=run,
        workload=WorkloadKind.JOB,
        namespace="torture",
        name=run,
        object_uid=run,
        epoch=1,
        size=1,
        supervised=False,
    )


def _counted_fault(run: str, chip: str) -> ChipFault:
    return ChipFault(
        node=NodeRef(uid=f"{run}-n", name=f"{run}-n"),
        placement=Placement(run=run),
        chip=ChipRef(id=chip),
        namespace="torture",
        code="X1",
        state=FaultState.ONCE,
    )
