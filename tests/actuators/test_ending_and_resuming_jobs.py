"""Jobs as people write them: how many pods a resumed one has, and how one that is suspended is ended without starting a pod."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from actuators.jobs.run_objects import run_object, size_of
from schemas.cluster import EPOCH
from schemas.commands import OutcomeResult, StepName
from tests.actuators.scene import JOB_PATH, Scene, command, job, pod, pod_path
from tests.actuators.scripted_api import NOW


def a_scene(*, pods: int = 0, epoch: int = 1, **spec: Any) -> Scene:
    scene = Scene()
    made = job(annotations={EPOCH: str(epoch)})
    made["spec"] |= spec
    scene.api.put(JOB_PATH, made)
    for number in range(pods):
        scene.api.put(pod_path(number), pod(number, epoch=epoch))
    return scene


@pytest.mark.parametrize(
    ("parallelism", "completions", "size"), [(4, 4, 4), (8, 4, 4), (2, 4, 2), (3, None, 3)]
)
def test_a_job_has_no_more_pods_than_it_has_completions(
    parallelism: int, completions: int | None, size: int
) -> None:
    made = job()
    made["spec"] |= {"parallelism": parallelism, "completions": completions}
    assert size_of(run_object(made)) == size


@pytest.mark.parametrize(("pods", "result"), [(4, OutcomeResult.DONE), (3, OutcomeResult.PENDING)])
def test_a_job_of_more_parallelism_than_completions_is_resumed_when_its_pods_run(
    pods: int, result: OutcomeResult
) -> None:
    scene = a_scene(pods=pods, epoch=2, parallelism=8, completions=4)
    outcome = scene.perform(command(StepName.RESUME_JOB, arguments={"epoch": 2}))
    assert outcome.result is result


def test_a_suspended_job_is_failed_without_starting_a_pod() -> None:
    scene = a_scene(suspend=True)
    scene.perform(command(StepName.FAIL_JOB, deadline=NOW + timedelta(seconds=30)))
    spec = scene.api.objects[JOB_PATH]["spec"]
    assert spec["activeDeadlineSeconds"] == 1
    assert spec["suspend"] is False
    assert spec["parallelism"] == 0


def test_a_job_that_runs_keeps_its_parallelism_when_it_is_failed() -> None:
    scene = a_scene(pods=4)
    scene.perform(command(StepName.FAIL_JOB, deadline=NOW + timedelta(seconds=30)))
    assert scene.api.objects[JOB_PATH]["spec"]["parallelism"] == 4
