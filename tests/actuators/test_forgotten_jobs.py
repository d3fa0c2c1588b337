"""What relight took down and cannot bring back is given back by whoever comes, with the API server alone: on a real control plane."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from actuators.jobs import manifest_store
from actuators.jobs.forgotten import MANIFEST_KEPT, LetGo, due_of, let_go, until_of
from actuators.settings import ActingSettings
from actuators.world import Budget, Silence, TimedApi, World
from runtime import paths
from runtime.errors import ApiNotFound
from runtime.kubernetes import Cluster, Object
from schemas.cluster import EPOCH, RUN
from schemas.commands import OutcomeResult
from tests.actuators.real_job import make_job, pods_of, wait_until
from tests.actuators.real_scene import RealScene
from tests.actuators.real_steps import DyingAfter, read, resume, run_all, set_phase, suspend, until_it_ends

LASTS = ActingSettings().suspended_at_most
A_MOMENT = timedelta(minutes=1)
MARKED, DELETED, CREATED = 3, 4, 5
"""Writes of a rebuild up to what is noted of its mark, to the deletion, and to the new object."""


def found(scene: RealScene, job: Object, *, after: timedelta, now: bool = False) -> list[tuple[str, str]]:
    """What `relight let-go` says of a job so long from now on; and does."""
    at, budget = datetime.now(UTC) + after, Budget(60, time.monotonic)
    world = World(TimedApi(scene.api, budget), budget, lambda: at, scene.executor, Silence(), scene.settings)
    namespace = job["metadata"]["namespace"]
    said: list[LetGo] = list(let_go(world, now=now))
    return [(each.job.split("/")[1], each.became) for each in said if each.job.startswith(f"{namespace}/")]


def is_suspended(api: Cluster, job: Object) -> bool:
    return bool(read(api, job)["spec"].get("suspend"))


def end_one(api: Cluster, job: Object, phase: str) -> None:
    """One of its pods has ended, and the Job controller has counted it."""
    set_phase(api, pods_of(api, job)[0], phase)
    wait_until(lambda: bool((read(api, job).get("status") or {}).get(phase.lower())))


@pytest.mark.slow
def test_a_job_nobody_resumes_is_let_go_when_its_suspension_has_run_out_and_not_before(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 2)
    until_it_ends(scene, suspend(job))

    assert found(scene, job, after=LASTS - A_MOMENT) == [("train", "waits")]
    assert is_suspended(api, job)

    assert found(scene, job, after=LASTS) == [("train", "resumed")]
    wait_until(lambda: len(pods_of(api, job)) == 2)
    assert {pod["metadata"]["annotations"][EPOCH] for pod in pods_of(api, job)} == {"1"}
    assert found(scene, job, after=2 * LASTS) == []


@pytest.mark.slow
def test_a_resume_that_comes_after_it_was_let_go_finds_it_done_and_changes_nothing(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 1)
    until_it_ends(scene, suspend(job))
    found(scene, job, after=A_MOMENT, now=True)
    stands = read(api, job)

    waits = scene.perform(resume(job))
    assert waits.result is OutcomeResult.PENDING
    run_all(api, job, 1)
    outcome = scene.perform(resume(job, action="look", look=1))

    assert (outcome.result, outcome.epoch) == (OutcomeResult.DONE, 1)
    assert read(api, job)["spec"] == stands["spec"]
    assert read(api, job)["metadata"]["annotations"] == stands["metadata"]["annotations"]


@pytest.mark.slow
def test_the_attempt_of_which_it_was_let_go_does_not_take_it_down_again_and_the_next_one_does(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 1)
    until_it_ends(scene, suspend(job))
    found(scene, job, after=A_MOMENT, now=True)
    run_all(api, job, 1)

    again = scene.perform(suspend(job, action="look", look=1))
    safe_end = scene.perform(resume(job, attempt=2))

    assert (again.result, again.cause) == (OutcomeResult.REFUSED, "not_suspended")
    assert again.effects, "its answer may have been lost: whoever asks must not think that nothing was done"
    assert (safe_end.result, safe_end.epoch) == (OutcomeResult.DONE, 1)
    assert not is_suspended(api, job)

    until_it_ends(scene, suspend(job, attempt=3))
    assert is_suspended(api, job)
    scene.perform(resume(job, attempt=3))
    run_all(api, job, 1)
    assert until_it_ends(scene, resume(job, attempt=3, action="look", look=1)).epoch == 2


@pytest.mark.slow
def test_while_relight_looks_at_it_its_end_moves_on(scene: RealScene, api: Cluster, namespace: str) -> None:
    job = make_job(api, namespace, 1)
    scene.settings = ActingSettings(suspended_at_most=timedelta(seconds=2))
    until_it_ends(scene, suspend(job))
    first = until_of(read(api, job))
    assert first is not None
    wait_until(lambda: datetime.now(UTC) > first)

    scene.perform(suspend(job, action="look", look=1))

    moved = until_of(read(api, job))
    assert moved is not None
    assert moved > first


@pytest.mark.slow
@pytest.mark.parametrize("ours_before", [False, True])
def test_what_somebody_else_suspended_stays_suspended(
    scene: RealScene, api: Cluster, namespace: str, *, ours_before: bool
) -> None:
    job = make_job(api, namespace, 1)
    path = paths.jobs(namespace, "train")
    if ours_before:  # our mark still stands when they suspend it for themselves
        until_it_ends(scene, suspend(job))
        api.patch(path, {"spec": {"suspend": False}}, manager="kubectl-patch")
    api.patch(path, {"spec": {"suspend": True}}, manager="kubectl-patch")

    assert found(scene, job, after=2 * LASTS, now=True) == []
    assert is_suspended(api, job)


@pytest.mark.slow
def test_a_job_that_was_deleted_to_be_made_anew_is_made_when_nobody_does(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 2)
    end_one(api, job, "Succeeded")
    until_it_ends(scene, suspend(job))
    scene.through = DyingAfter(api, DELETED)
    scene.perform(resume(job))
    with pytest.raises(ApiNotFound):
        read(api, job)
    kept = manifest_store.name_for(job["metadata"]["uid"])

    assert found(scene, job, after=MANIFEST_KEPT - A_MOMENT) == [(kept, "waits")]
    assert found(scene, job, after=MANIFEST_KEPT + A_MOMENT) == [("train", "made")]
    made = read(api, job)
    assert made["metadata"]["annotations"][RUN] == job["metadata"]["uid"]
    wait_until(lambda: len(pods_of(api, made)) == 2)
    assert found(scene, job, after=2 * MANIFEST_KEPT) == []


@pytest.mark.slow
@pytest.mark.parametrize("killed_after", [MARKED, CREATED])
def test_a_job_its_user_deletes_later_is_not_made_again(
    scene: RealScene, api: Cluster, namespace: str, killed_after: int
) -> None:
    job = make_job(api, namespace, 1)
    end_one(api, job, "Failed")
    until_it_ends(scene, suspend(job))
    scene.through = DyingAfter(api, killed_after)
    scene.perform(resume(job))
    became = [told for _, told in found(scene, job, after=MANIFEST_KEPT + A_MOMENT)]
    assert became[0] == ("resumed" if killed_after == MARKED else "left")

    api.delete(paths.jobs(namespace, "train"))
    wait_until(lambda: not api.list(paths.jobs(namespace)).items)

    assert found(scene, job, after=3 * MANIFEST_KEPT) == []
    assert api.list(paths.jobs(namespace)).items == []


@pytest.mark.slow
def test_a_job_that_is_being_deleted_is_left_alone(scene: RealScene, api: Cluster, namespace: str) -> None:
    job, path = make_job(api, namespace, 1), paths.jobs(namespace, "train")
    until_it_ends(scene, suspend(job))
    api.patch(path, {"metadata": {"finalizers": ["example.com/held"]}}, manager="its-holder")
    api.delete(path)

    assert found(scene, job, after=2 * LASTS, now=True) == []
    assert is_suspended(api, job)
    api.patch(path, {"metadata": {"finalizers": None}}, manager="its-holder")


def test_a_manifest_counts_from_its_last_write() -> None:
    written = [{"manager": "relight", "time": "2026-01-01T09:00:00Z"}, {"manager": "other"}]
    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": written}

    assert due_of({"metadata": metadata}) == datetime(2026, 1, 1, 9, tzinfo=UTC) + MANIFEST_KEPT
    assert due_of({"metadata": {**metadata, "managedFields": []}}) == datetime(2026, 1, 1, 1, tzinfo=UTC)
