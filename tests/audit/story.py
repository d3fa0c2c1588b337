"""Incidents as they would stand in Kafka, told by their times, and put into the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from audit.batches import Batcher
from audit.rows import Record, place
from audit.store import Store
from rules.compiled import content_of, hash_of
from rules.model import RulebookDocument
from rules.packaged import default_content
from schemas import topics
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.envelope import Payload, encode, make_event
from schemas.facts import PodBound, RunEnded, RunSeen, WorkloadKind
from schemas.ids import derive_id, run_subject
from schemas.records import (
    Counters,
    Decision,
    FaultDomain,
    Incident,
    IncidentResult,
    IncidentState,
    RulebookRelease,
)
from schemas.signals import (
    Checkpoint,
    CheckpointTier,
    ChipFault,
    ChipRef,
    FaultState,
    Milestone,
    MilestoneName,
    NodeRef,
    Placement,
    Progress,
)

Edge = Literal["begin", "end", "verified", "restored", "broken"]
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NODE = NodeRef(uid="node-uid-1", name="node-1")
CHIP = ChipRef(id="SN-1")


@dataclass
class Story:
    """Collects messages; `at` are seconds after `START`."""

    rulebook: str = ""
    records: list[Record] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)

    def tell(self, topic: topics.Topic, subject: str, payload: Payload, at: float, *, id: str = "") -> Record:  # noqa: A002
        offset = self.offsets.get(topic.name, 0)
        self.offsets[topic.name] = offset + 1
        when = START + timedelta(seconds=at)
        event = make_event(
            payload,
            id=id or derive_id(topic.name, offset),
            source="/clusters/lab/test",
            subject=subject,
            time=when,
            cluster="lab",
        )
        record = Record(topic.name, 0, offset, when, encode(event), {})
        self.records.append(record)
        return record

    def release_default_rulebook(self) -> None:
        content = content_of(RulebookDocument.model_validate(default_content()))
        self.rulebook = hash_of(content)
        release = RulebookRelease(
            rulebook=self.rulebook, released_by="sre", released_at=START, title="default", content=content
        )
        self.tell(topics.RULEBOOKS, f"rulebook/{self.rulebook}", release, 0)

    def fault(self, run: str, at: float, *, code: str = "80E01801", id: str = "") -> str:  # noqa: A002
        signal = ChipFault(
            node=NODE,
            chip=CHIP,
            namespace="ascend",
            code=code,
            state=FaultState.ASSERTED,
            placement=Placement(run=run),
        )
        record = self.tell(topics.SIGNALS, run_subject(run), signal, at, id=id)
        return id or derive_id(topics.SIGNALS.name, record.offset)

    def decision(
        self,
        run: str,
        incident: str,
        attempt: int,
        verdict: str,
        at: float,
        trigger: str = "t",
        *,
        counters: Counters | None = None,
    ) -> None:
        decision = Decision(
            verdict=verdict,
            rule="self-heal",
            row="6",
            reason="because",
            rulebook=self.rulebook,
            trigger=trigger,
            trigger_time=START,
            incident=incident,
            attempt=attempt,
            domain=FaultDomain.POD,
            code="ascend/80E01801",
            node=NODE.name,
            chip=CHIP.id,
            counters=counters,
        )
        self.tell(topics.DECISIONS, run_subject(run), decision, at)

    def state(
        self,
        incident: str,
        attempt: int,
        state: IncidentState,
        at: float,
        *,
        strategy: str = "in_place_recovery",
        result: IncidentResult | None = None,
        fault_time: float = 0,
        opened: float = 1,
    ) -> None:
        record = Incident(
            incident=incident,
            state=state,
            result=result,
            opened_at=START + timedelta(seconds=opened),
            fault_time=START + timedelta(seconds=fault_time),
            updated_at=START + timedelta(seconds=at),
            attempt=attempt,
            strategy=strategy,
            trigger="t",
            domain=FaultDomain.POD,
            epoch=1,
            rulebook=self.rulebook,
        )
        self.tell(topics.INCIDENTS, incident, record, at)

    def command(self, run: str, incident: str, attempt: int, step: StepName, index: int, at: float) -> None:
        command = Command(
            command=derive_id(incident, attempt, index),
            incident=incident,
            attempt=attempt,
            step=step,
            index=index,
            subject=run_subject(run),
            epoch=1,
            deadline=START + timedelta(hours=1),
            not_after=START + timedelta(hours=1),
            reason="because",
            rulebook=self.rulebook,
            trigger="t",
        )
        self.tell(topics.COMMANDS, run_subject(run), command, at)

    def outcome(
        self,
        run: str,
        incident: str,
        attempt: int,
        step: StepName,
        index: int,
        at: float,
        *,
        result: OutcomeResult = OutcomeResult.DONE,
        effects: tuple[str, ...] = (),
    ) -> None:
        outcome = Outcome(
            command=derive_id(incident, attempt, index),
            incident=incident,
            attempt=attempt,
            step=step,
            result=result,
            effects=effects,
        )
        self.tell(topics.INBOX, run_subject(run), outcome, at)

    def milestone(
        self, run: str, name: MilestoneName, at: float, *, rank: int = 0, attempt: int | None = None
    ) -> None:
        signal = Milestone(placement=Placement(run=run, rank=rank), name=name, attempt=attempt)
        self.tell(topics.SIGNALS, run_subject(run), signal, at)

    def bound(self, run: str, at: float, *, pod: str = "pod-0", epoch: int = 2) -> None:
        """The watcher's word that a pod has its node."""
        placement = Placement(run=run, pod=pod, pod_uid=f"{pod}-uid", epoch=epoch)
        self.tell(topics.SIGNALS, run_subject(run), PodBound(node=NODE, placement=placement), at)

    def seen(self, run: str, at: float, *, annotations: Mapping[str, str] | None = None) -> None:
        """The watcher's word that the run's workload object is there."""
        seen = RunSeen(
            run=run,
            workload=WorkloadKind.JOB,
            namespace="research",
            name=f"job-of-{run}",
            object_uid="uid-1",
            epoch=1,
            size=4,
            supervised=True,
            annotations=dict(annotations or {}),
        )
        self.tell(topics.SIGNALS, run_subject(run), seen, at)

    def ended(self, run: str, at: float) -> None:
        """The watcher's word that it is over."""
        self.tell(
            topics.SIGNALS, run_subject(run), RunEnded(run=run, object_uid="uid-1", how="succeeded"), at
        )

    def progress(self, run: str, step: int, at: float) -> None:
        self.tell(
            topics.SIGNALS,
            run_subject(run),
            Progress(placement=Placement(run=run, rank=0), step=step, step_seconds=1.0),
            at,
        )

    def checkpoint(
        self, run: str, edge: Edge, step: int, at: float, *, topic: topics.Topic = topics.SIGNALS
    ) -> None:
        signal = Checkpoint(
            placement=Placement(run=run, rank=0),
            edge=edge,
            step=step,
            tier=CheckpointTier.LOCAL,
            path="/ckpt",
        )
        self.tell(topic, run_subject(run), signal, at)


