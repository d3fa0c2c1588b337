"""Faults in a run's mailbox: occurrence, companion and software filter, windows, then the ladder."""

from __future__ import annotations

from dataclasses import replace

from recovery.cells import ChipTarget, WaitingCell
from recovery.classification import Fault, read_fault
from recovery.correction import correct_late, is_of_past_issue
from recovery.counters import counters_of
from recovery.journal import decide
from recovery.ladder import Question, counted_rules
from recovery.occurrences import (
    Hit,
    companion_state,
    companion_wait,
    note_code,
    note_windows,
    observe_edge,
    observe_window,
    place_of,
    software_filter,
)
from recovery.plan import in_place_use
from recovery.run_state import clear_evidence, mark_filtered, note_evidence
from recovery.turn import Turn
from recovery.verdicts import SOFTWARE_FILTERED, Case, hold_of, judge, run_symbols
from rules.symbols import ChipSymbols, RuleKind
from schemas.envelope import encode


def fault_came(turn: Turn, *, companion_waited: bool = False) -> None:
    """A chip fault, or the news of a node's fault, reached the run."""
    fault = read_fault(turn.event, turn.rulebook)
    if not companion_waited:
        is_new = observe_edge(turn, fault, counters_of(turn).last_restart_at)
        if fault.state == "cleared":
            clear_evidence(turn, fault)
        if not is_new:
            return
    companion = companion_state(turn, fault)
    if companion == "drop":
        _say_companion(turn, fault)
        return
    if companion == "wait" and not companion_waited:
        _wait_for_companion(turn, fault)
        return
    _judge_fault(turn, fault)


def _judge_fault(turn: Turn, fault: Fault) -> None:
    filtered, again = software_filter(turn, fault)
    symbols = replace(
        run_symbols(turn),
        fault=fault.symbols(filtered=filtered, filtered_again=again),
        chip=_chip_symbols(turn, fault),
    )
    kind = RuleKind.CHIP_FAULT if fault.chip else RuleKind.NODE_FAULT
    question = Question("run", kind, symbols, code=fault.code, trust=fault.event.trust)
    hits: dict[str, Hit] = {}
    windows: list[str] = []
    for compiled in counted_rules(turn.rulebook, question):
        name, hit = observe_window(turn, compiled, fault)
        hits[compiled.rule.id] = hit
        windows.append(name)
    note_windows(turn, fault, tuple(windows))
    note_code(turn, fault)
    note_evidence(turn, fault)
    if filtered:
        mark_filtered(turn, fault)
    case = Case(
        question=replace(question, hits=hits),
        domain=fault.domain,
        fault_time=fault.event.time,
        fault=fault,
        node=fault.node,
        chips=_chip_targets(fault),
        holds=(hold_of(fault),),
        user=fault.user,
        heals=fault.self_heals,
        flags=(SOFTWARE_FILTERED,) if filtered else (),
    )
    if correct_late(turn, case):
        return
    if is_of_past_issue(turn, case):
        _say_past(turn, fault)
        return
    judge(turn, case)


def _chip_symbols(turn: Turn, fault: Fault) -> ChipSymbols:
    if fault.chip is None:
        return ChipSymbols()
    count, all_user = in_place_use(turn, place_of(fault), user=fault.user)
    return ChipSymbols(in_place_count=count, all_user=all_user)


def _chip_targets(fault: Fault) -> tuple[ChipTarget, ...]:
    if fault.chip is None or not fault.self_heals:
        return ()
    return (ChipTarget(fault.node, fault.chip, fault.namespace, fault.code, fault.heal, fault.user),)


def _say_past(turn: Turn, fault: Fault) -> None:
    decide(
        turn,
        verdict="record",
        rule="past-issue",
        row="12",
        reason="seen under pods that were replaced since, on a node where the run lives no more",
        domain=fault.domain,
        fault=fault,
        flags=("past_issue",),
    )


def _say_companion(turn: Turn, fault: Fault) -> None:
    decide(
        turn,
        verdict="record",
        rule="companion",
        row="2",
        reason=f"accompanies {fault.row.companion_of if fault.row else ''} on the same chip",
        domain=fault.domain,
        fault=fault,
        flags=("companion",),
    )


def _wait_for_companion(turn: Turn, fault: Fault) -> None:
    name = f"waiting/{fault.evidence}"
    turn.put(name, WaitingCell(events=(encode(turn.event).decode(),), due=turn.after(companion_wait(fault))))
