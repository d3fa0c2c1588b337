"""A year of node faults of a real LLM cluster through router and recovery: every start and end finds its node.

The trace names faults in words. A table beside this test says which of them are codes the default rulebook knows;
the others are conditions nobody has a row for, and must never isolate anything.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from recovery.cells import ConditionCell, FaultCell, HoldCell, NodeCell
from rules.check import check, released
from rules.compiled import compile_document, content_of
from rules.loader import DEFAULT
from sandbox.kafka_server import KafkaBroker
from schemas import topics
from schemas.envelope import Event, make_event
from schemas.facts import NodeSeen
from schemas.ids import derive_id, node_subject
from schemas.signals import ChipFault, ChipRef, FaultState, NodeCondition, NodeRef
from tests.golden.replay import Replay

pytestmark = pytest.mark.timeout(300)

BEGIN = datetime(2024, 3, 30, tzinfo=UTC)
CLUSTER = "infinitehbd"
NODES_SEEN = 231
STARTS = 584
NODE_GRACE = timedelta(seconds=60)


def codes() -> dict[tuple[str, str], tuple[str, str]]:
    """(class, description) of the trace to (namespace, code) of the default tables."""
    with (Path(__file__).parent / "infinitehbd_codes.csv").open(encoding="utf-8", newline="") as lines:
        return {(row["class"], row["desc"]): (row["namespace"], row["code"]) for row in csv.DictReader(lines)}


def events(data: Path) -> Iterator[Event]:
    """Each node once, then every start and end."""
    trace = json.loads((data / "infinitehbd" / "fault_trace.json").read_text(encoding="utf-8"))
    known = codes()
    first = _time(trace[0])
    for name in dict.fromkeys(item["node_id"] for item in trace):
        node = NodeRef(uid=name, name=name)
        yield _event(NodeSeen(node=node, ready=True), derive_id("hbd", name), name, first)
    for number, item in enumerate(trace):
        yield _event(_signal(item, known), derive_id("hbd", number), item["node_id"], _time(item))


def _signal(item: dict[str, Any], known: dict[tuple[str, str], tuple[str, str]]) -> ChipFault | NodeCondition:
    fault = item["fault_type"]
    node = NodeRef(uid=item["node_id"], name=item["node_id"])
    state = FaultState.ASSERTED if item["event_type"] == "fault_start" else FaultState.CLEARED
    unknown = ("node", re.sub(r"[^a-z0-9]+", "-", f"{fault['Class']} {fault['Desc']}".lower()).strip("-"))
    namespace, code = known.get((fault["Class"], fault["Desc"]), unknown)
    if namespace == "node":
        return NodeCondition(node=node, condition=code, state=state)
    return ChipFault(node=node, chip=ChipRef(id="unnamed"), namespace=namespace, code=code, state=state)


def _time(item: dict[str, Any]) -> datetime:
    return BEGIN + timedelta(days=item["event_time"])


def _event(data: ChipFault | NodeCondition | NodeSeen, name: str, node: str, at: datetime) -> Event:
    return make_event(data, id=name, source="/replay", subject=node_subject(node), time=at, cluster=CLUSTER)


def test_a_year_of_faults_is_attributed_and_nothing_unknown_isolates(
    kafka: KafkaBroker,
    topic_name: str,
    tmp_path: Path,
    relight_data: Path,
    record_property: Callable[[str, object], None],
) -> None:
    document, _ = released(check([DEFAULT]))
    compiled = compile_document(content_of(document))
    played = list(events(relight_data))
    replay = Replay(kafka, f"{topic_name[-20:]}.", 4, tmp_path, CLUSTER)
    try:
        replay.release(document, compiled.hash, played[0])
        replay.publish(played)
        replay.start("router")
        replay.start("recovery")
        replay.wait_until_through()
    finally:
        replay.end()

    assert not replay.read(topics.DEADLETTERS)
    cells = replay.cells()
    assert len([cell for cell in cells.values() if isinstance(cell, NodeCell) and cell.known]) == NODES_SEEN
    assert not [place for place, cell in cells.items() if isinstance(cell, ConditionCell)], (
        "an end found no start"
    )
    assert not [place for place, cell in cells.items() if isinstance(cell, FaultCell) and cell.standing]

    held = [cell.cause for cell in cells.values() if isinstance(cell, HoldCell)]
    rows = {(cause.namespace, cause.code) for cause in held}
    assert rows
    assert all(compiled.row(namespace, code) is not None for namespace, code in rows)
    by_cause = Counter(f"{cause.namespace}/{cause.code}" for cause in held)
    record_property("nodes held, by cause", dict(by_cause.most_common()))
    told = {made.trigger for made in replay.decisions().values()}
    starts = {event.id for event in played if getattr(event.data, "state", None) is FaultState.ASSERTED}
    assert len(starts) == STARTS
    assert starts - _repeated(played) - _shorter_than_grace(played) <= told, "a start led to no decision"


def _place(event: Event) -> tuple[str, str]:
    data = event.data
    return event.subject, data.condition if isinstance(data, NodeCondition) else getattr(data, "code", "")


def _repeated(played: list[Event]) -> set[str]:
    """Starts of a fault that stands already on the same node: the same occurrence, reported again."""
    standing: set[tuple[str, str]] = set()
    repeated = set()
    for event in played:
        state = getattr(event.data, "state", None)
        if state is FaultState.ASSERTED and _place(event) in standing:
            repeated.add(event.id)
        if state is FaultState.ASSERTED:
            standing.add(_place(event))
        elif state is FaultState.CLEARED:
            standing.discard(_place(event))
    return repeated


def _shorter_than_grace(played: list[Event]) -> set[str]:
    """Starts that ended within the grace of a node's condition: rightly nothing was decided."""
    begun: dict[tuple[str, str], Event] = {}
    short = set()
    for event in played:
        state = getattr(event.data, "state", None)
        if state is FaultState.ASSERTED:
            begun.setdefault(_place(event), event)
        elif state is FaultState.CLEARED and _place(event) in begun:
            start = begun.pop(_place(event))
            if isinstance(event.data, NodeCondition) and event.time - start.time < NODE_GRACE:
                short.add(start.id)
    return short
