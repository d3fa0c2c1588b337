"""A resume of an older attempt is old news, however late it is carried out: two sets of pods must never live."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.kubernetes import Object
from schemas.cluster import ATTEMPT, EPOCH, LET_GO
from schemas.commands import OutcomeResult, StepName
from tests.actuators.scene import JOB_PATH, Scene, command, job


def a_job(*, epoch: int, suspended: bool, attempt: int | None = None) -> Scene:
    scene = Scene()
    annotations = {EPOCH: str(epoch)} | ({} if attempt is None else {ATTEMPT: str(attempt)})
    made = job(annotations=annotations)
    made["spec"]["suspend"] = suspended
    made["status"] = {"conditions": [{"type": "Suspended", "status": "True"}]} if suspended else {}
    scene.api.put(JOB_PATH, made)
    return scene


def standing(scene: Scene) -> Object:
    return scene.api.objects[JOB_PATH]


def suspend(scene: Scene, attempt: int, **more: Any) -> Any:
    return scene.perform(command(StepName.SUSPEND_JOB, attempt=attempt, **more))


def resume(scene: Scene, attempt: int, epoch: int, **more: Any) -> Any:
    return scene.perform(command(StepName.RESUME_JOB, attempt=attempt, arguments={"epoch": epoch}, **more))


def test_a_suspension_says_for_which_attempt() -> None:
    scene = a_job(epoch=1, suspended=False)

    suspend(scene, 3)

    assert standing(scene)["spec"]["suspend"] is True
    assert standing(scene)["metadata"]["annotations"][ATTEMPT] == "3"


def test_a_later_attempt_takes_over_a_job_that_is_suspended_already() -> None:
    scene = a_job(epoch=1, suspended=True, attempt=2)

    assert suspend(scene, 3).result is OutcomeResult.DONE
    assert standing(scene)["metadata"]["annotations"][ATTEMPT] == "3"


@pytest.mark.parametrize("action", ["begin", "look"])
def test_an_older_attempt_s_resume_of_the_same_epoch_starts_nothing(action: str) -> None:
    scene = a_job(epoch=2, suspended=True, attempt=5)

    outcome = resume(scene, 4, 2, action=action)

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "superseded")
    assert standing(scene)["spec"]["suspend"] is True


@pytest.mark.parametrize("action", ["begin", "look"])
@pytest.mark.parametrize(("mark", "who"), [({}, "somebody"), ({LET_GO: "3"}, "`relight let-go`")])
def test_the_attempt_that_suspended_it_does_not_take_down_what_was_resumed_since(
    mark: dict[str, str], who: str, action: str
) -> None:
    scene = a_job(epoch=1, suspended=False)
    suspend(scene, 3)
    resumed = standing(scene)
    resumed["spec"]["suspend"] = False
    resumed["metadata"]["annotations"] |= mark
    scene.api.put(JOB_PATH, resumed)

    outcome = suspend(scene, 3, action=action)

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "not_suspended")
    assert outcome.effects == (f"suspended before, and resumed by {who} since",), (
        "the first answer may have been lost"
    )
    assert standing(scene)["spec"]["suspend"] is False
    suspend(scene, 4)
    assert standing(scene)["spec"]["suspend"] is True
    assert LET_GO not in standing(scene)["metadata"]["annotations"]


def test_an_older_attempt_does_not_suspend_what_a_later_one_resumed() -> None:
    scene = a_job(epoch=2, suspended=False, attempt=5)

    outcome = suspend(scene, 4, epoch=2)

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "superseded")
    assert standing(scene)["spec"]["suspend"] is False


@pytest.mark.parametrize("attempt", [5, 6])
def test_the_attempt_that_suspended_it_and_a_later_one_resume_it(attempt: int) -> None:
    scene = a_job(epoch=2, suspended=True, attempt=5)

    resume(scene, attempt, 2)

    assert standing(scene)["spec"]["suspend"] is False


def test_what_stands_there_and_is_no_number_stops_nobody() -> None:
    scene = a_job(epoch=2, suspended=True)
    standing(scene)["metadata"]["annotations"][ATTEMPT] = "soon"

    resume(scene, 1, 2)

    assert standing(scene)["spec"]["suspend"] is False


def test_a_job_that_has_failed_is_left_as_it_is() -> None:
    scene = a_job(epoch=1, suspended=False)
    standing(scene)["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}

    suspend(scene, 3)

    assert ATTEMPT not in standing(scene)["metadata"]["annotations"]
