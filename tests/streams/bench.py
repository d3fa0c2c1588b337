"""One inbox partition with the toy core on the bench: memory and handler, a group at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from runtime.settings import Clock, DeadLetterSettings
from schemas.envelope import Event, decode
from schemas.topics import Topic
from streams.core import Core
from streams.dead_letters import DeadLetters
from streams.group import Group
from streams.handler import Handler, HandlingLimits
from streams.memory import Memory
from streams.ports import Message, Send
from tests.streams.fakes import CLUSTER, START
from tests.streams.toy_core import ToyCell, ToyCore

LIMITS = HandlingLimits(
    partitions=1,
    clock=Clock.BROKER,
    cell_bytes=256 * 1024,
    raises=3,
    tick_min=timedelta(milliseconds=100),
)


class Bench:
    """A partition that is handled and confirmed."""

    def __init__(self, core: Core | None = None, *, number: int = 0, limits: HandlingLimits = LIMITS) -> None:
        self.core = core or ToyCore()
        self.memory = Memory(self.core)
        self.memory.position = 0
        self.handler = Handler(
            number,
            self.memory,
            self.core,
            limits,
            DeadLetters("recovery", DeadLetterSettings(), str),
            str,
        )

    def handle(self, *messages: Message) -> Group:
        """Handle without confirming."""
        return self.handler.handle(messages)

    def apply(self, *messages: Message, wall: datetime = START) -> Group:
        """Handle and confirm."""
        group = self.handle(*messages)
        self.memory.commit(group, wall=wall)
        return group

    def toy(self, subject: str) -> ToyCell:
        """The toy's cell of a subject; empty when there is none."""
        cell = self.memory.cells_of((CLUSTER, subject)).get("toy", ToyCell())
        assert isinstance(cell, ToyCell)
        return cell


def event_clock() -> HandlingLimits:
    """Limits of a replay."""
    return replace(LIMITS, clock=Clock.EVENT)


def sent_to(sends: list[Send], topic: Topic) -> list[Event]:
    """Events sent to one topic."""
    return [decode(send.value) for send in sends if send.topic == topic.name]


def headers_of(send: Send) -> dict[str, str]:
    """Headers of a dead letter, without their prefix."""
    return {name.removeprefix("relight."): value.decode() for name, value in send.headers}
