"""stop_processes, start_processes, release_job: who is told, who is not, and what is said of it."""

from datetime import timedelta

import pytest

from actuators.settings import ActingSettings
from runtime.errors import ApiAway, ApiForbidden, ApiTooMany
from schemas.cluster import DESIRED, EPOCH, LARGEST_DESIRED, RUN, Desired, ProcessOrder
from schemas.commands import Command, OutcomeResult, StepName
from tests.actuators.scene import (
    JOB_PATH,
    Scene,
    command,
    job,
    pod,
    pod_path,
    release,
    start,
    stop,
)
from tests.actuators.scene import RUN as RUN_ID
from tests.actuators.scripted_api import NOW, raising


def test_every_pod_of_the_issue_is_told_to_stop_and_counted() -> None:
    scene = Scene().with_pods(4)

    outcome = scene.perform(stop())

    assert (outcome.result, outcome.told) == (OutcomeResult.DONE, 4)
    for number in range(4):
        told = scene.desired(number)
        assert told is not None
        assert (told.epoch, told.attempt, told.state, told.otherwise) == (1, 3, ProcessOrder.STOP, "rerun")
        assert told.until == NOW + timedelta(minutes=5)


@pytest.mark.parametrize("again", [stop(), stop(action="look", look=1)])
def test_the_same_order_twice_writes_once(again: Command) -> None:
    scene = Scene().with_pods(4)
    scene.perform(stop())

    outcome = scene.perform(again)

    assert (outcome.result, outcome.told) == (OutcomeResult.DONE, 4)
    assert scene.pod_writes() == 4


def test_a_look_renews_until_only_when_it_fell_behind() -> None:
    scene = Scene().with_pods(1)
    scene.perform(stop(until=NOW + timedelta(seconds=300)))

    scene.perform(stop(action="look", look=1, until=NOW + timedelta(seconds=329)))
    assert scene.pod_writes() == 1

    scene.perform(stop(action="look", look=2, until=NOW + timedelta(seconds=331)))
    told = scene.desired(0)
    assert told is not None
    assert told.until == NOW + timedelta(seconds=331)


def test_a_late_stop_never_undoes_the_start_of_its_attempt() -> None:
    scene = Scene().with_pods(2)
    scene.perform(stop())
    scene.perform(start())
    before = scene.pod_writes()

    outcome = scene.perform(stop())

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "superseded")
    assert scene.pod_writes() == before
    assert all(scene.desired(number).state is ProcessOrder.RUN for number in range(2))  # type: ignore[union-attr]


def test_an_order_of_an_older_attempt_changes_nothing() -> None:
    scene = Scene().with_pods(2)
    scene.perform(start(attempt=4))

    assert scene.perform(stop(attempt=3)).cause == "superseded"
    assert scene.perform(start(attempt=3)).cause == "superseded"


def test_a_pod_made_anew_under_its_name_is_not_told() -> None:
    scene = Scene().with_pods(2)

    another = pod(0, uid="another-pod")
    scene.api.once("PATCH", pod_path(0), lambda: scene.api.put(pod_path(0), another))
    outcome = scene.perform(stop())

    assert scene.desired(0) is None
    assert (outcome.result, outcome.told) == (OutcomeResult.DONE, 1)


def test_a_pod_that_ended_between_list_and_write_is_not_told() -> None:
    scene = Scene().with_pods(2)

    scene.api.once("PATCH", pod_path(0), lambda: scene.api.put(pod_path(0), pod(0, phase="Failed")))

    assert scene.perform(stop()).told == 1
    assert scene.desired(0) is None


def test_somebody_elses_write_in_between_is_read_again_and_the_pod_is_told() -> None:
    scene = Scene().with_pods(1)

    scene.api.once("PATCH", pod_path(0), lambda: scene.api.touch(pod_path(0)))

    assert scene.perform(stop()).told == 1
    assert scene.desired(0) is not None


