"""Suspend and resume beside what Kubernetes and its operators do by themselves: nothing is forced, given up early or hidden."""

from __future__ import annotations

import itertools
import time

import pytest

from runtime import paths
from runtime.kubernetes import Cluster, Object
from schemas.commands import Outcome, OutcomeResult
from tests.actuators.real_job import make_job, pods_of, wait_until
from tests.actuators.real_scene import RealScene
from tests.actuators.real_steps import (
    JOB,
    a_node,
    bind,
    fail,
    read,
    resume,
    run_all,
    set_phase,
    suspend,
    until_it_ends,
)
from tests.real.kubernetes import real_plane_only

pytestmark = pytest.mark.slow

KEPT = "example.com/kept"


def conditions(api: Cluster, job: Object) -> dict[str, str]:
    return {
        one["type"]: one["reason"]
        for one in (read(api, job).get("status") or {}).get("conditions") or []
        if one["status"] == "True"
    }


@real_plane_only("quotas are Kubernetes' own")
def test_a_quota_holds_a_resume_up_and_it_goes_on_when_there_is_room(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 2)
    until_it_ends(scene, suspend(job))
    quotas = f"{paths.namespaces(namespace)}/resourcequotas"
    api.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    wait_until(lambda: "pods" in (api.get(f"{quotas}/none").get("status") or {}).get("hard", {}))

    outcome = until_it_ends(scene, resume(job), patience=2)
    assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "requeue")
    assert outcome.detail == "0 of 2 pods run, 0 are there"

    api.delete(f"{quotas}/none")
    run_all(api, job, 2)
    assert until_it_ends(scene, resume(job, action="look", look=9)).epoch == 2


@real_plane_only("disruption budgets are Kubernetes' own")
def test_a_disruption_budget_neither_holds_a_suspend_up_nor_is_asked(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 2)
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    selector = {"matchLabels": {"batch.kubernetes.io/job-name": JOB}}
    spec = {"maxUnavailable": 0, "selector": selector}
    api.create(budgets, {"metadata": {"name": "none"}, "spec": spec})

    assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE
    assert pods_of(api, job) == []


def test_a_pod_that_a_finalizer_keeps_is_waited_for_named_and_never_forced(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 2)
    pod = pods_of(api, job)[0]
    kept = pod["metadata"]
    path = paths.pods(namespace, kept["name"])
    with_finalizer = {"metadata": {"finalizers": [*kept.get("finalizers", []), KEPT]}}
    api.patch(path, with_finalizer, manager="somebody")

    with a_node(api, namespace) as place:  # one on no node is swept, and so ended, within 20 s of anything
        bind(api, pod, place)
        outcome = until_it_ends(scene, suspend(job), patience=3)
        assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "terminating")
        assert "1 pod " in (outcome.detail or "")
        assert api.get(path)["metadata"]["uid"] == kept["uid"]

        left = [each for each in api.get(path)["metadata"]["finalizers"] if each != KEPT]
        api.patch(path, {"metadata": {"finalizers": left or None}}, manager="somebody")
        api.delete(path, grace=0)  # as its kubelet says that it has ended
        assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE


@real_plane_only("admission policies are Kubernetes' own")
def test_a_policy_that_refuses_our_change_is_an_answer_with_its_words_and_nothing_is_half_done(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 1)
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["jobs"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec.suspend != true", "message": "no job is suspended here"}],
    }
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"policyName": namespace, "validationActions": ["Deny"], "matchResources": where}

    attempts = itertools.count(1)

    def answer_to_a_running_job() -> Outcome:
        api.patch(paths.jobs(namespace, JOB), {"spec": {"suspend": False}}, manager="somebody")
        return scene.perform(suspend(job, attempt=next(attempts)))

    api.create(policies, {"metadata": {"name": namespace}, "spec": spec})
    api.create(bindings, {"metadata": {"name": namespace}, "spec": binding})
    try:
        wait_until(lambda: answer_to_a_running_job().result is OutcomeResult.REFUSED)
        outcome = answer_to_a_running_job()
    finally:
        api.delete(f"{bindings}/{namespace}")
        api.delete(f"{policies}/{namespace}")

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "not_admitted")
    assert "no job is suspended here" in (outcome.detail or "")
    assert not read(api, job)["spec"].get("suspend")


def test_the_time_a_job_is_suspended_does_not_count_against_its_own_deadline(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 1, activeDeadlineSeconds=3)
    assert until_it_ends(scene, suspend(job)).result is OutcomeResult.DONE
    time.sleep(4)
    scene.perform(resume(job))
    run_all(api, job, 1)

    assert until_it_ends(scene, resume(job, action="look", look=1)).epoch == 2
    assert "Failed" not in conditions(api, job)


def test_a_finished_job_that_its_ttl_removes_is_gone_for_every_later_step(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 1, ttlSecondsAfterFinished=0)
    set_phase(api, pods_of(api, job)[0], "Succeeded")
    wait_until(lambda: not api.list(paths.jobs(namespace)).items)

    for order in (suspend(job), resume(job), fail(job)):
        outcome = scene.perform(order)
        assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "gone")


def test_in_a_namespace_that_is_being_deleted_nothing_is_forced_and_then_the_job_is_gone(
    scene: RealScene, api: Cluster, namespace: str
) -> None:
    job = make_job(api, namespace, 1)
    until_it_ends(scene, suspend(job))
    path = paths.jobs(namespace, JOB)
    api.patch(path, {"metadata": {"finalizers": [KEPT]}}, manager="somebody")
    api.delete(paths.namespaces(namespace))
    wait_until(lambda: "deletionTimestamp" in read(api, job)["metadata"])

    outcome = scene.perform(resume(job))
    assert outcome.result in {OutcomeResult.PENDING, OutcomeResult.REFUSED, OutcomeResult.BLOCKED}
    assert pods_of(api, job) == []  # no pod is made where everything goes

    api.patch(path, {"metadata": {"finalizers": None}}, manager="somebody")
    wait_until(lambda: not api.list(paths.jobs(namespace)).items)
    assert scene.perform(resume(job)).cause == "gone"
