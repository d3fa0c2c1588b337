"""A small world in virtual time around `advance`: one inbox, a heap of due times, and scripted actuators.

It plays the shell (mailbox order, ticks, origins) and the cluster (pods, nodes, outcomes). Nothing in it decides: what an actuator answers
is a script a test can replace step by step. Every cell goes through the codec at each write.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from recovery import Cell, Delivery, advance, decode_cell, encode_cell
from recovery.cells import INCIDENT_CELL, CountersCell, HoldCell, IncidentCell
from rules.compiled import CompiledRulebook, default_rulebook
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.envelope import Event, Origin, Payload, Trust, make_event
from schemas.facts import NodeGone, NodeSeen, PodBound, PodEnded, RunEnded, RunSeen, WorkloadKind
from schemas.ids import derive_id, node_subject, run_subject
from schemas.mailbox import Tick
from schemas.records import Decision, Incident
from schemas.signals import (
    ChipFault,
    ChipRef,
    Eviction,
    EvictionReason,
    FaultState,
    HangEvidence,
    Milestone,
    MilestoneName,
    NodeCondition,
    NodeRef,
    Placement,
    PreCheckItem,
    PreemptionNotice,
    ProcessExit,
    ProcessState,
    ProcessStateName,
    Progress,
    Severity,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER = "c1"
HBM = "80E01801"
"""HBM multi-bit ECC: the self-healing fault seed 000 names."""
USER = "80C98002"
"""Input error of the AI Cube: one of the two plain user-class codes."""
BROKEN = "80E18402"
"""Row isolation used up: isolate class."""
NOTICE = "80E01809"
"""Record class."""

Reply = Outcome | Payload | tuple[timedelta, Payload]
Script = Callable[["World", Command], Iterable[tuple[str, Payload, timedelta]]]


@dataclass
class Pod:
    """A pod as the cluster has it."""

    uid: str
    node: str
    rank: int
    epoch: int
    starts: int = 1


@dataclass
class World:
    """One cluster with one run on some nodes and spares, and everything relight said about it."""

    rulebook: CompiledRulebook = field(default_factory=default_rulebook)
    nodes: tuple[str, ...] = ("n1", "n2", "n3")
    size: int = 2
    run: str = "r1"
    now: datetime = START
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    decided_for: list[str] = field(default_factory=list)
    """Subject of each decision."""
    incidents: list[Incident] = field(default_factory=list)
    inbox: list[tuple[Event, datetime]] = field(default_factory=list)
    emit_ids: list[str] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    """Pods whose supervisors say nothing."""
    scripts: dict[StepName, Script] = field(default_factory=dict)
    spare: bool = True
    epoch: int = 1
    effects: dict[str, int] = field(default_factory=dict)
    """How often each command was begun at the target, by command id."""

    def __post_init__(self) -> None:
        self._agenda: list[tuple[datetime, int, Event]] = []
        self._numbers = itertools.count()
        self._source = itertools.count(1)
        self._pod_numbers = itertools.count(1)

    # -------------------------------------------------------------- shell

    def post(self, subject: str, data: Payload, *, after: timedelta = timedelta(0), **envelope: Any) -> Event:
        """Put a message into the inbox at a time from now."""
        number = next(self._source)
        at = self.now + after
        event = make_event(
            data,
            id=envelope.pop("id", None) or derive_id("world", number),
            source="/clusters/c1/world",
            subject=subject,
            time=envelope.pop("time", None) or at,
            cluster=CLUSTER,
            origin=envelope.pop("origin", None),
            **envelope,
        )
        heapq.heappush(self._agenda, (at, next(self._numbers), event))
        return event

    def settle(self, most: timedelta = timedelta(0)) -> None:
        """Handle what is due now, and everything that comes up within `most`."""
        until = self.now + most
        while True:
            at = self._next()
            if at is None or at > until:
                break
            self.now = max(self.now, at)
            self._one()
        self.now = max(self.now, until)

    def silence(self, most: timedelta = timedelta(days=30)) -> None:
        """Let time pass until nothing is due any more; nobody outside says a word."""
        until = self.now + most
        while (at := self._next()) is not None and at <= until:
            self.now = max(self.now, at)
            self._one()

    def _next(self) -> datetime | None:
        dues = [due for _, _, due in self._dues()]
        if self._agenda:
            dues.append(self._agenda[0][0])
        return min(dues, default=None)

    def _dues(self) -> list[tuple[str, str, datetime]]:
        return [
            (subject, name, cell.due)
            for subject, cells in self.cells.items()
            for name, cell in cells.items()
            if cell.due is not None
        ]

    def _one(self) -> None:
        if self._agenda and self._agenda[0][0] <= self.now:
            event = heapq.heappop(self._agenda)[2]
            if event.origin is None:  # a source numbers its messages in the order in which they arrive
                event = event.model_copy(update={"origin": f"world/0/{len(self.inbox)}/0"})
            self.deliver(event)
            return
        subject, name, due = min(self._dues(), key=lambda item: (item[2], item[0], item[1]))
        tick = make_event(
            Tick(cell=name, due=due),
            id=derive_id("tick", subject, name, due.isoformat()),
            source="/clusters/c1/recovery",
            subject=subject,
            time=due,
            cluster=CLUSTER,
        )
        self.deliver(tick)

    def deliver(self, event: Event) -> None:
        """Hand one message to `advance`, keep what it changed, and send on what it emits."""
        offset = len(self.inbox)
        self.inbox.append((event, self.now))
        known = self.cells.setdefault(event.subject, {})
        result = advance(known, Delivery(event, arrival=self.now, now=self.now), self.rulebook)
        for name, cell in result.cells.items():
            if cell is None:
                known.pop(name, None)
            else:
                again = decode_cell(encode_cell(cell))
                assert again == cell, name
                known[name] = again
        for index, emit in enumerate(result.emits):
            self.emit_ids.append(emit.event.id)
            self._route(emit.topic, emit.event, Origin("recovery", 0, offset, index))

    def _route(self, topic: str, event: Event, origin: Origin) -> None:
        data = event.data
        if topic == "inbox.v1":
            stamped = event.model_copy(update={"origin": str(origin)})
            heapq.heappush(self._agenda, (self.now, next(self._numbers), stamped))
        elif isinstance(data, Command):
            self.commands.append(data)
            self._act(data)
        elif isinstance(data, Decision):
            self.decisions.append(data)
            self.decided_for.append(event.subject)
        elif isinstance(data, Incident):
            self.incidents.append(data)

    # -------------------------------------------------------------- actuators

    def _act(self, command: Command) -> None:
        if command.action == "cancel":  # whatever is said of it, the attempt is over
            self.post(*self.answer(command)[:2], after=timedelta(seconds=1))
            return
        if command.action == "begin":
            self.effects[command.command] = self.effects.get(command.command, 0) + 1
        script = self.scripts.get(command.step, DEFAULT_SCRIPTS.get(command.step))
        if script is None:
            return
        for subject, data, after in script(self, command):
            self.post(subject, data, after=after)

    def answer(
        self, command: Command, result: OutcomeResult = OutcomeResult.DONE, **details: Any
    ) -> tuple[str, Payload, timedelta]:
        """An outcome for a command, a moment later."""
        outcome = Outcome(
            command=command.command,
            incident=command.incident,
            attempt=command.attempt,
            step=command.step,
            look=command.look,
            result=result,
            **details,
        )
        return command.subject, outcome, timedelta(seconds=1)

    # -------------------------------------------------------------- facts

    def begin(self, *, supervised: bool = True, supported: bool = True, **annotations: Any) -> World:
        """Nodes and the run appear; annotations are given without their prefix, `job_retry_num="3"`."""
        for name in self.nodes:
            self.post(node_subject(name), NodeSeen(node=node(name), ready=True))
        self.see_run(supervised=supervised, supported=supported, **annotations)
        self.place(self.nodes[: self.size])
        self.settle()
        return self

    def see_run(
        self, *, supervised: bool = True, supported: bool = True, suspended: bool = False, **annotations: str
    ) -> None:
        """The workload object as the watcher sees it."""
        if annotations or not hasattr(self, "_annotations"):
            self._annotations = {
                f"fault-tolerance/{key.replace('_', '-')}": value for key, value in annotations.items()
            }
            self._supervised, self._supported = supervised, supported
        seen = RunSeen(
            run=self.run,
            workload=WorkloadKind.JOB,
            namespace="team",
            name="train",
            object_uid="job-1",
            epoch=self.epoch,
            size=self.size,
            annotations=self._annotations,
            supervised=self._supervised,
            supported=self._supported,
            suspended=suspended,
        )
        self.post(run_subject(self.run), seen)

    def place(self, names: Iterable[str]) -> None:
        """Bind one pod of the present issue to each node."""
        for rank, name in enumerate(names):
            pod = Pod(uid=f"pod-{next(self._pod_numbers)}", node=name, rank=rank, epoch=self.epoch)
            self.pods[pod.uid] = pod
            self._tell_bound(pod)

    def repeat_pods(self) -> None:
        """A resync: every pod that lives is told again, in the same words."""
        for pod in self.pods.values():
            self._tell_bound(pod)

    def _tell_bound(self, pod: Pod) -> None:
        chips = (f"{pod.node}-c0", f"{pod.node}-c1")
        bound = PodBound(node=node(pod.node), placement=self.where(pod), chips=chips)
        self.post(run_subject(self.run), bound)
        self.post(node_subject(pod.node), bound)

    def take_away(self, pod: Pod, how: str = "deleted", *, gone: bool = True) -> None:
        """A pod ends; `gone`: the kubelet has said that its processes are."""
        self.pods.pop(pod.uid, None)
        ended = PodEnded(node=node(pod.node), placement=self.where(pod), how=how, processes_gone=gone)  # type: ignore[arg-type]
        self.post(run_subject(self.run), ended)
        self.post(node_subject(pod.node), ended)

    def where(self, pod: Pod) -> Placement:
        """Placement of a pod."""
        return Placement(run=self.run, pod_uid=pod.uid, rank=pod.rank, epoch=pod.epoch)

    def pod_on(self, name: str) -> Pod:
        """The run's pod on a node."""
        return next(pod for pod in self.pods.values() if pod.node == name)

    # -------------------------------------------------------------- signals

    def fault(
        self,
        code: str = HBM,
        *,
        on: str = "n1",
        chip: int = 0,
        state: FaultState = FaultState.ONCE,
        namespace: str = "ascend",
        severity: Severity | None = None,
        placed: bool = True,
        trust: Trust = Trust.INTERNAL,
        settle: bool = True,
        **envelope: Any,
    ) -> Event:
        """A chip fault, as its run and as its node get it."""
        pod = next((pod for pod in self.pods.values() if pod.node == on), None)
        data = ChipFault(
            node=node(on),
            placement=self.where(pod) if pod and placed else None,
            chip=ChipRef(id=f"{on}-c{chip}", index=chip),
            namespace=namespace,
            code=code,
            state=state,
            severity=severity,
        )
        first = self.post(node_subject(on), data, trust=trust, **envelope)
        if pod and placed:
            envelope.pop("id", None)
            self.post(run_subject(self.run), data, trust=trust, id=first.id, **envelope)
        if settle:
            self.settle()
        return first

    def condition(
        self, condition: str = "not-ready", *, on: str = "n1", state: FaultState = FaultState.ASSERTED
    ) -> None:
        """A condition of a node."""
        self.post(node_subject(on), NodeCondition(node=node(on), condition=condition, state=state))
        self.settle()

    def exit(self, code: int = 1, *, on: str = "n1", oom: bool = False, ordered: int | None = None) -> None:
        """The process of the run's pod on a node ended."""
        pod = self.pod_on(on)
        data = ProcessExit(
            node=node(on),
            placement=self.where(pod),
            start=pod.starts,
            exit_code=code,
            oom=oom,
            ordered_attempt=ordered,
        )
        pod.starts += 1
        self.post(run_subject(self.run), data)
        self.settle()

    def evict(self, reason: EvictionReason, *, on: str = "n1", **details: Any) -> None:
        """The run's pod on a node is moved off."""
        pod = self.pod_on(on)
        self.post(
            run_subject(self.run),
            Eviction(node=node(on), placement=self.where(pod), reason=reason, **details),
        )
        self.settle()

    def stall(self, *, on: str = "n1", state: Literal["stalled", "moving"] = "stalled") -> None:
        """The run's pod on a node stands still, and what is started after that has the next number; or it moves again."""
        pod = self.pod_on(on)
        data = HangEvidence(
            placement=self.where(pod),
            state=state,
            method="steps",
            last_progress=self.now - timedelta(minutes=30),
            start=pod.starts,
        )
        pod.starts += state == "stalled"
        self.post(run_subject(self.run), data)
        self.settle()

    def check(
        self,
        item: str = "disk-size root",
        *,
        on: str = "n1",
        granted: int | None = None,
        found: int | None = None,
    ) -> None:
        """An environment check failed in the run's pod on a node."""
        pod = self.pod_on(on)
        data = PreCheckItem(
            node=node(on),
            placement=self.where(pod),
            item=item,
            result="failed",
            duration_seconds=1,
            devices_granted=granted,
            devices_found=found,
        )
        self.post(run_subject(self.run), data)
        self.settle()

    def notice(self, *, on: str = "n1") -> None:
        """The run's pod on a node will be preempted."""
        pod = self.pod_on(on)
        data = PreemptionNotice(
            node=node(on), placement=self.where(pod), deadline=self.now + timedelta(minutes=2), by="cloud"
        )
        self.post(run_subject(self.run), data)
        self.settle()

    def step(self, number: int) -> None:
        """The run reports a training step."""
        pod = next(iter(self.pods.values()))
        self.post(run_subject(self.run), Progress(placement=self.where(pod), step=number))
        self.settle()

    def stable(self) -> None:
        """The run says that throughput is back."""
        pod = next(iter(self.pods.values()))
        self.post(run_subject(self.run), Milestone(placement=self.where(pod), name=MilestoneName.STABLE))
        self.settle()

    def end(self, how: str) -> None:
        """The workload object ended."""
        self.post(run_subject(self.run), RunEnded(run=self.run, object_uid="job-1", how=how))  # type: ignore[arg-type]
        self.settle()

    def lose(self, name: str) -> None:
        """The Node object is deleted."""
        self.post(node_subject(name), NodeGone(node=node(name)))
        self.settle()

    # -------------------------------------------------------------- what can be seen

    @property
    def incident(self) -> IncidentCell | None:
        """The run's incident cell, closed ones included."""
        cell = self.cells.get(run_subject(self.run), {}).get(INCIDENT_CELL)
        assert cell is None or isinstance(cell, IncidentCell)
        return cell

    @property
    def counters(self) -> CountersCell:
        """The run's counters."""
        cell = self.cells.get(run_subject(self.run), {}).get("counters", CountersCell())
        assert isinstance(cell, CountersCell)
        return cell

    def holds(self, name: str) -> list[HoldCell]:
        """Holds of a node."""
        cells = self.cells.get(node_subject(name), {})
        return [cell for cell in cells.values() if isinstance(cell, HoldCell)]

    def begun(self, *, of: str = "") -> list[str]:
        """Steps that were begun for the run (or for `of`, a subject), in order; notifications left out."""
        subject = of or run_subject(self.run)
        return [
            command.step.value
            for command in self.commands
            if command.subject == subject
            and command.action == "begin"
            and command.step is not StepName.NOTIFY
        ]

    def verdicts(self, *, subject_run: bool = True) -> list[str]:
        """Verdicts of enforced decisions, in order; with `subject_run` only those of the run (they carry counters)."""
        return [
            d.verdict
            for d in self.decisions
            if d.mode == "enforce" and (d.counters is not None) == subject_run
        ]

    def rules(self) -> list[str]:
        """Rules of the run's enforced decisions, in order."""
        return [d.rule for d in self.decisions if d.mode == "enforce" and d.counters is not None]


