"""What a supervisor's reports become, and whose word each part of a signal is."""

import json
from datetime import timedelta
from typing import Any

import pytest

from producers.supervisors import line as words
from producers.supervisors.reports import Translation
from schemas.signals import (
    Checkpoint,
    CheckpointTier,
    LongPhase,
    Milestone,
    MilestoneName,
    PreCheckItem,
    ProcessExit,
    ProcessState,
    ProcessStateName,
    Progress,
    Signal,
)
from tests.producers.supervisors.supervised import IDENTITY, NOW, peer

TRANSLATION = Translation(IDENTITY)
AT = NOW.timestamp() - 5


def said(**fields: Any) -> Any:
    whole = {
        "v": 1, "pod": "pod-1", "run": "somebody-else", "epoch": 2, "attempt": 4, "starts": 1, "launch": 3, "at": AT,
        "seq": 7, **fields,
    }  # fmt: skip
    found = words.parse(json.dumps(whole).encode())
    assert not isinstance(found, words.Unreadable), found
    return found


def signals(**fields: Any) -> list[Signal]:
    return [one.signal for one in TRANSLATION.of_report(peer(epoch=2), said(**fields), 7, NOW)]


def test_an_exit_is_stamped_by_the_api_and_known_by_pod_and_launch() -> None:
    (found,) = signals(type="exit", code=0, signal=9, oom=True, ordered=False)

    assert isinstance(found, ProcessExit)
    assert (found.start, found.exit_code, found.signal, found.oom, found.ordered_attempt) == (
        3,
        0,
        9,
        True,
        None,
    )
    assert found.node == IDENTITY.node
    placed = found.placement
    assert (placed.run, placed.pod_uid, placed.namespace, placed.rank, placed.epoch, placed.container) == (
        "run-1", "pod-1", "team-a", 3, 2, "trainer",
    )  # fmt: skip


def test_an_ordered_exit_names_whose_order_it_was() -> None:
    (found,) = signals(type="exit", code=143, ordered=True)

    assert isinstance(found, ProcessExit)
    assert (found.ordered_attempt, found.signal) == (4, None)


@pytest.mark.parametrize("state", ["checking", "waiting", "stopping", "held", "ending", "dreaming"])
def test_states_on_the_way_are_no_answers(state: str) -> None:
    assert signals(type="state", state=state, code=None) == []


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_what_came_of_an_order_is_answered_with_its_rank(state: str) -> None:
    (found,) = signals(type="state", state=state, code=None)

    assert isinstance(found, ProcessState)
    assert (found.state, found.epoch, found.attempt, found.start) == (ProcessStateName(state), 2, 4, 3)


def test_a_start_is_a_running_process_and_a_milestone() -> None:
    state, milestone = signals(type="started")

    assert isinstance(state, ProcessState)
    assert isinstance(milestone, Milestone)
    assert (state.state, state.start) == (ProcessStateName.RUNNING, 3)
    assert (milestone.name, milestone.attempt) == (MilestoneName.COMMAND_STARTED, 4)


def test_a_pre_check_keeps_its_item_and_its_length() -> None:
    (found,) = signals(type="precheck", item="dns", result="failed", reason="r" * 9000, seconds=1.5)

    assert isinstance(found, PreCheckItem)
    assert (found.item, found.result, found.duration_seconds) == ("dns", "failed", 1.5)
    assert found.node == IDENTITY.node


@pytest.mark.parametrize("name", ["detected", "terminated", "scheduled", "command_started"])
def test_milestones_that_are_not_the_training_process_s_are_passed_over(name: str) -> None:
    assert signals(type="milestone", name=name) == []


def test_milestones_of_the_training_process_carry_its_attempt() -> None:
    (found,) = signals(type="milestone", name="stable", step=12)

    assert isinstance(found, Milestone)
    assert (found.name, found.attempt, found.step) == (MilestoneName.STABLE, 4, 12)


def test_a_checkpoint_that_says_where_it_lies_is_one_and_another_is_progress() -> None:
    (whole,) = signals(
        type="checkpoint", step=100, edge="verified", tier="local", path="/c/100", contents=["model", "step"]
    )
    (bare,) = signals(type="checkpoint", step=100)

    assert isinstance(whole, Checkpoint)
    assert (whole.edge, whole.tier, whole.path, whole.step) == (
        "verified",
        CheckpointTier.LOCAL,
        "/c/100",
        100,
    )
    assert isinstance(bare, Progress)
    assert bare.step == 100


def test_a_long_phase_is_an_edge_bound_to_its_attempt() -> None:
    (found,) = signals(type="phase", name="evaluation", edge="begin")

    assert isinstance(found, Progress)
    assert (found.phase, found.phase_edge, found.attempt) == (LongPhase.EVALUATION, "begin", 4)


def test_a_step_and_a_refusal_are_said_once() -> None:
    step = TRANSLATION.of_loose(peer(), said(type="progress", step=9, step_seconds=0.5, seq=None), NOW).signal
    refused = TRANSLATION.of_loose(peer(), said(type="refused", reason="not this pod", seq=None), NOW).signal

    assert isinstance(step, Progress)
    assert (step.step, step.step_seconds, step.attempt) == (9, 0.5, 4)
    assert isinstance(refused, ProcessState)
    assert (refused.state, refused.detail) == (ProcessStateName.REFUSED, "not this pod")


@pytest.mark.parametrize(
    ("at", "told", "stamped"),
    [
        (AT, NOW - timedelta(seconds=5), True),
        (NOW.timestamp() + 3600, NOW, True),  # from the future: never later than now
        (0.0, NOW, False),  # not said
        (1.0, NOW, False),  # a clock that was never set
        (NOW.timestamp() - 7200, NOW - timedelta(hours=1), True),  # before its pod started
    ],
)
def test_a_time_is_never_beyond_now_nor_before_its_pod(at: float, told: Any, stamped: bool) -> None:
    (found,) = TRANSLATION.of_report(peer(), said(type="exit", code=1, at=at), 7, NOW)

    assert (found.time, found.stamped) == (told, stamped)


def test_ids_are_of_pod_spool_and_number_and_of_nothing_else() -> None:
    def ids(uid: str, spool: str, seq: int, **fields: Any) -> list[str]:
        return [one.id for one in TRANSLATION.of_report(peer(uid, spool), said(**fields), seq, NOW)]

    first = ids("pod-1", "s", 7, type="started")

    assert first == ids("pod-1", "s", 7, type="started", at=1.0)
    others = [ids("pod-2", "s", 7, type="started"), ids("pod-1", "t", 7, type="started")]
    others.append(ids("pod-1", "s", 8, type="started"))
    assert len({*first, *(one for some in others for one in some)}) == 8
