"""What an actuator makes of a refusal: an answer in the bound's words, asked for once, and an object that is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from actuators.settings import ActingSettings, IsolationSettings
from recovery.annotations import JOB_RETRY_NUM
from runtime import paths
from runtime.kubernetes import Object
from schemas.commands import OutcomeResult, StepName
from tests.actuators.real_job import pods_of, wait_until
from tests.actuators.real_scene import RealScene, command
from tests.actuators.real_steps import DyingAfter, resume, run_all, set_phase, suspend, until_it_ends
from tests.deploy.site import Site, make_asking_job

REAL_PLANE_ONLY = "admission policies are Kubernetes' own"


@pytest.fixture
def scene(site: Site) -> Iterator[RealScene]:
    """Steps with the actuators' token."""
    with ThreadPoolExecutor(4) as executor:
        yield RealScene(site.acting_as("actuators"), executor)


def counted(scene: RealScene) -> DyingAfter:
    """What steps write from here on."""
    scene.through = counting = DyingAfter(scene.api, 100)
    return counting


def as_it_stands(site: Site, path: str) -> Object:
    """What its owner sees of an object."""
    found = site.api.get(path)
    return {
        "spec": found["spec"],
        **{key: found["metadata"].get(key) for key in ("annotations", "labels", "finalizers")},
    }


def switch_off(site: Site, job: Object) -> str:
    """Its owner does not want it any more; the path of the job."""
    path = paths.jobs(job["metadata"]["namespace"], job["metadata"]["name"])
    site.api.patch(path, {"metadata": {"annotations": {JOB_RETRY_NUM: None}}}, manager="kubectl")
    return path


@pytest.mark.parametrize("step", [StepName.SUSPEND_JOB, StepName.FAIL_JOB])
def test_a_job_whose_owner_switched_it_off_is_left_as_it_is_and_the_answer_says_why(
    site: Site, namespace: str, scene: RealScene, step: StepName
) -> None:
    job = make_asking_job(site.api, namespace, 1)
    path = switch_off(site, job)
    before, writes = as_it_stands(site, path), counted(scene)

    outcome = scene.perform(command(job, step))

    assert (outcome.result, outcome.cause) == (OutcomeResult.BLOCKED, "rights")
    assert "a job that asks for high availability, by fault-tolerance/job-retry-num" in (outcome.detail or "")
    assert f"relight-actuators-jobs-{site.namespace}" in (outcome.detail or "")
    assert outcome.effects == ()
    assert writes.paths == [path], "it is not tried again"
    assert as_it_stands(site, path) == before
    assert [pod for pod in pods_of(site.api, job) if "deletionTimestamp" in pod["metadata"]] == []


@pytest.mark.slow
def test_a_job_that_was_switched_off_while_it_is_suspended_is_resumed_all_the_same(
    site: Site, namespace: str, scene: RealScene
) -> None:
    job = make_asking_job(site.api, namespace, 1)
    assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE
    path = switch_off(site, job)

    assert scene.perform(resume(job, keep_off=("bad",))).result is OutcomeResult.PENDING
    run_all(site.api, job, 1)

    assert until_it_ends(scene, resume(job, keep_off=("bad",))).result is OutcomeResult.DONE
    assert not site.api.get(path)["spec"]["suspend"]


@pytest.mark.slow
def test_a_job_that_might_not_be_made_again_is_not_deleted(site: Site, scene: RealScene) -> None:
    """The server is asked first, within the same bounds: here in relight's own namespace, where no job is made."""
    job = make_asking_job(site.api, site.namespace, 1, backoffLimit=0)
    path = paths.jobs(site.namespace, job["metadata"]["name"])
    (pod,) = pods_of(site.api, job)
    set_phase(site.api, pod, "Failed")
    wait_until(lambda: has_failed(site, path))
    before = as_it_stands(site, path)

    outcome = scene.perform(resume(job))

    assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "not_admitted")
    assert "no job in a namespace of Kubernetes or of relight itself" in (outcome.detail or "")
    assert as_it_stands(site, path) == before
    assert site.api.get(path)["metadata"]["uid"] == job["metadata"]["uid"]


def has_failed(site: Site, path: str) -> bool:
    conditions = site.api.get(path).get("status", {}).get("conditions") or []
    return any(one["type"] == "Failed" for one in conditions)


def test_a_protected_node_is_not_isolated_whatever_the_settings_of_the_guards(
    site: Site, scene: RealScene
) -> None:
    name = f"protected-{site.namespace}"
    labels = {"relight.dev/protected": "true", "pool": name}
    metadata = site.api.create(paths.nodes(), {"metadata": {"name": name, "labels": labels}})["metadata"]
    nothing = IsolationSettings(
        namespace=site.namespace,
        fewest_left=0,
        pool=f"pool={name}",
        protected_labels=(),
        protected_namespaces=(),
    )
    scene.settings = ActingSettings(isolation=nothing)
    hold = {"cause": "xid/79", "chip": "GPU-1", "class": "isolate", "evidence": "e", "reason": "off the bus"}
    arguments = {"node": metadata["uid"], "node_name": name, "holds": [hold]}
    about = {"metadata": {**metadata, "namespace": ""}}
    order = command(
        about, StepName.ISOLATE_NODE, subject=f"node/{metadata['uid']}", epoch=0, arguments=arguments
    )
    try:
        outcome = scene.perform(order)
        found = site.api.get(paths.nodes(name))
    finally:
        site.api.delete(paths.nodes(name))

    assert (outcome.result, outcome.cause) == (OutcomeResult.BLOCKED, "rights")
    assert "may not isolate a node of the control plane or one labelled relight.dev/protected" in (
        outcome.detail or ""
    )
    assert "unschedulable" not in found["spec"]
    assert not [key for key in found["metadata"].get("annotations") or {} if "relight.dev" in key]
