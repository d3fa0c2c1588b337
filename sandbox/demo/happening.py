"""What a reader of the demo is told, one line each: from events of the topics and from edges at the API. Pure.

Said are faults, ends of processes, decisions with their reasons, steps, milestones all ranks have reached, states of the recovery, pods and
taints. Left out is what repeats: heartbeats, progress, looks, and decisions on a node that ask nothing of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from runtime.kubernetes import Object
from schemas.cluster import EPOCH, ISOLATED
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.envelope import Event, Payload
from schemas.ids import RUN, subject_kind, subject_name
from schemas.records import Decision, Incident, IncidentState
from schemas.signals import (
    ChipFault,
    Eviction,
    Milestone,
    MilestoneName,
    NodeCondition,
    ProcessExit,
    RepairResult,
)
from schemas.wording import counted

LONGEST: Final = 200
TAKES_PODS: Final = frozenset({StepName.SUSPEND_JOB, StepName.FAIL_JOB})
"""Steps that end pods from outside: their supervisors hear a signal and no order."""
SAID: Final = {
    MilestoneName.COMMAND_STARTED: "processes run again",
    MilestoneName.COMMUNICATION_READY: "they have found each other",
    MilestoneName.CHECKPOINT_LOADED: "the checkpoint is loaded",
    MilestoneName.FIRST_STEP: "the first step is done",
    MilestoneName.STABLE: "the pace is as before",
}


class Kind(StrEnum):
    """What a line is about."""

    STAGE = "stage"
    """What we do: start, let a fault in."""
    SIGNAL = "signal"
    DECISION = "decision"
    STEP = "step"
    POD = "pod"
    NODE = "node"
    PHASE = "phase"
    RECOVERY = "recovery"


@dataclass(frozen=True)
class Happening:
    """One line."""

    at: datetime
    kind: Kind
    text: str


@dataclass
class Teller:
    """Turns events into lines; remembers what it has told."""

    ranks: int
    _reached: dict[tuple[str, int | None, int | None], set[int | None]] = field(
        default_factory=lambda: defaultdict(set)
    )
    _state: dict[str, str] = field(default_factory=dict)
    _pods: dict[str, str] = field(default_factory=dict)
    _tainted: dict[str, bool] = field(default_factory=dict)
    _attempts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _suspended: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    """Of each run the issue whose pods relight last took away, and since when."""

    def event(self, event: Event) -> list[Happening]:
        """What one event says; nothing for those that are left out."""
        told = self._told(event)
        return [] if told is None else [Happening(event.time, told[0], told[1][:LONGEST])]

    def pods(self, pods: Sequence[Object], now: datetime) -> list[Happening]:
        """Pods that are new, changed their phase or are gone."""
        standing = {pod["metadata"]["name"]: _pod_state(pod) for pod in pods}
        found = [
            Happening(now, Kind.POD, f"{name}: {state}")
            for name, state in standing.items()
            if self._pods.get(name) != state
        ]
        found += [Happening(now, Kind.POD, f"{name}: gone") for name in self._pods if name not in standing]
        self._pods = standing
        return found

    def nodes(self, nodes: Sequence[Object], now: datetime) -> list[Happening]:
        """Nodes that were isolated or released."""
        found = []
        for node in nodes:
            name, isolated = node["metadata"]["name"], is_isolated(node)
            if self._tainted.get(name, False) != isolated:
                done = (
                    "isolated: relight's taint stands, no new pod comes here"
                    if isolated
                    else "released: the taint is gone"
                )
                found.append(Happening(now, Kind.NODE, f"{name} {done}"))
            self._tainted[name] = isolated
        return found

    def _told(self, event: Event) -> tuple[Kind, str] | None:
        match event.data:
            case Milestone() as milestone:
                return self._milestone(milestone)
            case Decision() as decision:
                return _decision(decision, event.subject)
            case Command() as command if command.action == "begin" and command.step is not StepName.NOTIFY:
                return Kind.STEP, self._begins(command, event)
            case Outcome() as outcome if _is_news(outcome):
                return Kind.STEP, _outcome(outcome)
            case Incident() as incident:
                return self._incident(incident)
            case other:
                return self._signal(other, event)

    def _signal(self, told: Payload, event: Event) -> tuple[Kind, str] | None:
        if isinstance(told, ProcessExit):
            return Kind.SIGNAL, said_of_exit(told, suspended=self._is_suspended(told, event.time))
        said = said_of(told)
        return None if said is None else (Kind.SIGNAL, said)

    def _begins(self, command: Command, event: Event) -> str:
        """The step, and which attempt of this recovery it belongs to: numbers on the wire run on over all recoveries of a run."""
        if command.step in TAKES_PODS:
            self._suspended[subject_name(command.subject)] = (command.epoch, event.time)
        if subject_kind(command.subject) != RUN:
            return f"{command.step.value} begins"
        mine = self._attempts[command.incident]
        if command.attempt not in mine:
            mine.append(command.attempt)
        return f"{command.step.value} begins (attempt {mine.index(command.attempt) + 1} of this recovery)"

    def _is_suspended(self, ended: ProcessExit, at: datetime) -> bool:
        """Whether its pod is of an issue that relight had begun to take away."""
        epoch, since = self._suspended.get(ended.placement.run, (0, at))
        return ended.placement.epoch is not None and ended.placement.epoch <= epoch and at >= since

    def _milestone(self, told: Milestone) -> tuple[Kind, str] | None:
        """Once, when the last rank has told it."""
        key = (told.name.value, told.placement.epoch, told.attempt)
        before = len(self._reached[key])
        self._reached[key].add(told.placement.rank)
        if told.name not in SAID or len(self._reached[key]) != self.ranks or before == self.ranks:
            return None
        return Kind.PHASE, f"all {self.ranks} ranks: {SAID[told.name]}"

    def _incident(self, told: Incident) -> tuple[Kind, str] | None:
        """When its state has changed."""
        if self._state.get(told.incident) == told.state.value:
            return None
        self._state[told.incident] = told.state.value
        if told.state is IncidentState.CLOSED:
            return Kind.RECOVERY, f"{told.result.value if told.result else 'closed'} by {told.strategy}"
        return Kind.RECOVERY, f"{told.state.value}: {told.strategy or 'is this a hardware fault?'}"


def is_isolated(node: Object) -> bool:
    """Whether relight's taint stands on a node."""
    return any(taint["key"] == ISOLATED for taint in node["spec"].get("taints") or [])


