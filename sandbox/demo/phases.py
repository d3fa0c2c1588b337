"""How long each phase of a recovery took, out of events while it is under way: by the very definition of the record. Pure.

The record's is `audit/views/02_recovery_time.sql`, and the table at the end of the demo comes from there; a test puts one story before both.
Guarantees: what is over has the length it will have in the table; the one phase that is under way lasts until now. So decisions, commands,
outcomes and bindings count from their arrival at the broker, milestones from their own time, and phases of all attempts are added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from rules.packaged import default_content
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.envelope import Event
from schemas.facts import PodBound
from schemas.records import Decision, Incident, IncidentResult, IncidentState
from schemas.signals import Milestone, MilestoneName

RESTARTS: Final = frozenset({StepName.START_PROCESSES, StepName.RESUME_JOB})
"""Steps with whose beginning everything old has ended."""
NO_STRATEGY: Final = frozenset({
    "attribute", "merge", "record", "hold", "not_isolated", "wait", "cancelled", "revalidate", "correct"
})  # fmt: skip
WITHOUT_PHASES: Final = frozenset({"fail_job", "release_job"})
Ends = list[tuple[str, datetime | None]]


@dataclass(frozen=True)
class Phase:
    """A phase: its length so far."""

    name: str
    seconds: float
    over: bool


@dataclass
class _Attempt:
    """What is known of one attempt; times as the record has them."""

    number: int
    strategy: str = ""
    decided: datetime | None = None
    began: datetime | None = None
    terminated: datetime | None = None
    running: datetime | None = None
    bound: list[datetime] = field(default_factory=list)
    told: dict[MilestoneName, dict[int | None, list[datetime]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    @property
    def since(self) -> datetime | None:
        """When it was decided; where nobody said so, its first command."""
        return self.decided or self.began

    def last(self, name: MilestoneName, ranks: int) -> datetime | None:
        """When the last rank was there; None before all have told it."""
        told = self.told[name]
        return max(map(max, told.values())) if told and len(told) >= ranks else None

    def first(self, name: MilestoneName) -> datetime | None:
        """When the first rank was there."""
        return min((min(times) for times in self.told[name].values()), default=None)

    def scheduled(self, *, settled: bool) -> datetime | None:
        """When the last pod had its node: one that moves after the first step ends no phase, before the job runs another may follow."""
        stepped = self.first(MilestoneName.FIRST_STEP)
        bound = max((at for at in self.bound if stepped is None or at <= stepped), default=None)
        if bound is None or (self.running is None and not settled):
            return self.running
        return max(bound, self.terminated or bound)


def phases_of(
    events: Sequence[Event],
    incident: Incident,
    ranks: int,
    now: datetime,
    arrived: Mapping[str, datetime] | None = None,
) -> tuple[Phase, ...]:
    """Phases in their order, all attempts together.

    Args:
        events: of the topics, by time.
        incident: its latest state.
        ranks: of the job: a milestone is reached when all have told it.
        now: how long the phase under way lasts.
        arrived: when the broker had each event, by its id; its own time where that is not known.
    """
    attempts = _attempts(events, incident, arrived or {})
    if not attempts:
        return (Phase("detection", max(0.0, (now - incident.fault_time).total_seconds()), over=False),)
    closed = incident.updated_at if incident.state is IncidentState.CLOSED else None
    lengths: dict[str, float] = {}
    under_way = ""
    for place, attempt in enumerate(attempts):
        later = attempts[place + 1].since if place + 1 < len(attempts) else None
        began = incident.fault_time if place == 0 else attempt.since
        settled = closed is not None or later is not None
        ends = _ends(attempt, 1 if settled else ranks, incident, later, first=place == 0)
        for name, start, end in _lengths(began, ends, later, now if closed is None else None):
            lengths[name] = lengths.get(name, 0.0) + max(0.0, (end - start).total_seconds())
            under_way = name if (later is None and end is now) else ""
    return tuple(Phase(name, seconds, name != under_way) for name, seconds in lengths.items())


def _attempts(events: Sequence[Event], incident: Incident, arrived: Mapping[str, datetime]) -> list[_Attempt]:
    """Those that have begun, in order, each with the marks that fell into it."""
    found: dict[int, _Attempt] = {}
    for event in events:
        data, at = event.data, arrived.get(event.id, event.time)
        if getattr(data, "incident", None) == incident.incident:
            number = getattr(data, "attempt", None)
            if number is not None:
                _note(found.setdefault(number, _Attempt(number)), data, at)
    begun = sorted(
        (one for one in found.values() if one.began is not None and one.strategy not in WITHOUT_PHASES),
        key=lambda one: one.number,
    )
    for event in events:
        _mark(begun, event, arrived.get(event.id, event.time))
    return begun


def _note(attempt: _Attempt, data: object, at: datetime) -> None:
    match data:
        case Decision(mode="enforce") if data.verdict not in NO_STRATEGY:
            if attempt.decided is None or at < attempt.decided:
                attempt.decided, attempt.strategy = at, data.verdict
        case Command() if data.step is not StepName.NOTIFY:
            attempt.began = min(at, attempt.began or at)
            if data.action == "begin" and data.step in RESTARTS:
                attempt.terminated = min(at, attempt.terminated or at)
        case Outcome(step=StepName.RESUME_JOB, result=OutcomeResult.DONE):
            attempt.running = min(at, attempt.running or at)
        case _:
            pass


def _mark(attempts: Iterable[_Attempt], event: Event, arrived: datetime) -> None:
    """A mark belongs to the attempt that was decided last before it, if it does not say another one."""
    data = event.data
    if not isinstance(data, (Milestone, PodBound)):
        return
    at = event.time if isinstance(data, Milestone) else arrived
    before = [one for one in attempts if one.since is not None and one.since <= at]
    if not before:
        return
    if isinstance(data, PodBound):
        before[-1].bound.append(at)
    elif not data.attempt or data.attempt == before[-1].number:
        before[-1].told[data.name][data.placement.rank].append(at)


def _ends(attempt: _Attempt, ranks: int, incident: Incident, later: datetime | None, *, first: bool) -> Ends:
    """Phases of the attempt with the moments at which they ended, None for those that have not."""
    loaded = attempt.last(MilestoneName.CHECKPOINT_LOADED, ranks)
    connected = attempt.last(MilestoneName.COMMUNICATION_READY, ranks)
    recovered = incident.result is IncidentResult.RECOVERED and later is None
    settled = later is not None or incident.state is IncidentState.CLOSED
    stable = attempt.first(MilestoneName.STABLE) or (incident.updated_at if recovered else None)
    meeting: Ends = [("checkpoint", loaded), ("communication", connected)]
    if connected is not None and (not settled if loaded is None else connected < loaded):
        meeting.reverse()  # frameworks differ in which comes first
    every: Ends = [
        ("detection", attempt.since),
        ("termination", attempt.terminated),
        ("requeue", attempt.scheduled(settled=settled)),
        ("warm_up", attempt.last(MilestoneName.COMMAND_STARTED, ranks)),
        *meeting,
        ("stabilisation", stable),
    ]
    had = _phases_of_strategy(attempt.strategy)
    return [(name, end) for name, end in every if (first if name == "detection" else name in had)]


def _lengths(
    began: datetime | None, ends: Ends, later: datetime | None, now: datetime | None
) -> Iterator[tuple[str, datetime, datetime]]:
    """Begin and end of each phase; what was under way when the next attempt was decided ends there, what is under way lasts until `now`."""
    for name, known in ends:
        broken = later is not None and (known is None or known > later)
        end = later if broken else known
        until = end or now
        if began is not None and until is not None:
            yield name, began, until
        if broken or (end is None and now is not None):
            return
        began = end


def _phases_of_strategy(strategy: str) -> frozenset[str]:
    for one in default_content()["strategies"]:
        if one["id"] == strategy:
            return frozenset(one["phases"])
    return frozenset()
