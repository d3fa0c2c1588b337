"""A job made anew is one run to whoever watches: its old object's end is no deletion, and the new one is the same run's next issue."""

from __future__ import annotations

from typing import Any

import pytest

from runtime import paths
from runtime.kubernetes import Cluster, Object
from schemas.cluster import EVICTED_FOR
from schemas.commands import OutcomeResult
from schemas.facts import RunEnded, RunSeen
from tests.actuators.real_job import make_job, pods_of, wait_until
from tests.actuators.real_scene import RealScene
from tests.actuators.real_steps import (
    JOB,
    DyingAfter,
    fail,
    read,
    resume,
    run_all,
    set_phase,
    suspend,
    until_it_ends,
)
from tests.producers.cluster.looking import Looking

pytestmark = pytest.mark.slow  # each waits for controllers, the stand-in's as well

MARKED = 2
"""Writes after which the job carries our mark."""


def watched_job(api: Cluster, namespace: str, **spec: Any) -> Object:
    job = make_job(api, namespace, 2, **spec)
    change = {"metadata": {"annotations": {"fault-tolerance/job-retry-num": "3"}}}
    api.patch(paths.jobs(namespace, JOB), change, manager="a-team")
    return job


def end_a_rank(api: Cluster, job: Object, phase: str) -> None:
    set_phase(api, pods_of(api, job)[0], phase)
    count = "succeeded" if phase == "Succeeded" else "failed"
    wait_until(lambda: bool((read(api, job).get("status") or {}).get(count)))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_new_object_is_told_as_the_next_issue_of_the_run_and_nobody_as_deleted(
    scene: RealScene, api: Cluster, namespace: str, phase: str
) -> None:
    with Looking(api) as looking:
        job = watched_job(api, namespace, backoffLimit=0)
        run = str(job["metadata"]["uid"])
        looking.until(RunSeen, run)
        end_a_rank(api, job, phase)
        assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE
        scene.perform(resume(job))
        new = read(api, job)
        run_all(api, new, 2)
        assert until_it_ends(scene, resume(job, action="look", look=1)).epoch == 2

        seen = looking.until(RunSeen, run, lambda seen: seen.epoch == 2)
        assert (seen.run, seen.object_uid) == (run, new["metadata"]["uid"])
        assert {ended.how for ended in looking.told(RunEnded, run)} <= {"failed"}

        api.delete(paths.jobs(namespace, JOB))
        ended = looking.until(RunEnded, run, lambda ended: ended.how == "deleted")
        assert ended.object_uid == new["metadata"]["uid"], "what a user deletes later is the run's end"


def test_after_a_rebuild_that_was_called_off_a_users_deletion_is_the_runs_end(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    with Looking(api) as looking:
        job = watched_job(api, namespace)
        run = str(job["metadata"]["uid"])
        looking.until(RunSeen, run)
        end_a_rank(api, job, "Succeeded")
        until_it_ends(scene, suspend(job))
        scene.through = DyingAfter(api, MARKED)
        scene.perform(resume(job))
        scene.through = api
        assert EVICTED_FOR in read(api, job)["metadata"]["annotations"]

        scene.perform(fail(job))
        api.delete(paths.jobs(namespace, JOB))

        assert looking.until(RunEnded, run).how in {"deleted", "failed"}
