"""Holds: why a node is isolated. Only the node's mailbox isolates and releases (finding Q4).

A hold names a cause and outlives the incident that asked for it; it ends by the release path or by a human. Cordon, taint and annotation
are the actuator's mirror of the holds: each change of them is one command, asked again until it is answered or its tries are used up.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from recovery.cells import (
    ASKERS_KEPT,
    ISOLATION_CELL,
    NODE_CELL,
    Asker,
    HoldCell,
    IsolationCell,
    NodeCell,
    hold_name,
)
from recovery.classification import NODE_NAMESPACE
from recovery.journal import decide, notify
from recovery.turn import Turn
from schemas import topics
from schemas.commands import Command, Outcome, OutcomeResult, StepName
from schemas.ids import derive_id, run_subject
from schemas.mailbox import HoldAnswer, HoldCause, HoldRequest
from schemas.records import FaultDomain
from schemas.wording import counted

COMMAND_LIFE: Final = timedelta(seconds=60)
LOOK_EVERY: Final = timedelta(seconds=5)
CAUSES_SENT: Final = 32
RECOVERED: Final = "recovered"
"""Cause of an actuator that did not isolate: all that is held against the node is that it was not Ready, and it is now."""
_REFUTED_BY_READY: Final = frozenset({"not-ready", "unreachable"})


def place_hold(turn: Turn, cause: HoldCause, *, rule: str, reason: str, asker: Asker | None = None) -> bool:
    """Hold the node for a cause; True when the cause is new. Who asked is answered once the node is isolated."""
    name = hold_name(cause)
    hold = turn.get(name, HoldCell)
    is_new = hold is None
    if hold is None:
        hold = HoldCell(cause=cause, since=turn.now, rule=rule, reason=reason)
    if hold.state == "given_up":
        hold = replace(hold, state="wanted")
    if asker is not None and asker not in hold.askers:
        hold = replace(hold, askers=(*hold.askers, asker)[-ASKERS_KEPT:])
    turn.put(name, hold)
    if hold.state == "held" and asker is not None:
        answer(turn, name, "held")
        return is_new
    if is_new or not _under_way(turn, "isolate"):
        bring_in_line(turn, "isolate")
    return is_new


def _under_way(turn: Turn, wish: str) -> bool:
    cell = turn.get(ISOLATION_CELL, IsolationCell)
    return cell is not None and cell.pending and cell.wish == wish


def request_came(turn: Turn, request: HoldRequest) -> None:
    """A run asks for its node to be held."""
    asker = Asker(run=request.run, incident=request.incident, attempt=request.attempt)
    node = turn.get(NODE_CELL, NodeCell)
    if node is None:
        turn.put(NODE_CELL, NodeCell(node=request.node))
    elif node.gone:
        _answer_one(turn, asker, "held", "the node is gone")
        return
    is_new = place_hold(turn, request.cause, rule=request.rule, reason=request.reason, asker=asker)
    if is_new:
        decide(
            turn,
            verdict="hold",
            rule=request.rule,
            row="4",
            reason=f"asked by run {request.run}: {request.reason}",
            domain=FaultDomain.NODE,
        )


def holds_of(turn: Turn) -> dict[str, HoldCell]:
    """All holds of the node by name."""
    return {name: hold for name in turn.names("hold/") if (hold := turn.get(name, HoldCell)) is not None}


def bring_in_line(turn: Turn, wish: str) -> None:
    """Send the command that makes the node's isolation what its holds say."""
    node = turn.get(NODE_CELL, NodeCell)
    if node is None or node.gone:
        return
    _cancel_other(turn, wish)
    before = turn.get(ISOLATION_CELL, IsolationCell)
    sequence = before.sequence + 1 if before else 1
    deadline = turn.after(COMMAND_LIFE)
    cell = IsolationCell(
        wish=wish,
        sequence=sequence,
        command=derive_id(turn.cluster, turn.subject, wish, sequence),
        deadline=deadline,
        tries=before.tries + 1 if before and before.wish == wish else 1,
        due=turn.after(LOOK_EVERY),
    )
    turn.put(ISOLATION_CELL, cell)
    _send(turn, cell, node, "begin")


