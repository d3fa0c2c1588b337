"""Whether everything came of the play that must, and whether the record agrees with what was seen. Pure.

Each disagreement is one sentence that names both sides; no sentence means that all of it agrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

from sandbox.demo.acts import ANEW, ELSEWHERE, IN_PLACE, Act
from sandbox.demo.recorded import UNKNOWN, Recorded
from sandbox.demo.seen import Counts, Seen
from schemas.commands import StepName
from schemas.records import IncidentResult

NEW_ISSUE: Final = frozenset({ELSEWHERE, ANEW})
TOLERANCE: Final = 0.002
"""Seconds by which phases may miss their RTO: the record's times are milliseconds and microseconds."""


@dataclass(frozen=True)
class Expected:
    """What the acts must lead to."""

    strategies: tuple[str, ...]
    ranks: tuple[int, ...]

    @classmethod
    def of(cls, acts: Sequence[Act], ranks: int) -> Self:
        """Of these acts, in this order."""
        return cls(tuple(strategy for act in acts for strategy in act.recoveries), tuple(range(ranks)))

    @property
    def retries_used(self) -> int:
        """Each new issue costs one."""
        return sum(strategy in NEW_ISSUE for strategy in self.strategies)

    @property
    def starts(self) -> dict[Counts, tuple[int, ...]]:
        """In place the start count goes up; a new issue counts itself, and its starts from 1."""
        schedule, start = 1, 1
        found = {("1", "1"): self.ranks}
        for strategy in self.strategies:
            schedule, start = (schedule + 1, 1) if strategy in NEW_ISSUE else (schedule, start + 1)
            found[str(schedule), str(start)] = self.ranks
        return found


def disagreements(expected: Expected, seen: Seen, recorded: Recorded) -> list[str]:
    """All of them, what matters most first."""
    return [
        *_came_back(expected, seen),
        *_counters(expected, seen, recorded),
        *_pods(expected, seen, recorded),
        *_isolation(expected, seen, recorded),
        *_effects(seen, recorded),
        *_events(seen, recorded),
        *_recoveries(seen, recorded),
        *_phases(recorded),
    ]


def _differ(what: str, one: tuple[str, object], other: tuple[str, object]) -> Iterator[str]:
    if one[1] != other[1]:
        yield f"{what}: {one[0]} {_told(one[1])}, {other[0]} {_told(other[1])}"


def _told(value: object) -> str:
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(str, value))) + "}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_told(value[key])}" for key in sorted(value)) + "}"
    return repr(value)


def _came_back(expected: Expected, seen: Seen) -> Iterator[str]:
    wanted = tuple(
        (strategy, IncidentResult.RECOVERED.value, number)
        for number, strategy in enumerate(expected.strategies, 1)
    )
    found = tuple((strategy, str(result), attempt) for _, strategy, result, attempt in seen.incidents)
    yield from _differ(
        "recoveries (strategy, result, attempt)", ("expected", wanted), ("the topics say", found)
    )
    yield from _differ("the job's end", ("expected", "Complete"), ("the API says", seen.ended))
    undisturbed = frozenset({seen.digest_undisturbed})
    yield from _differ(
        "what was trained", ("undisturbed it is", undisturbed), ("the ranks have", seen.digests)
    )
    yield from _differ("dead letters", ("expected", ()), ("the topic has", seen.dead_letters))


def _counters(expected: Expected, seen: Seen, recorded: Recorded) -> Iterator[str]:
    used = expected.retries_used
    yield from _differ(
        "ranks by MA_SCHEDULE_CNT and MA_PROC_START_CNT",
        ("expected", expected.starts),
        ("the processes had", dict(seen.starts)),
    )
    yield from _differ(
        "budget used, on the Job",
        ("expected", str(used) if used else ""),
        ("the API says", seen.retries_used),
    )
    yield from _differ("budget used", ("expected", used), ("the record says", recorded.retries_used))
    yield from _differ(
        "MA_SCHEDULE_CNT", ("expected", used + 1), ("the record says", recorded.schedule_count)
    )
    for counts, steps in seen.resumed.items():
        first = counts == ("1", "1")
        if len(steps) != 1 or (first and steps != {0}) or (not first and not _is_saved(min(steps), seen)):
            yield f"start {counts}: expected all ranks to go on from one checkpoint, they went on from steps {sorted(steps)}"


def _is_saved(step: int, seen: Seen) -> bool:
    return step > 0 and step % seen.save_every == 0


