"""Each way in which what was seen, what was expected and what the record says may differ is found, and said in one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sandbox.demo.acts import ACTS, ANEW, ELSEWHERE, IN_PLACE
from sandbox.demo.checks import Expected, disagreements
from sandbox.demo.recorded import Span
from sandbox.demo.seen import COMMANDS, OUTCOMES, Issue
from sandbox.demo.summary import verdict
from tests.sandbox.demo.records import EXPECTED, FIRST, GUILTY, IDS, PODS, SECOND, THIRD, recorded, row, seen


def test_nothing_is_said_when_all_agrees() -> None:
    assert disagreements(EXPECTED, seen(), recorded()) == []


def test_the_acts_as_they_stand_lead_to_these_counters() -> None:
    assert EXPECTED.strategies == (IN_PLACE, IN_PLACE, IN_PLACE, ELSEWHERE, ANEW)
    assert list(EXPECTED.starts) == [("1", "1"), ("1", "2"), ("1", "3"), ("1", "4"), ("2", "1"), ("3", "1")]
    assert EXPECTED.retries_used == 2


def test_an_act_alone_has_counters_of_its_own() -> None:
    alone = Expected.of([act for act in ACTS if act.name == "exit"], ranks=3)

    assert alone.starts == {("1", "1"): (0, 1, 2), ("2", "1"): (0, 1, 2)}
    assert alone.retries_used == 1


WRONG_WORLD: list[tuple[str, dict[str, Any], str]] = [
    (
        "not recovered",
        {"incidents": (*seen().incidents[:4], ("i5", ANEW, "failed", 5))},
        "recoveries (strategy, result, attempt)",
    ),
    (
        "another attempt",
        {"incidents": (*seen().incidents[:4], ("i5", ANEW, "recovered", 6))},
        "recoveries (strategy, result, attempt)",
    ),
    ("the job failed", {"ended": "Failed"}, "the job's end"),
    ("other bits", {"digests": frozenset({"d", "e"})}, "what was trained"),
    ("a dead letter", {"dead_letters": ("undecodable",)}, "dead letters"),
    (
        "a rank did not start",
        {"starts": {**EXPECTED.starts, ("3", "1"): (0, 1)}},
        "MA_SCHEDULE_CNT and MA_PROC_START_CNT",
    ),
    (
        "one start too many",
        {"starts": {**EXPECTED.starts, ("3", "2"): (0, 1, 2)}},
        "MA_SCHEDULE_CNT and MA_PROC_START_CNT",
    ),
    ("budget not mirrored", {"retries_used": ""}, "budget used, on the Job"),
    ("ranks from two steps", {"resumed": {("2", "1"): frozenset({40, 60})}}, "one checkpoint"),
    ("from the beginning", {"resumed": {("2", "1"): frozenset({0})}}, "one checkpoint"),
    ("from where nothing was saved", {"resumed": {("1", "2"): frozenset({41})}}, "one checkpoint"),
    ("a fault was not let in", {"issues": (FIRST, SECOND)}, "1 were let in"),
    (
        "a container was restarted",
        {
            "issues": (
                FIRST,
                Issue(frozenset((uid, f"{it}-again") for uid, it in FIRST.containers), FIRST.nodes),
                *seen().issues[2:],
            )
        },
        "same containers",
    ),
    ("pods stayed", {"issues": (*seen().issues[:5], SECOND)}, "these stayed"),
    ("nobody isolated", {"isolated": frozenset()}, "isolated nodes"),
    ("another node isolated", {"isolated": frozenset({GUILTY, "node-1"})}, "isolated nodes"),
    ("isolated twice", {"tainted": {**seen().tainted, GUILTY: 2}}, "how often each node was tainted"),
    ("back on the bad node", {"issues": (*seen().issues[:4], FIRST, THIRD)}, "expected no pod on"),
    ("an order was written twice", {"orders": seen().orders | {("pod-1-0", 9, "stop")}}, "pods told to stop"),
    (
        "an order to run is missing",
        {"orders": frozenset(one for one in seen().orders if one[2] == "stop")},
        "pods told to run",
    ),
    ("suspended once more", {"suspensions": (True, False, True, False, True)}, "suspend_job"),
    ("not resumed", {"suspensions": (True, False, True)}, "resume_job"),
    ("a chip reset twice", {"resets": {**seen().resets, "node-0": 2}}, "resets of chips"),
    ("a pod nobody told of", {"pods": {**PODS, "pod-9": "node-1"}}, "pods of the job and their nodes"),
]


@pytest.mark.parametrize(
    ("changed", "said"), [case[1:] for case in WRONG_WORLD], ids=[case[0] for case in WRONG_WORLD]
)
def test_a_world_that_went_wrong(changed: dict[str, Any], said: str) -> None:
    found = disagreements(EXPECTED, replace(seen(), **changed), recorded())

    assert any(said in sentence for sentence in found), found


RECOVERIES = recorded().recoveries
WRONG_RECORD: list[tuple[str, dict[str, Any], str]] = [
    ("a command is lost", {"ids": {**IDS, COMMANDS: frozenset({"commands-1"})}}, "commands: 1 of 2 in the topic are not in the record"),
    ("an outcome is made up", {"ids": {**IDS, OUTCOMES: IDS[OUTCOMES] | {"x"}}}, "outcomes: 1 in the record are not in the topic"),
    ("another result", {"recoveries": (*RECOVERIES[:4], replace(RECOVERIES[4], result="failed"))}, "recoveries"),
    ("a recovery is missing", {"recoveries": RECOVERIES[:4]}, "recoveries"),
    ("another budget", {"retries_used": 1}, "budget used"),
    ("another issue", {"schedule_count": 2}, "MA_SCHEDULE_CNT"),
    ("another node of a pod", {"pods": {**PODS, "pod-1-0": "node-9"}}, "pods of the job and their nodes"),
    ("taint not seen", {"tainted": frozenset()}, "isolated nodes"),
    ("not held", {"held": frozenset()}, "nodes that are held"),
    ("too few told to stop", {"pods_told": {"stop_processes": 8, "start_processes": 9}}, "pods told to stop"),
    ("a reset nobody saw", {"steps_done": {**recorded().steps_done, "heal_chips": 4}}, "resets of chips"),
    ("an isolation nobody saw", {"isolations": 2}, "isolations"),
    ("phases do not add up", {"recoveries": (replace(RECOVERIES[0], rto=6.0), *RECOVERIES[1:])}, "add up to 5.000 s, its RTO is 6.000 s"),
    ("no recovery time", {"recoveries": (replace(RECOVERIES[0], rto=None), *RECOVERIES[1:])}, "not known whole"),
    (
        "a phase without an end",
        {"recoveries": (replace(RECOVERIES[0], phases={**RECOVERIES[0].phases, "checkpoint": Span("incomplete", 0.0)}), *RECOVERIES[1:])},
        "checkpoint is incomplete",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "said"), [case[1:] for case in WRONG_RECORD], ids=[case[0] for case in WRONG_RECORD]
)
def test_a_record_that_is_wrong(changed: dict[str, Any], said: str) -> None:
    found = disagreements(EXPECTED, seen(), replace(recorded(), **changed))

    assert any(said in sentence for sentence in found), found


def test_a_phase_takes_what_all_attempts_took() -> None:
    assert Span.of(["measured", "failed"], 3.0) == Span("measured", 3.0)
    assert Span.of(["not_applicable", "not_reached"], None) == Span("not_applicable", 0.0)
    assert Span.of(["measured", "incomplete"], 1.0).state == "incomplete"


def test_rows_in_place_have_no_new_pods_to_wait_for() -> None:
    assert row(1, IN_PLACE).phases["requeue"].state == "not_applicable"


@pytest.mark.parametrize(
    ("wrong", "recoveries", "said"),
    [
        ((), 1, "The recovery came back"),
        ((), 5, "All 5 recoveries came back"),
        (("a",), 1, "1 thing does not agree:\n  - a"),
        (("a", "b"), 1, "2 things do not agree:\n  - a\n  - b"),
    ],
)
def test_the_last_word_counts_as_people_do(wrong: tuple[str, ...], recoveries: int, said: str) -> None:
    assert str(verdict(wrong, recoveries)).startswith(said)
