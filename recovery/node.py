"""The node's mailbox: what the node is, who lives on it, its faults and holds.

A stamped fault is here only as evidence (its run has it already); an unstamped one is handed on to the run that lived on the chip, by
event time; a condition of the node is handed on to all runs that live on it. A signal nobody can place waits up to 5 s (finding R13).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from recovery.cells import (
    ISOLATION_CELL,
    NODE_CELL,
    BoundCell,
    ConditionCell,
    HoldCell,
    IsolationCell,
    NodeCell,
    WaitingCell,
    bound_name,
    condition_name,
)
from recovery.classification import NODE_NAMESPACE, Fault, read_fault
from recovery.gap import node_lost_messages
from recovery.holds import (
    bring_in_line,
    holds_of,
    isolation_due,
    outcome_came,
    place_hold,
    release_all,
    request_came,
)
from recovery.journal import decide, decide_by, notify
from recovery.ladder import Answer, Question, ask
from recovery.occurrences import expire_fault, observe_edge
from recovery.turn import Turn
from rules.model import LadderClass, Rule, Verb
from rules.symbols import NodeSymbols, RuleKind, Symbols
from schemas.commands import Outcome
from schemas.envelope import decode, encode
from schemas.facts import NodeGone, NodeSeen, PodBound, PodEnded
from schemas.ids import run_subject
from schemas.mailbox import (
    CancelIncidentOrder,
    HoldCause,
    HoldRequest,
    NodeNews,
    PartitionGap,
    PauseOrder,
    ReleaseNodeOrder,
    Tick,
)
from schemas.records import FaultDomain
from schemas.signals import ChipFault, NodeCondition, NodeRef, Placement, SignalGap
from schemas.wording import counted

HISTORY: Final = timedelta(hours=24)
"""How long it is known who lived on the node (design 5)."""


def handle(turn: Turn) -> None:  # noqa: C901, PLR0912 - one line a kind of message
    """Handle one message of a node's mailbox."""
    data: Any = turn.data
    match data:
        case ChipFault():
            _chip_fault(turn, data)
        case NodeCondition():
            _condition(turn, data)
        case PodBound():
            _bound(turn, data)
        case PodEnded():
            _unbound(turn, data)
        case NodeSeen():
            _node_seen(turn, data)
        case NodeGone():
            _node_gone(turn, data)
        case HoldRequest():
            request_came(turn, data)
        case Outcome():
            outcome_came(turn, data)
        case ReleaseNodeOrder():
            release_all(turn, by=data.by, reason=data.reason, command=True)
        case PauseOrder() | CancelIncidentOrder():
            _say_for_runs(turn, data)
        case SignalGap():
            _gap(turn, data)
        case PartitionGap():
            node_lost_messages(turn)
        case Tick():
            _tick(turn, data)


def node_of(turn: Turn, ref: NodeRef) -> NodeCell:
    """The node's cell, made at first mention."""
    cell = turn.get(NODE_CELL, NodeCell)
    if cell is None:
        cell = NodeCell(node=ref)
        turn.put(NODE_CELL, cell)
    return cell


def _chip_fault(turn: Turn, data: ChipFault) -> None:
    node = node_of(turn, data.node)
    fault = read_fault(turn.event, turn.rulebook)
    is_new = observe_edge(turn, fault, None)
    if not is_new and fault.state != "cleared":
        return
    if data.placement is None and not _hand_on_chip_fault(turn, fault, data):
        turn.put(
            f"waiting/{turn.event.id}", WaitingCell((encode(turn.event).decode(),), _unplaced_until(turn))
        )
    if is_new:
        _judge(turn, fault, node)


def _unplaced_until(turn: Turn) -> datetime:
    return turn.after(turn.rulebook.settings.unplaced_wait)


def _hand_on_chip_fault(turn: Turn, fault: Fault, data: ChipFault) -> bool:
    """Tell the run that had the chip when it happened; False when nobody is known yet."""
    there = [cell for cell in bounds(turn) if _lived(cell, fault.event.time)]
    on_chip = [cell for cell in there if data.chip.id in cell.chips]
    if not on_chip and len({cell.run for cell in there}) == 1 and not any(cell.chips for cell in there):
        on_chip = there[:1]
    for cell in on_chip[:1]:
        _news(turn, cell, fault)
    return bool(on_chip)


def _lived(cell: BoundCell, at: datetime) -> bool:
    return cell.since <= at and (cell.until is None or at <= cell.until)


def bounds(turn: Turn) -> list[BoundCell]:
    """Pods that live or lived here; their number is bounded by the node, not by the job."""
    return [cell for name in turn.names("bound/") if (cell := turn.get(name, BoundCell)) is not None]