def _cancel_other(turn: Turn, wish: str) -> None:
    """Take back a command under way that wants anything but `wish`."""
    node = turn.get(NODE_CELL, NodeCell)
    cell = turn.get(ISOLATION_CELL, IsolationCell)
    if node is not None and cell is not None and cell.pending and cell.wish != wish:
        _send(turn, replace(cell, deadline=turn.after(COMMAND_LIFE)), node, "cancel")


def _rest(turn: Turn) -> None:
    """Nothing is to be done any more. The count of commands goes on: what is carried out late is known by its number."""
    cell = turn.get(ISOLATION_CELL, IsolationCell)
    if cell is not None:
        turn.put(ISOLATION_CELL, replace(cell, pending=False, tries=0, due=None))


def _send(turn: Turn, cell: IsolationCell, node: NodeCell, action: str) -> None:
    holds = list(holds_of(turn).values())
    first = holds[0] if holds else None
    command = Command(
        command=cell.command,
        incident=derive_id(turn.cluster, turn.subject, "isolation"),
        attempt=cell.sequence,
        step=StepName.ISOLATE_NODE if cell.wish == "isolate" else StepName.RELEASE_NODE,
        index=0,
        action=action,  # type: ignore[arg-type]
        look=cell.look,
        subject=turn.subject,
        epoch=0,
        deadline=cell.deadline,
        not_after=cell.deadline + turn.rulebook.settings.command_patience,
        reason=first.reason if first else "no hold is left",
        rulebook=turn.rulebook.hash,
        trigger=first.cause.evidence if first else turn.event.id,
        arguments=_arguments(node, holds),
    )
    turn.emit(topics.COMMANDS, turn.subject, command, name=derive_id(cell.command, action, cell.look))


def _arguments(node: NodeCell, holds: list[HoldCell]) -> dict[str, Any]:
    return {
        "node": node.node.uid,
        "node_name": node.node.name,
        "holds": [
            {
                "cause": f"{hold.cause.namespace}/{hold.cause.code}",
                "chip": hold.cause.chip.id if hold.cause.chip else None,
                "class": hold.cause.ladder_class,
                "evidence": hold.cause.evidence,
                "since": hold.since.isoformat(),
                "reason": hold.reason,
            }
            for hold in holds[:CAUSES_SENT]
        ],
        "runs": sorted({asker.run for hold in holds for asker in hold.askers}),
    }


def outcome_came(turn: Turn, outcome: Outcome) -> None:
    """An actuator's word on isolating or releasing."""
    cell = turn.get(ISOLATION_CELL, IsolationCell)
    if cell is None or not cell.pending or outcome.command != cell.command:
        return
    if outcome.result in {OutcomeResult.PENDING, OutcomeResult.UNREACHABLE}:
        wait = timedelta(seconds=outcome.look_again_seconds) if outcome.look_again_seconds else LOOK_EVERY
        turn.put(ISOLATION_CELL, replace(cell, due=turn.after(wait)))
        return
    if outcome.result is OutcomeResult.DONE:
        turn.put(ISOLATION_CELL, replace(cell, pending=False, tries=0, due=None))
        if cell.wish == "isolate":
            _settle(turn, "held", "")
        return
    cause = outcome.cause or outcome.result.value
    if cause == RECOVERED and cell.wish == "isolate":
        _recovered(turn, cell)
        return
    blocked = outcome.result is OutcomeResult.BLOCKED
    _settle(turn, "blocked" if blocked else "refused", cause)
    _try_later(turn, cell, cause)