def said_of(signal: Payload) -> str | None:
    """What a signal says; None for those that are left out."""
    match signal:
        case ChipFault() as fault:
            return f"{fault.node.name}: {fault.namespace} {fault.code} {fault.state.value} on chip {fault.chip.id}"
        case NodeCondition() as condition:
            return f"{condition.node.name}: {condition.condition} {condition.state.value}"
        case ProcessExit() as ended:
            return said_of_exit(ended, suspended=False)
        case Eviction() as eviction:
            return f"{eviction.placement.pod}: {eviction.reason.value}"
        case RepairResult() as repair:
            return f"{repair.node.name}: chip {repair.unit} {repair.result}"
        case _:
            return None


def said_of_exit(ended: ProcessExit, *, suspended: bool) -> str:
    """How a process ended and by whose will. `suspended`: relight was taking its pod away, of which the supervisor knows nothing."""
    how = f"signal {ended.signal}" if ended.signal else f"code {ended.exit_code}"
    if ended.ordered_attempt is not None:
        why = ", as relight ordered"
    elif suspended:
        why = ", as relight suspends the job"
    elif not ended.signal and ended.exit_code == 0:
        why = ", a normal end"
    else:
        why = ", which relight did not order"
    return f"{ended.placement.pod}: the training process ended with {how}{why}"


def _is_news(outcome: Outcome) -> bool:
    return outcome.result is not OutcomeResult.PENDING and outcome.step is not StepName.NOTIFY


def _decision(decision: Decision, subject: str) -> tuple[Kind, str] | None:
    if subject.startswith("node/") and decision.verdict == "record":
        return None
    row = f", row {decision.row}" if decision.row else ""
    shadow = "only in shadow: " if decision.mode == "shadow" else ""
    counted = f", {decision.count} of them" if decision.count else ""
    return (
        Kind.DECISION,
        f"{shadow}{decision.verdict} (rule {decision.rule}{row}{counted}): {decision.reason}",
    )


def _outcome(outcome: Outcome) -> str:
    cause = f": {outcome.cause}" if outcome.cause else ""
    told = f", {counted(outcome.told, 'pod')} told" if outcome.told and not outcome.effects else ""
    wrote = f"; {', '.join(outcome.effects)}" if outcome.effects else ""
    return f"{outcome.step.value} {outcome.result.value}{cause}{told}{wrote}"


def _pod_state(pod: Object) -> str:
    phase = str(pod.get("status", {}).get("phase", "Pending"))
    node = pod["spec"].get("nodeName")
    issue = (pod["metadata"].get("annotations") or {}).get(EPOCH, "1")
    ends = ", ending" if pod["metadata"].get("deletionTimestamp") else ""
    return f"{phase}{f' on {node}' if node else ''}, issue {issue}{ends}"