def test_a_higher_order_written_in_between_is_not_lowered() -> None:
    scene = Scene().with_pods(1)
    higher = Desired(epoch=1, attempt=9, state=ProcessOrder.RUN)

    item = pod(0)
    item["metadata"]["annotations"][DESIRED] = higher.to_text()
    scene.api.once("PATCH", pod_path(0), lambda: scene.api.put(pod_path(0), item))

    assert scene.perform(stop()).cause == "superseded"
    assert scene.desired(0) == higher


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_is_not_told(phase: str) -> None:
    scene = Scene().with_pods(3)
    scene.api.put(pod_path(2), pod(2, phase=phase))

    assert scene.perform(stop()).told == 2
    assert scene.desired(2) is None


def test_a_pod_of_another_epoch_is_not_told() -> None:
    scene = Scene().with_pods(2)
    scene.api.put(pod_path(2), pod(2, epoch=2))

    assert scene.perform(stop()).told == 2
    assert scene.desired(2) is None


def test_while_a_pod_is_being_deleted_the_barrier_cannot_be_met() -> None:
    scene = Scene().with_pods(2)
    leaving = pod(1)
    leaving["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    scene.api.put(pod_path(1), leaving)

    outcome = scene.perform(stop())

    assert (outcome.result, outcome.cause, outcome.told) == (OutcomeResult.PENDING, "pods_leaving", None)
    assert scene.desired(0) is not None
    assert scene.desired(1) is None


def test_a_pod_deleted_between_list_and_write_is_waited_for_as_well() -> None:
    scene = Scene().with_pods(2)
    leaving = pod(1)
    leaving["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    scene.api.once("PATCH", pod_path(1), lambda: scene.api.put(pod_path(1), leaving))

    outcome = scene.perform(stop())
    assert (outcome.result, outcome.told) == (OutcomeResult.PENDING, 2), "one report more than can come"
    assert scene.perform(stop(action="look", look=1)).cause == "pods_leaving"

    del scene.api.objects[pod_path(1)]
    outcome = scene.perform(stop(action="look", look=2))
    assert (outcome.result, outcome.told) == (OutcomeResult.DONE, 1)


def test_a_start_is_not_complete_while_a_rank_has_no_pod_and_a_look_tells_the_newcomer() -> None:
    scene = Scene().with_pods(3)
    newcomer = scene.api.objects.pop(pod_path(2))

    outcome = scene.perform(start())
    assert (outcome.result, outcome.cause, outcome.told) == (OutcomeResult.PENDING, "pods_missing", None)
    assert scene.pod_writes() == 2

    scene.api.put(pod_path(2), newcomer)
    outcome = scene.perform(start(action="look", look=1))
    assert (outcome.result, outcome.told) == (OutcomeResult.DONE, 3)
    assert scene.pod_writes() == 3


def test_ranks_that_have_ended_are_not_waited_for() -> None:
    scene = Scene().with_pods(3)
    scene.api.put(pod_path(2), pod(2, phase="Succeeded"))
    scene.api.objects[JOB_PATH]["status"] = {"succeeded": 1}

    assert scene.perform(start()).told == 2


def test_a_run_of_which_one_pod_has_no_supervisor_is_not_stopped_at_all() -> None:
    scene = Scene().with_pods(3)
    scene.api.put(pod_path(3), pod(3, injected=False))

    outcome = scene.perform(stop())

    assert (outcome.result, outcome.cause) == (OutcomeResult.UNSUPPORTED, "not_injected")
    assert scene.pod_writes() == 0


def test_a_run_without_pods_is_no_run_whose_processes_are_stopped() -> None:
    scene = Scene().with_pods(0)

    assert scene.perform(stop()).cause == "no_pods"


def test_a_run_of_which_every_rank_has_ended_well_has_succeeded_whatever_its_job_says_yet() -> None:
    scene = Scene().with_pods(3)
    for rank in range(3):
        scene.api.put(pod_path(rank), pod(rank, phase="Succeeded"))

    assert scene.perform(stop()).cause == "succeeded"

    scene.api.put(pod_path(2), pod(2, phase="Failed"))
    assert scene.perform(stop()).cause == "no_pods"


@pytest.mark.parametrize(
    ("order", "cause"),
    [
        (stop(epoch=2), "other_epoch"),
        (stop(arguments={"name": "gone"}), "gone"),
        (stop(subject="run/somebody-else"), "other_object"),
        (stop(subject="node/x"), "bad_subject"),
        (stop(arguments={"until": "soon"}), "bad_arguments"),
    ],
)
def test_what_the_world_does_not_show_is_refused(order: Command, cause: str) -> None:
    scene = Scene().with_pods(2)

    outcome = scene.perform(order)

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, cause)
    assert scene.api.writes == []


def test_a_kind_without_an_adapter_is_unsupported() -> None:
    assert Scene().with_pods(2).perform(stop(arguments={"workload": "JobSet"})).cause == "no_adapter"


def test_a_rebuilt_object_is_known_by_the_run_it_carries() -> None:
    scene = Scene().with_pods(2, epoch=2)
    scene.api.put(JOB_PATH, job(annotations={RUN: "first-uid", EPOCH: "2"}))

    assert scene.perform(stop(subject="run/first-uid", epoch=2)).told == 2
    assert scene.perform(stop()).cause == "other_object"


def test_past_not_after_a_start_acts_if_the_world_still_shows_the_epoch() -> None:
    scene = Scene(now=NOW + timedelta(days=1)).with_pods(2)

    assert scene.perform(start()).told == 2
    assert scene.perform(start(epoch=2)).cause == "other_epoch"
    assert scene.perform(release(epoch=0)).cause == "too_late"


def test_past_not_after_nothing_is_stopped_suspended_failed_or_healed_any_more() -> None:
    scene = Scene(now=NOW + timedelta(days=1)).with_pods(2)
    later = NOW + timedelta(days=2)

    for order in (
        stop(until=later),
        command(StepName.SUSPEND_JOB),
        command(StepName.FAIL_JOB),
        command(StepName.HEAL_CHIPS, arguments={"chips": []}),
    ):
        assert scene.perform(order).cause == "too_late"
    assert scene.api.writes == []


def test_a_stop_that_ended_by_itself_is_not_told_to_a_pod_that_came_since() -> None:
    scene = Scene(now=NOW + timedelta(minutes=2)).with_pods(2)

    assert scene.perform(stop(until=NOW + timedelta(minutes=1))).cause == "too_late"
    assert scene.pod_writes() == 0


def test_a_silent_api_is_unreachable_and_never_failed() -> None:
    scene = Scene().with_pods(4)
    scene.api.before = raising(ApiAway("no answer"))

    assert scene.perform(stop()).result is OutcomeResult.UNREACHABLE


def test_a_silent_api_in_the_middle_counts_the_missed_pods_and_a_look_mends_them() -> None:
    scene = Scene().with_pods(4)
    scene.api.before = raising(ApiAway("no answer"), "PATCH", pod_path(2))

    outcome = scene.perform(stop())
    assert (outcome.result, outcome.told) == (OutcomeResult.PENDING, 4), "the barrier must wait for all four"

    scene.api.before = None
    outcome = scene.perform(stop(action="look", look=1))
    assert (outcome.result, outcome.told) == (OutcomeResult.DONE, 4)
    assert scene.pod_writes() == 4


def test_when_no_pod_can_be_told_nothing_is_known() -> None:
    scene = Scene().with_pods(4)
    scene.api.before = raising(ApiTooMany("429", retry_after=7), "PATCH")

    assert scene.perform(stop()).result is OutcomeResult.UNREACHABLE


def test_missing_rights_are_the_operators_matter() -> None:
    scene = Scene().with_pods(1)
    scene.api.before = raising(ApiForbidden("pods is forbidden"), "PATCH")

    outcome = scene.perform(stop())

    assert (outcome.result, outcome.cause) == (OutcomeResult.BLOCKED, "rights")


def test_when_time_is_up_the_rest_is_pending_and_the_look_goes_on() -> None:
    scene = Scene().with_pods(40)
    scene.seconds = lambda: len(scene.api.calls) * 0.4

    outcome = scene.perform(stop())
    assert (outcome.result, outcome.told) == (OutcomeResult.PENDING, 40)
    assert 0 < scene.pod_writes() < 40

    looks = 0
    while outcome.result is OutcomeResult.PENDING and looks < 50:
        looks += 1
        outcome = scene.perform(stop(action="look", look=looks))
    assert (outcome.result, outcome.told) == (OutcomeResult.DONE, 40)
    assert scene.pod_writes() == 40


@pytest.mark.parametrize("order", [stop(), start(), release()])
def test_a_dry_run_writes_nothing(order: Command) -> None:
    scene = Scene(settings=ActingSettings(dry_run=True)).with_pods(2)

    outcome = scene.perform(order)

    assert (outcome.result, outcome.cause) == (OutcomeResult.BLOCKED, "guard:dry_run")
    assert scene.api.writes == []


def test_a_pause_forbids_what_stops_and_lets_through_what_starts_and_releases() -> None:
    scene = Scene(settings=ActingSettings(paused=True)).with_pods(2)

    assert scene.perform(stop()).cause == "guard:paused"
    assert scene.perform(start()).result is OutcomeResult.DONE
    assert scene.perform(release()).result is OutcomeResult.DONE


def test_release_reaches_the_supervised_pods_of_every_epoch_and_leaves_the_others() -> None:
    scene = Scene().with_pods(2)
    scene.api.put(pod_path(2), pod(2, epoch=2))
    scene.api.put(pod_path(3), pod(3, injected=False))

    outcome = scene.perform(release())

    assert outcome.result is OutcomeResult.DONE
    released = [scene.desired(number) for number in range(4)]
    assert [order and (order.epoch, order.state.value) for order in released] == [
        (1, "release"),
        (1, "release"),
        (2, "release"),
        None,
    ]


def test_the_release_of_a_halted_run_finds_it_without_a_name_and_outranks_what_stands() -> None:
    scene = Scene().with_pods(2)
    scene.perform(stop(attempt=7))

    bare = release(attempt=0, epoch=0).model_copy(update={"arguments": {}})
    assert scene.perform(bare).result is OutcomeResult.DONE
    told = scene.desired(0)
    assert told is not None
    assert (told.attempt, told.state) == (7, ProcessOrder.RELEASE)
    assert scene.perform(release(subject=f"run/not-{RUN_ID}", arguments={"name": ""})).cause == "gone"


def test_an_unreadable_order_on_a_pod_is_written_over() -> None:
    scene = Scene().with_pods(1)
    item = pod(0)
    item["metadata"]["annotations"][DESIRED] = "not json"
    scene.api.put(pod_path(0), item)

    assert scene.perform(stop()).told == 1
    assert scene.desired(0) is not None


def test_the_longest_order_is_small() -> None:
    scene = Scene().with_pods(1)
    scene.perform(stop(command="c" * 32, attempt=10**6))

    assert len(scene.api.annotations(pod_path(0))[DESIRED]) < LARGEST_DESIRED


def test_what_begins_is_said_on_the_job_once() -> None:
    scene = Scene().with_pods(2)

    scene.perform(stop())
    scene.perform(stop(action="look", look=1))

    assert [words.reason for words in scene.said.words] == ["StoppingProcesses"]
    assert "80E18005" in scene.said.words[0].text


def test_a_step_without_an_actuator_is_unsupported() -> None:
    outcome = Scene().with_pods(1).perform(command(StepName.SAVE_CHECKPOINT))

    assert (outcome.result, outcome.cause) == (OutcomeResult.UNSUPPORTED, "not_built")


def test_a_fault_of_our_own_is_refused_and_never_failed() -> None:
    scene = Scene().with_pods(1)
    scene.api.before = raising(ZeroDivisionError())

    outcome = scene.perform(stop())

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "error")