def node(name: str) -> NodeRef:
    """A node by name; its UID is the name here."""
    return NodeRef(uid=name, name=name)


# ------------------------------------------------------------------ scripts of a healthy cluster


def _stop(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    yield world.answer(command, told=len(world.pods))
    if command.action == "begin":
        yield from _report(world, command, ProcessStateName.STOPPED)


def _start(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    yield world.answer(command, told=len(world.pods))
    if command.action == "begin":
        yield from _report(world, command, ProcessStateName.RUNNING)


def _report(
    world: World, command: Command, state: ProcessStateName
) -> Iterable[tuple[str, Payload, timedelta]]:
    for pod in world.pods.values():
        if pod.uid in world.silent:
            continue
        said = ProcessState(
            placement=world.where(pod),
            epoch=pod.epoch,
            attempt=command.attempt,
            state=state,
            start=pod.starts,
        )
        yield command.subject, said, timedelta(seconds=2)


def _heal(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    if command.action == "begin":
        yield world.answer(command)


def _find_spare(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    yield world.answer(command, spare=world.spare)


def _isolate(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    world.held.add(command.arguments["node_name"])
    yield world.answer(command)


def _release_node(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    world.held.discard(command.arguments["node_name"])
    yield world.answer(command)


def _suspend(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    if command.action != "begin":
        return
    for pod in list(world.pods.values()):
        world.take_away(pod)
    yield world.answer(command)


def _resume(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    off = {item["name"] for item in command.arguments.get("keep_off", [])}
    free = [name for name in world.nodes if name not in off | world.held | world.down]
    if len(free) < world.size:
        yield world.answer(command, OutcomeResult.PENDING)
        return
    if world.pods:
        return
    world.epoch = command.arguments["epoch"]
    world.see_run()
    world.place(free[: world.size])
    yield world.answer(command, epoch=world.epoch)


def _fail(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    if command.action != "begin":
        return
    yield world.answer(command)
    yield command.subject, RunEnded(run=world.run, object_uid="job-1", how="failed"), timedelta(seconds=2)


def _done(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    yield world.answer(command)


DEFAULT_SCRIPTS: dict[StepName, Script] = {
    StepName.STOP_PROCESSES: _stop,
    StepName.START_PROCESSES: _start,
    StepName.HEAL_CHIPS: _heal,
    StepName.FIND_SPARE: _find_spare,
    StepName.ISOLATE_NODE: _isolate,
    StepName.RELEASE_NODE: _release_node,
    StepName.SUSPEND_JOB: _suspend,
    StepName.RESUME_JOB: _resume,
    StepName.FAIL_JOB: _fail,
    StepName.RELEASE_JOB: _done,
}


def silent(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
    """An actuator that says nothing."""
    del world, command
    return ()


def always(result: OutcomeResult, **details: Any) -> Script:
    """An actuator that answers every command with the same result."""

    def script(world: World, command: Command) -> Iterable[tuple[str, Payload, timedelta]]:
        return (world.answer(command, result, **details),)

    return script
