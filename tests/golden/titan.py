"""Titan's 6,367 GPU events as chip faults of one synthetic run, and the rulebook that counts them three ways.

The trace has no runs and is years old: one run spans it, and time is the events' own (finding Q5).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rules.check import check, released
from rules.compiled import CompiledRulebook
from rules.loader import DEFAULT
from rules.model import RulebookDocument
from schemas.envelope import Event, Payload, make_event
from schemas.facts import RunSeen, WorkloadKind
from schemas.ids import derive_id, run_subject
from schemas.signals import ChipFault, ChipRef, FaultState, NodeRef, Placement

RUN = "titan"
CLUSTER = "titan"
OVERLAY = Path(__file__).parent / "rulebooks" / "titan"
EVENTS = 6_367
PAIRS = 45
POSITIONS = 488
FIRINGS = 180


def rulebook() -> tuple[RulebookDocument, CompiledRulebook]:
    """The default rulebook with the replay's overlay."""
    return released(check([DEFAULT, OVERLAY]))


def events(data: Path) -> Iterator[Event]:
    """The run's first fact, then every event of the trace as it is."""
    with (data / "titan" / "titan_gpu_events.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    first = _time(rows[0]["event_time"])
    seen = RunSeen(
        run=RUN,
        workload=WorkloadKind.JOB,
        namespace="titan",
        name="titan",
        object_uid="titan",
        epoch=1,
        size=1,
        supervised=False,
    )
    yield _event(seen, derive_id("titan", "run"), first)
    for number, row in enumerate(rows):
        fault = ChipFault(
            node=NodeRef(uid=row["location"], name=row["location"]),
            placement=Placement(run=RUN),
            chip=ChipRef(id=row["chip_serial"]),
            namespace="titan",
            code=row["code"],
            state=FaultState.ONCE,
        )
        yield _event(fault, derive_id("titan", number), _time(row["event_time"]))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _event(data: Payload, name: str, at: datetime) -> Event:
    return make_event(
        data, id=name, source="/clusters/titan/replay", subject=run_subject(RUN), time=at, cluster=CLUSTER
    )