def _recovered(turn: Turn, cell: IsolationCell) -> None:
    """The node came back while nobody watched: it is held no longer for having been away, and nobody has to look."""
    _settle(turn, "refused", RECOVERED)
    for name, hold in holds_of(turn).items():
        if hold.cause.namespace == NODE_NAMESPACE and hold.cause.code in _REFUTED_BY_READY:
            turn.drop(name)
    if holds_of(turn):  # another fault, which the command did not name
        _try_later(turn, cell, RECOVERED)
        return
    _rest(turn)
    decide(
        turn,
        verdict="release",
        rule="hold",
        row="4",
        reason="the node is Ready again; it was not isolated",
        domain=FaultDomain.NODE,
    )


def _settle(turn: Turn, state: str, cause: str) -> None:
    """All holds that are not held yet take the state, and who asked is answered."""
    for name, hold in holds_of(turn).items():
        if hold.state == "held":
            continue
        turn.put(name, replace(hold, state="held" if state == "held" else "blocked"))
        answer(turn, name, state, cause)


def answer(turn: Turn, name: str, said: str, cause: str = "") -> None:
    """Answer the runs that asked for a hold, once."""
    hold = turn.get(name, HoldCell)
    if hold is None:
        return
    for asker in hold.askers:
        _answer_one(turn, asker, said, cause)
    turn.put(name, replace(hold, askers=()))


def _answer_one(turn: Turn, asker: Asker, said: str, cause: str) -> None:
    node = turn.get(NODE_CELL, NodeCell)
    if node is None:
        return
    reply = HoldAnswer(
        node=node.node,
        incident=asker.incident,
        attempt=asker.attempt,
        answer=said,  # type: ignore[arg-type]
        cause=cause or None,
    )
    turn.tell(run_subject(asker.run), reply)


def _try_later(turn: Turn, cell: IsolationCell, cause: str) -> None:
    settings = turn.rulebook.settings
    if cell.tries < settings.hold_tries:
        turn.put(ISOLATION_CELL, replace(cell, pending=False, due=turn.after(settings.hold_retry)))
        return
    turn.put(ISOLATION_CELL, replace(cell, pending=False, tries=0, due=None))
    if cell.wish == "isolate":
        for name, hold in holds_of(turn).items():
            if hold.state != "held":
                turn.put(name, replace(hold, state="given_up"))
    reason = (
        f"{cell.wish} did not succeed in {counted(cell.tries, 'try', 'tries')} ({cause}); a human has to look"
    )
    decide(
        turn,
        verdict="give_up",
        rule="hold",
        row="4",
        reason=reason,
        domain=FaultDomain.NODE,
        flags=("not_isolated",),
    )
    notify(turn, reason, about="isolation")


def isolation_due(turn: Turn, cell: IsolationCell) -> None:
    """Look again, try again, or take silence for an answer."""
    node = turn.get(NODE_CELL, NodeCell)
    if node is None or node.gone:
        turn.drop(ISOLATION_CELL)
        return
    if not cell.pending:
        bring_in_line(turn, cell.wish)
        return
    if turn.now < cell.deadline:
        looking = replace(cell, look=cell.look + 1, due=min(turn.after(LOOK_EVERY), cell.deadline))
        turn.put(ISOLATION_CELL, looking)
        _send(turn, looking, node, "look")
        return
    _settle(turn, "refused", "no answer")
    _try_later(turn, cell, "no answer")


def release_all(turn: Turn, *, by: str, reason: str, command: bool) -> None:
    """All holds end: by a human's order (`command`: the taint is ours to remove) or because a human removed it already."""
    holds = holds_of(turn)
    ours = any(hold.state == "held" for hold in holds.values()) or _under_way(turn, "isolate")
    for name in holds:
        answer(turn, name, "refused", f"released by {by}")
        turn.drop(name)
    if command and ours:
        bring_in_line(turn, "release")
    elif not _under_way(turn, "release"):  # a node that we do not isolate is never released by us
        _cancel_other(turn, "release")
        _rest(turn)
    decide(
        turn,
        verdict="release",
        rule="human",
        row="",
        reason=f"released by {by}: {reason}; {counted(len(holds), 'hold')} ended",
        domain=FaultDomain.NODE,
        flags=("human",),
    )