def _pods(expected: Expected, seen: Seen, recorded: Recorded) -> Iterator[str]:
    yield from _differ(
        "pods of the job and their nodes",
        ("the API says", dict(seen.pods)),
        ("the record says", dict(recorded.pods)),
    )
    if len(seen.issues) != len(expected.strategies) + 1:
        yield f"faults: expected {len(expected.strategies)}, {len(seen.issues) - 1} were let in"
        return
    for number, (strategy, (before, after)) in enumerate(
        zip(expected.strategies, pairwise(seen.issues), strict=True), 1
    ):
        if strategy == IN_PLACE and before.containers != after.containers:
            yield f"recovery {number} in place: expected the same containers, before {_told(before.containers)}, after {_told(after.containers)}"
        if strategy in NEW_ISSUE and before.pods & after.pods:
            yield f"recovery {number} {strategy}: expected new pods, these stayed: {_told(before.pods & after.pods)}"


def _isolation(expected: Expected, seen: Seen, recorded: Recorded) -> Iterator[str]:
    guilty = frozenset(
        node
        for strategy, node in zip(expected.strategies, seen.faulty, strict=False)
        if strategy == ELSEWHERE
    )
    once = {name: int(name in guilty) for name in seen.tainted}
    yield from _differ("isolated nodes", ("expected", guilty), ("the API shows the taint on", seen.isolated))
    yield from _differ(
        "how often each node was tainted", ("expected", once), ("the API showed", dict(seen.tainted))
    )
    yield from _differ(
        "isolated nodes", ("the API shows the taint on", seen.isolated), ("the record says", recorded.tainted)
    )
    yield from _differ(
        "nodes that are held",
        ("the API shows the taint on", seen.isolated),
        ("the record says", recorded.held),
    )
    for number, (strategy, after) in enumerate(zip(expected.strategies, seen.issues[1:], strict=False), 1):
        if strategy == ELSEWHERE and after.nodes & guilty:
            yield f"recovery {number}: expected no pod on {_told(guilty)}, there are some"


def _effects(seen: Seen, recorded: Recorded) -> Iterator[str]:
    """Each command of the record has had its effect once at its target."""
    for step, state in ((StepName.STOP_PROCESSES, "stop"), (StepName.START_PROCESSES, "run")):
        written = sum(order == state for _, _, order in seen.orders)
        told = recorded.pods_told.get(step.value, 0)
        yield from _differ(f"pods told to {state}", ("the API saw", written), ("the record says", told))
    for step, flag in ((StepName.SUSPEND_JOB, True), (StepName.RESUME_JOB, False)):
        made = seen.suspensions.count(flag)
        done = recorded.steps_done.get(step.value, 0)
        yield from _differ(f"{step.value}", ("the API saw it", made), ("the record says", done))
    healed = recorded.steps_done.get(StepName.HEAL_CHIPS.value, 0)
    yield from _differ(
        "resets of chips", ("the chips saw", sum(seen.resets.values())), ("the record says", healed)
    )
    yield from _differ(
        "isolations", ("the API saw", sum(seen.tainted.values())), ("the record says", recorded.isolations)
    )


def _events(seen: Seen, recorded: Recorded) -> Iterator[str]:
    for kind, wanted in seen.ids.items():
        found = recorded.ids.get(kind, frozenset())
        if lost := wanted - found:
            yield f"{kind}: {len(lost)} of {len(wanted)} in the topic are not in the record, such as {min(lost)}"
        if made_up := found - wanted:
            yield f"{kind}: {len(made_up)} in the record are not in the topic, such as {min(made_up)}"


def _recoveries(seen: Seen, recorded: Recorded) -> Iterator[str]:
    told = tuple(
        (incident, strategy, str(result), attempt) for incident, strategy, result, attempt in seen.incidents
    )
    kept = tuple((row.incident, row.strategy, row.result, row.attempts) for row in recorded.recoveries)
    yield from _differ("recoveries", ("the topics say", told), ("the record says", kept))


def _phases(recorded: Recorded) -> Iterator[str]:
    for number, row in enumerate(recorded.recoveries, 1):
        unknown = [f"{name} is {span.state}" for name, span in row.phases.items() if span.state in UNKNOWN]
        if row.rto is None or unknown or not row.phases:
            yield f"recovery {number}: its time is not known whole ({', '.join(unknown) or 'no RTO'})"
            continue
        total = sum(span.seconds for span in row.phases.values())
        if abs(total - row.rto) > TOLERANCE:
            yield f"recovery {number}: its phases add up to {total:.3f} s, its RTO is {row.rto:.3f} s"
