"""A performance in which everything agrees, as plain records; tests change one thing and look for the sentence."""

from __future__ import annotations

from typing import Final

from sandbox.demo.acts import ACTS, ELSEWHERE, IN_PLACE
from sandbox.demo.checks import Expected
from sandbox.demo.recorded import PHASES, Recorded, Row, Span
from sandbox.demo.seen import COMMANDS, DECISIONS, INCIDENTS, OUTCOMES, Issue, Seen

EXPECTED: Final = Expected.of(ACTS, ranks=3)
GUILTY: Final = "node-2"
IDS: Final = {
    kind: frozenset({f"{kind}-1", f"{kind}-2"}) for kind in (COMMANDS, OUTCOMES, DECISIONS, INCIDENTS)
}


def issue(number: int, nodes: tuple[str, ...]) -> Issue:
    """Three pods of an issue on these nodes."""
    return Issue(
        frozenset((f"pod-{number}-{rank}", f"container-{number}-{rank}") for rank in range(3)),
        frozenset(nodes),
    )


FIRST: Final = issue(1, ("node-0", "node-1", GUILTY))
SECOND: Final = issue(2, ("node-0", "node-1", "node-3"))
THIRD: Final = issue(3, ("node-0", "node-1", "node-3"))
PODS: Final = {f"pod-{number}-{rank}": f"node-{rank}" for number in (1, 2, 3) for rank in range(3)}


def seen() -> Seen:
    """What was seen."""
    return Seen(
        ended="Complete",
        digests=frozenset({"d"}),
        digest_undisturbed="d",
        starts=EXPECTED.starts,
        resumed={counts: frozenset({0 if counts == ("1", "1") else 40}) for counts in EXPECTED.starts},
        save_every=20,
        retries_used="2",
        incidents=tuple(
            (f"i{number}", strategy, "recovered", number)
            for number, strategy in enumerate(EXPECTED.strategies, 1)
        ),
        faulty=("node-0", GUILTY, GUILTY, GUILTY, ""),
        issues=(FIRST, FIRST, FIRST, FIRST, SECOND, THIRD),
        pods=PODS,
        orders=frozenset(
            (f"pod-1-{rank}", attempt, state)
            for rank in range(3)
            for attempt in (1, 2, 3)
            for state in ("stop", "run")
        ),
        suspensions=(True, False, True, False),
        resets={"node-0": 1, "node-1": 0, GUILTY: 2, "node-3": 0},
        tainted={"node-0": 0, "node-1": 0, GUILTY: 1, "node-3": 0},
        isolated=frozenset({GUILTY}),
        ids=IDS,
        dead_letters=(),
    )


def row(number: int, strategy: str) -> Row:
    """A recovery of which every phase took a second."""
    there = [name for name in PHASES if strategy != IN_PLACE or name not in ("requeue", "warm_up")]
    phases = {
        name: Span("measured", 1.0) if name in there else Span("not_applicable", 0.0) for name in PHASES
    }
    return Row(
        f"i{number}",
        strategy,
        "recovered",
        number,
        "xid/46",
        GUILTY if strategy == ELSEWHERE else "",
        float(len(there)),
        phases,
    )


def recorded() -> Recorded:
    """What the record says of it."""
    return Recorded(
        recoveries=tuple(row(number, strategy) for number, strategy in enumerate(EXPECTED.strategies, 1)),
        ids=IDS,
        steps_done={
            "stop_processes": 3,
            "heal_chips": 3,
            "start_processes": 3,
            "find_spare": 1,
            "suspend_job": 2,
            "resume_job": 2,
        },
        isolations=1,
        pods_told={"stop_processes": 9, "start_processes": 9},
        pods=PODS,
        retries_used=2,
        schedule_count=3,
        ended="succeeded",
        tainted=frozenset({GUILTY}),
        held=frozenset({GUILTY}),
    )