def put(store: Store, records: Iterable[Record]) -> None:
    """Insert as the writer does, one batch a topic."""
    batchers: dict[str, Batcher] = {}
    for record in records:
        batcher = batchers.setdefault(record.topic, Batcher(record.topic, record.partition))
        batcher.add(record.offset, record.arrived, place(record), 0.0)
    for batcher in batchers.values():
        for batch in batcher.cut():
            store.insert(batch.table, batch.columns, batch.rows, token=batch.token)


def in_place(story: Story, run: str, incident: str, boundaries: Sequence[float | None]) -> None:
    """An in-place recovery that becomes stable: fault at 0, then decided, terminated, loaded, connected, first step, stable."""
    decided, terminated, loaded, connected, stepped, stable = boundaries
    assert decided is not None
    trigger = story.fault(run, 0, id=f"fault-{incident}")
    story.decision(run, incident, 1, "in_place_recovery", decided, trigger)
    story.state(incident, 1, IncidentState.ACTING, decided)
    story.command(run, incident, 1, StepName.STOP_PROCESSES, 0, decided)
    if terminated is not None:
        story.outcome(
            run, incident, 1, StepName.STOP_PROCESSES, 0, terminated - 1, effects=("told 4 pods to stop",)
        )
        story.command(run, incident, 1, StepName.START_PROCESSES, 2, terminated)
    for name, at in (
        (MilestoneName.CHECKPOINT_LOADED, loaded),
        (MilestoneName.COMMUNICATION_READY, connected),
        (MilestoneName.FIRST_STEP, stepped),
        (MilestoneName.STABLE, stable),
    ):
        if at is not None:
            story.milestone(run, name, at, attempt=1)
    if stable is not None:
        story.state(incident, 1, IncidentState.CLOSED, stable, result=IncidentResult.RECOVERED)
    else:
        story.state(incident, 1, IncidentState.CLOSED, 2000, result=IncidentResult.INCOMPLETE)