def _news(turn: Turn, cell: BoundCell, fault: Fault, *, state: str | None = None) -> None:
    data = fault.event.data
    news = NodeNews(
        node=fault.node,
        placement=Placement(
            run=cell.run,
            pod_uid=cell.pod_uid,
            rank=cell.rank if cell.rank >= 0 else None,
            epoch=cell.epoch or None,
        ),
        namespace=fault.namespace,
        code=fault.code,
        chip=fault.chip,
        state=state or fault.state,  # type: ignore[arg-type]
        evidence=fault.evidence,
        seen_at=fault.event.time,
        severity=fault.severity or None,
        product=getattr(data, "product", None),
        detail=fault.detail or None,
    )
    turn.tell(run_subject(cell.run), news, time=fault.event.time)


def _judge(turn: Turn, fault: Fault, node: NodeCell) -> None:
    symbols = Symbols(
        fault=fault.symbols(),
        node=NodeSymbols(
            known=node.known,
            ready=node.ready,
            held=any(True for _ in turn.names("hold/")),
            protected=node.protected,
            occupied=any(cell.until is None for cell in bounds(turn)),
        ),
        limits=turn.rulebook.limits,
    )
    kind = RuleKind.CHIP_FAULT if fault.chip else RuleKind.NODE_FAULT
    answer = ask(turn.rulebook, Question("node", kind, symbols, code=fault.code, trust=fault.event.trust))
    for shadow in answer.shadows:
        decide_by(turn, shadow, shadow.then[0], fault.domain, mode="shadow", fault=fault)
    if answer.rule is None:
        return
    _follow(turn, fault, answer.rule, answer)
    # Behind the act: it waits for no words.
    if answer.rule.notify or (fault.row is not None and fault.row.notify):
        notify(turn, answer.rule.reason, about=f"{fault.namespace}/{fault.code}")


def _follow(turn: Turn, fault: Fault, rule: Rule, answer: Answer) -> None:
    verb = rule.then[0]
    decide_by(turn, rule, verb, fault.domain, fault=fault, considered=answer.considered)
    if verb != Verb.HOLD.value:
        return
    cause = HoldCause(
        namespace=fault.namespace,
        code=fault.code,
        chip=fault.chip,
        evidence=fault.evidence,
        ladder_class=(fault.ladder_class or LadderClass.ISOLATE).value,
        seen_at=fault.event.time,
    )
    place_hold(turn, cause, rule=rule.id, reason=rule.reason)


def _condition(turn: Turn, data: NodeCondition) -> None:
    node_of(turn, data.node)
    fault = read_fault(turn.event, turn.rulebook)
    name = condition_name(data.condition)
    standing = turn.get(name, ConditionCell)
    if fault.state == "cleared":
        observe_edge(turn, fault, None)
        if standing is not None and standing.told:
            _tell_runs(turn, fault, state="cleared")
        turn.drop(name)
        return
    if not observe_edge(turn, fault, None):
        return
    if fault.state == "asserted" and fault.ladder_class is LadderClass.ISOLATE:
        due = turn.after(turn.rulebook.settings.node_grace)
        encoded = encode(turn.event).decode()
        turn.put(name, ConditionCell(since=turn.event.time, event=encoded, isolates=True, due=due))
        return
    _judge_condition(turn, fault)
    if fault.state == "asserted":
        turn.put(name, ConditionCell(since=turn.event.time, event=turn.event.id, told=True))


def _judge_condition(turn: Turn, fault: Fault) -> None:
    _judge(turn, fault, node_of(turn, fault.node))
    if fault.ladder_class is not LadderClass.RECORD:
        _tell_runs(turn, fault)


def _tell_runs(turn: Turn, fault: Fault, *, state: str | None = None) -> None:
    """Hand a condition of the node on to each run that lives on it, once a run."""
    told: set[str] = set()
    for cell in bounds(turn):
        if cell.until is None and cell.run not in told:
            told.add(cell.run)
            _news(turn, cell, fault, state=state)


def _bound(turn: Turn, data: PodBound) -> None:
    node_of(turn, data.node)
    uid = data.placement.pod_uid
    if uid is None or turn.get(bound_name(uid), BoundCell) is not None:
        return
    cell = BoundCell(
        run=data.placement.run,
        pod_uid=uid,
        since=turn.event.time,
        chips=data.chips,
        epoch=data.placement.epoch or 0,
        rank=data.placement.rank if data.placement.rank is not None else -1,
    )
    before = [other for other in bounds(turn) if other.run == cell.run]
    turn.put(bound_name(uid), cell)
    _hand_on_standing(turn, cell, before)


def _hand_on_standing(turn: Turn, cell: BoundCell, before: list[BoundCell]) -> None:
    """Isolate-class conditions that the runs here were told of already: a run that comes later is told once, too."""
    for name in tuple(turn.names("condition/")):
        condition = turn.get(name, ConditionCell)
        if condition is None or not (condition.isolates and condition.told):
            continue
        if not any(other.until is None or other.until >= condition.since for other in before):
            _news(turn, cell, read_fault(decode(condition.event.encode()), turn.rulebook))


