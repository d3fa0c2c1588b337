"""How fast the pure function decides: events a second on one core, over rules and over history.

Beside it runs a bare loop that does what no decision can do without: dispatch on the payload's type and look a subject's cells up.

Run: python -m benchmarks.advance
"""

from __future__ import annotations

import cProfile
import gc
import itertools
import pstats
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from benchmarks.report import Row, show
from benchmarks.rules_compile import grown
from recovery import Cell, Delivery, advance
from rules.compiled import CompiledRulebook, compile_document, content_of, default_rulebook
from schemas.envelope import Event, Payload, make_event
from schemas.facts import PodBound, RunSeen, WorkloadKind
from schemas.ids import node_subject, run_subject
from schemas.signals import (
    ChipFault,
    ChipRef,
    FaultState,
    Heartbeat,
    NodeRef,
    Placement,
    ProcessState,
    ProcessStateName,
    Progress,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS = 60_000
HISTORIES = (1_000, 1_000_000)
SHIPPED = 44
RULES = (1, SHIPPED, 100, 1_000)
PODS_A_RUN = 1_000

State = dict[str, dict[str, Cell]]


def event(number: int, subject: str, data: Payload, *, origin: bool = True) -> Event:
    """One event of a stream, a millisecond after the one before."""
    at = START + timedelta(milliseconds=number)
    made = make_event(data, id=f"e{number}", source="/bench", subject=subject, time=at, cluster="c")
    return made.model_copy(update={"origin": f"bench/0/{number}/0"}) if origin else made


def rulebook(rules: int) -> CompiledRulebook:
    """The default rulebook: its last rule about runs alone, as it is, or with rules of a site before it."""
    if rules == SHIPPED:
        return default_rulebook()
    document = grown(max(rules, SHIPPED))
    if rules == 1:
        last = tuple(rule for rule in document.rules if rule.subject == "run")[-1:]
        document = document.model_copy(update={"rules": last})
    return compile_document(content_of(document))


def history(keys: int) -> State:
    """Runs with a thousand pods each, as many cells as asked for, all made by `advance`."""
    state: State = {}
    rules = default_rulebook()
    for run in range(max(1, keys // PODS_A_RUN)):
        pods = min(keys, PODS_A_RUN)
        subject = run_subject(f"r{run}")
        seen = RunSeen(
            run=f"r{run}",
            workload=WorkloadKind.JOB,
            namespace="team",
            name=f"r{run}",
            object_uid=f"o{run}",
            epoch=1,
            size=pods,
            annotations={"fault-tolerance/job-retry-num": "3"},
            supervised=True,
        )
        play(state, [event(0, subject, seen)], rules)
        bound = (
            event(number + 1, subject, PodBound(node=_node(number), placement=_where(run, number)))
            for number in range(pods)
        )
        play(state, bound, rules)
    return state


def _node(number: int) -> NodeRef:
    return NodeRef(uid=f"n{number % PODS_A_RUN}", name=f"n{number % PODS_A_RUN}")


def _where(run: int, number: int) -> Placement:
    return Placement(run=f"r{run}", pod_uid=f"p{run}-{number % PODS_A_RUN}", epoch=1)


def fleet(runs: int) -> list[Event]:
    """99 of 100 are heartbeats and steps; the hundredth is a fault of record class that reaches the rules."""
    made = []
    for number in range(EVENTS):
        run = number % runs
        offset = 10**9 + number
        if number % 100 == 0:
            fault = ChipFault(
                node=_node(number),
                placement=_where(run, number),
                chip=ChipRef(id=f"chip{number % 8}"),
                namespace="ascend",
                code="80E01809",
                state=FaultState.ONCE,
            )
            made.append(event(offset, run_subject(f"r{run}"), fault))
        elif number % 3:
            beat = Heartbeat(node=_node(number), boot_id="b", started_at=START)
            made.append(event(offset, node_subject(_node(number).uid), beat))
        else:
            step = Progress(placement=_where(run, number), step=1)
            made.append(event(offset, run_subject(f"r{run}"), step))
    return made


def changing(runs: int) -> list[Event]:
    """Every event changes a cell: what supervisors report at barriers."""
    return [
        event(
            10**9 + number,
            run_subject(f"r{number % runs}"),
            ProcessState(
                placement=_where(number % runs, number // runs),
                epoch=1,
                attempt=number,
                state=ProcessStateName.STOPPED,
            ),
        )
        for number in range(EVENTS)
    ]


def play(state: State, events: Iterable[Event], rules: CompiledRulebook) -> int:
    """Hand events to `advance` and keep what it changes, as the stage does; how many changed something."""
    changed = 0
    for made in events:
        cells = state.get(made.subject)
        if cells is None:
            cells = state[made.subject] = {}
        result = advance(cells, Delivery(made, made.time, made.time), rules)
        if result.cells:
            changed += 1
            for name, cell in result.cells.items():
                if cell is None:
                    cells.pop(name, None)
                else:
                    cells[name] = cell
    return changed


def bare(state: State, events: Iterable[Event]) -> int:
    """The reference: dispatch and look-up, no decision."""
    names = {Heartbeat: 0, Progress: 0, ChipFault: 0, ProcessState: 0}
    found = 0
    for made in events:
        delivery = Delivery(made, made.time, made.time)
        names[type(delivery.event.data)] += 1
        found += state.get(made.subject) is not None
    return found


def rate(work: Callable[[], object], count: int) -> float:
    """Events a second of one call, garbage of the preparation out of the way."""
    gc.collect()
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def measure() -> Iterator[Row]:
    """All combinations; histories are made once each."""
    for keys in HISTORIES:
        state = history(keys)
        runs = max(1, keys // PODS_A_RUN)
        for mix, events, aim in (
            ("fleet mix", fleet(runs), "100,000/s"),
            ("every event changes", changing(runs), "30,000/s"),
        ):
            reference = max(rate(partial(bare, state, events), EVENTS) for _ in range(3))
            for rules in RULES:
                compiled = rulebook(rules)
                fresh = _again(events)
                value = rate(partial(_played, state, fresh, compiled, mix), EVENTS)
                what = f"{mix}, {rules:,} rules, {keys:,} keys"
                yield Row(
                    "advance",
                    what,
                    value,
                    "events/s",
                    f"bare loop {reference:,.0f}/s",
                    value / reference,
                    aim,
                )


def _played(state: State, events: list[Event], rules: CompiledRulebook, mix: str) -> None:
    changed = play(state, events, rules)
    if mix == "every event changes" and changed != len(events):
        raise AssertionError(
            f"{changed} of {len(events)} events changed a cell: this measures something else"
        )


_rounds = itertools.count(1)


def _again(events: list[Event]) -> list[Event]:
    """The same events as new messages: origins go on, and so do attempts."""
    shift = next(_rounds) * 10 * EVENTS
    again = []
    for number, made in enumerate(events):
        data = made.data
        if isinstance(data, ProcessState):
            data = data.model_copy(update={"attempt": shift + number})
        again.append(made.model_copy(update={"origin": f"bench/0/{10**9 + shift + number}/0", "data": data}))
    return again


def profile() -> None:
    """Where the time goes, for the mix in which every event changes a cell."""
    state = history(HISTORIES[0])
    events = _again(changing(1))
    profiler = cProfile.Profile()
    profiler.enable()
    play(state, events, default_rulebook())
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(12)


def rows() -> list[Row]:
    """Measured rows, for `python -m benchmarks`."""
    return list(measure())


if __name__ == "__main__":
    if "--profile" in sys.argv:
        profile()
    else:
        show("advance", rows())
