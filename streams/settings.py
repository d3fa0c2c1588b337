"""Settings of the router and of the recovery stage, beside those of every process."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from runtime.settings import Duration, Group, Settings, read_duration
from schemas.signals import OTHERS_MAY_TELL


class GroupingSettings(Group):
    """Messages are handled in groups: one round of confirmations for many."""

    size: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Largest group of one partition. 200: enough to amortise; a replay after a crash repeats four of them at most."""
    linger: Annotated[timedelta, BeforeValidator(read_duration), Field(ge=timedelta(0))] = timedelta(
        milliseconds=5
    )
    """How long to wait for more. 5 ms: half the latency of 20 ms for a tenth of the throughput (measured). Off: 0."""
    backlog: Annotated[int, Field(ge=1)] = 4
    """Groups read ahead of one partition before reading pauses."""


class TimeSettings(Group):
    """Plausibility of event times (finding R22)."""

    ahead: Duration = timedelta(minutes=5)
    """An event time further ahead of its arrival is clamped to the arrival and never counted. 5 min: beyond any synced clock."""
    oldest: Duration = timedelta(hours=24)
    """The same for an event older than this: the longest window of the rules."""
    nonsense: Duration = timedelta(hours=24)
    """Further ahead than this is no clock error (the year 2099): to the dead letters."""


EXTERNAL_TYPES: Final = frozenset(payload.TYPE for payload in OTHERS_MAY_TELL)


class RouterSettings(Group):
    """The router: validates, stamps, re-keys."""

    grouping: GroupingSettings = GroupingSettings(size=500)
    time: TimeSettings = TimeSettings()
    external_types: frozenset[str] = EXTERNAL_TYPES
    """CloudEvents types taken from `external-signals.v1`; facts, outcomes and orders from outside are always refused. Off: empty."""
    external_per_source: Annotated[float, Field(gt=0)] = 50.0
    """Events a second that one external source may send for long; what is above goes to the dead letters."""
    external_burst: Annotated[int, Field(ge=1)] = 500
    """Events one external source may send at once: a rack that dies is told in one go."""
    external_total: Annotated[float, Field(gt=0)] = 500.0
    """Events a second of all external sources together and partition: sources are names a sender chooses."""


class Fence(StrEnum):
    """How a stale owner of a partition is kept from writing."""

    TRANSACTIONS = "transactions"
    OFF = "off"
    """Nothing keeps it: for brokers that do not fence (librdkafka's stand-in). Said in the log at every start."""


class RecoverySettings(Group):
    """The recovery stage: mailboxes, state log, `advance`."""

    grouping: GroupingSettings = GroupingSettings()
    fence: Fence = Fence.TRANSACTIONS
    """One transactional producer a partition. Off loses state for good when a stopped worker wakes up (measured): stand-ins only."""
    transaction_timeout: Duration = timedelta(seconds=10)
    """After this the broker aborts a transaction and fences its producer, the rightful one as well."""
    write_linger: Annotated[timedelta, BeforeValidator(read_duration), Field(ge=timedelta(0))] = timedelta(
        milliseconds=100
    )
    """How long changed state waits for company before its transaction, which no decision waits for. 100 ms: as much more is repeated after a
    crash; at 50 faults a second the broker takes 0.36 of a core instead of 0.48 (measured). Off: 0."""
    position_interval: Duration = timedelta(seconds=5)
    """The position is written at least this often while it moves, even if no cell changed: what a restart repeats."""
    cell_bytes: Annotated[int, Field(ge=1024)] = 256 * 1024
    """Hard cap of one cell; above it the subject is halted. 256 KiB is a quarter of the broker's limit."""
    tick_min: Duration = timedelta(milliseconds=100)
    """A tick that came early is armed again by the difference, at least this: clocks that differ must not spin."""
    raises: Annotated[int, Field(ge=1)] = 3
    """How often the same message may make `advance` raise before its subject is halted."""
    rulebook_retry: Duration = timedelta(seconds=2)
    """A partition that lacks the content of its rulebook stops and looks again after this."""


class StreamSettings(Settings):
    """Settings of `relight router` and `relight recovery`."""

    check_pins: bool = True
    """Refuse to start when Faust or aiokafka differ from the versions the stage was proven with. Off: at your own risk."""
    router: RouterSettings = RouterSettings()
    recovery: RecoverySettings = RecoverySettings()