def _unbound(turn: Turn, data: PodEnded) -> None:
    uid = data.placement.pod_uid
    cell = turn.get(bound_name(uid), BoundCell) if uid else None
    if uid is None or cell is None or cell.until is not None:
        return
    turn.put(bound_name(uid), replace(cell, until=turn.event.time, due=turn.after(HISTORY)))
    node = turn.get(NODE_CELL, NodeCell)
    if node is not None and node.gone and not data.processes_gone:
        _tell_fenced(turn, data.node, cell)


def _tell_fenced(turn: Turn, node: NodeRef, cell: BoundCell) -> None:
    """The node is gone: so are the processes of a pod that vanished from it, and its run may wait for just that."""
    where = Placement(
        run=cell.run,
        pod_uid=cell.pod_uid,
        rank=cell.rank if cell.rank >= 0 else None,
        epoch=cell.epoch or None,
    )
    fenced = PodEnded(node=node, placement=where, how="lost", processes_gone=True)
    turn.tell(run_subject(cell.run), fenced)


def _node_seen(turn: Turn, data: NodeSeen) -> None:
    before = node_of(turn, data.node)
    turn.put(
        NODE_CELL,
        replace(
            before,
            node=data.node,
            known=True,
            ready=data.ready,
            cordoned=data.cordoned,
            our_taint=data.our_taint,
            protected=data.protected,
        ),
    )
    holds = holds_of(turn)
    if holds and data.released_by:
        what = (
            "the node was uncordoned, or our mark taken off"
            if data.our_taint
            else "our taint was taken off the node"
        )
        release_all(turn, by=data.released_by, reason=what, command=data.our_taint)
        return
    if data.our_taint or not holds:
        return
    if before.our_taint and any(hold.state == "held" for hold in holds.values()):
        bring_in_line(turn, "isolate")


def _node_gone(turn: Turn, data: NodeGone) -> None:
    """The Node object is gone: nothing is inherited by its name, its cells go away after their time."""
    node = node_of(turn, data.node)
    recent = turn.now - turn.rulebook.settings.unfenced_pod
    for cell in bounds(turn):
        if cell.until is not None and cell.until >= recent:
            _tell_fenced(turn, data.node, cell)
    for name, hold in holds_of(turn).items():
        del hold
        turn.drop(name)
    turn.drop(ISOLATION_CELL)
    kept = turn.rulebook.settings.cells_kept_after_end
    turn.put(NODE_CELL, replace(node, gone=True, due=turn.after(kept)))


def _say_for_runs(turn: Turn, order: PauseOrder | CancelIncidentOrder) -> None:
    """Only an older command line, or somebody else, gives it to a node: who waits for its effect finds why there is none."""
    decide(
        turn,
        verdict="record",
        rule="order-for-runs",
        row="12",
        reason=f"{order.kind} by {order.by}: an order that only runs obey; nothing changes for this node",
        domain=FaultDomain.NODE,
    )


def _gap(turn: Turn, data: SignalGap) -> None:
    """Signals were lost on the way: people are told, nothing is concluded."""
    lost = "an unknown number of signals" if data.lost is None else counted(data.lost, "signal")
    decide(
        turn,
        verdict="record",
        rule="gap",
        row="12",
        reason=f"{lost} lost ({data.lost_class}): {data.reason}",
        domain=FaultDomain.NODE,
        flags=("gap",),
    )


def _tick(turn: Turn, tick: Tick) -> None:
    name = tick.cell
    cell: Any = turn.get(name, object)
    if cell is None or getattr(cell, "due", None) != tick.due or turn.now < tick.due:
        return
    match name.partition("/")[0]:
        case "isolation" if isinstance(cell, IsolationCell):
            isolation_due(turn, cell)
        case "condition" if isinstance(cell, ConditionCell):
            _grace_over(turn, name, cell)
        case "waiting" if isinstance(cell, WaitingCell):
            _unplaced(turn, name, cell)
        case "fault":
            expire_fault(turn, name)
        case "node":
            for each in tuple(turn.names()):
                turn.drop(each)
        case "hold" if isinstance(cell, HoldCell):
            turn.put(name, replace(cell, due=None))
        case _:
            turn.drop(name)


def _grace_over(turn: Turn, name: str, cell: ConditionCell) -> None:
    """The condition has stood for its grace: the node is judged and its runs are told."""
    own = turn.event
    turn.event = decode(cell.event.encode())
    turn.put(name, replace(cell, told=True, due=None))
    _judge_condition(turn, read_fault(turn.event, turn.rulebook))
    turn.event = own


def _unplaced(turn: Turn, name: str, cell: WaitingCell) -> None:
    """Last try to place a chip fault; after it the fault was nobody's, and stays the node's own."""
    turn.drop(name)
    own = turn.event
    for raw in cell.events:
        turn.event = decode(raw.encode())
        data = turn.event.data
        if isinstance(data, ChipFault):
            _hand_on_chip_fault(turn, read_fault(turn.event, turn.rulebook), data)
    turn.event = own


__all__ = ["NODE_NAMESPACE", "bounds", "handle", "node_of"]
