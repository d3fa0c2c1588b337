"""Catalogue of topics: key, how long kept, what stands in them, who writes, who reads (design 6).

One number of partitions holds for all keyed topics. `relight topics create|check`, the generated ACLs and the docs read this list.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final


class Cleanup(StrEnum):
    """Kafka's cleanup.policy."""

    DELETE = "delete"
    COMPACT = "compact"


class Component(StrEnum):
    """Parts of relight that write or read topics; each has its own principal."""

    NODE_AGENT = "node-agent"
    WATCHER = "watcher"
    EXTERNAL = "external"
    ROUTER = "router"
    RECOVERY = "recovery"
    ACTUATORS = "actuators"
    CLI = "cli"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `retention` is None where compaction keeps the last value of each key for ever."""

    name: str
    key: str
    cleanup: Cleanup
    retention: timedelta | None
    writers: tuple[Component, ...]
    readers: tuple[Component, ...]
    says: str
    log_append_time: bool = False
    """Deadlines and ticks run on the broker's append time (design 5, finding Q24)."""
    transactional: bool = False
    max_message_bytes: int | None = None


_WEEK: Final = timedelta(days=7)
_MONTH: Final = timedelta(days=30)

SIGNALS: Final = Topic(
    name="signals.v1",
    key="who saw it: a node's agent by its node, the watcher by one key of its own",
    cleanup=Cleanup.DELETE,
    retention=_WEEK,
    writers=(Component.NODE_AGENT, Component.WATCHER),
    readers=(
        Component.ROUTER,
        Component.WATCHER,
        Component.AUDIT,
    ),  # the watcher reads back what it told before
    says="everything observed by relight's own eyes",
    log_append_time=True,
    max_message_bytes=4_000_000,
)
EXTERNAL_SIGNALS: Final = Topic(
    name="external-signals.v1",
    key="any",
    cleanup=Cleanup.DELETE,
    retention=_WEEK,
    writers=(Component.EXTERNAL,),
    readers=(Component.ROUTER, Component.AUDIT),
    says="faults and evidence from registered other systems",
    log_append_time=True,
    max_message_bytes=4_000_000,
)
INBOX: Final = Topic(
    name="inbox.v1",
    key="subject",
    cleanup=Cleanup.DELETE,
    retention=_WEEK,
    writers=(Component.ROUTER, Component.RECOVERY, Component.ACTUATORS, Component.CLI),
    readers=(Component.RECOVERY, Component.AUDIT),
    says="the mailboxes",
    log_append_time=True,
    max_message_bytes=4_000_000,
)
STATE: Final = Topic(
    name="state.v1",
    key="subject and cell",
    cleanup=Cleanup.COMPACT,
    retention=None,
    writers=(Component.RECOVERY,),
    readers=(Component.RECOVERY,),
    says="the cells and the positions",
    transactional=True,
)
RULEBOOKS: Final = Topic(
    name="rulebooks.v1",
    key="hash",
    cleanup=Cleanup.COMPACT,
    retention=None,
    writers=(Component.CLI,),
    readers=(Component.RECOVERY, Component.AUDIT),
    says="compiled rulebooks and who released them",
)
COMMANDS: Final = Topic(
    name="commands.v1",
    key="subject",
    cleanup=Cleanup.DELETE,
    retention=_WEEK,
    writers=(Component.RECOVERY,),
    readers=(Component.ACTUATORS, Component.AUDIT),
    says="do this step",
    log_append_time=True,
)
DECISIONS: Final = Topic(
    name="decisions.v1",
    key="subject",
    cleanup=Cleanup.DELETE,
    retention=_MONTH,
    writers=(Component.RECOVERY,),
    readers=(Component.AUDIT, Component.EXTERNAL),
    says="what was decided and why, with the rulebook's hash",
)
INCIDENTS: Final = Topic(
    name="incidents.v1",
    key="incident",
    cleanup=Cleanup.COMPACT,
    retention=None,
    writers=(Component.RECOVERY,),
    readers=(Component.AUDIT, Component.EXTERNAL),
    says="current state of each incident",
)
DEADLETTERS: Final = Topic(
    name="deadletters.v1",
    key="as it came",
    cleanup=Cleanup.DELETE,
    retention=_MONTH,
    writers=(Component.ROUTER, Component.RECOVERY, Component.AUDIT),
    readers=(Component.AUDIT,),
    says="original bytes; the reason and the stage stand in the headers",
    max_message_bytes=8_000_000,
)

TOPICS: Final[tuple[Topic, ...]] = (
    SIGNALS,
    EXTERNAL_SIGNALS,
    INBOX,
    STATE,
    RULEBOOKS,
    COMMANDS,
    DECISIONS,
    INCIDENTS,
    DEADLETTERS,
)
