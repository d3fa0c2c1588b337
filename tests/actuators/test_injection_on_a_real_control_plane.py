"""Injected Jobs on a real API server: admitted as they are, refused where we stay out, and their pods carry what the supervisor reads."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from actuators.injection.inject import inject
from runtime import paths
from runtime.errors import ApiForbidden, ApiInvalid
from runtime.kubernetes import Cluster, Object
from schemas.cluster import EPOCH, INJECTED, RUN
from tests.actuators.manifests import OPTIONS, container, manifest, with_devices
from tests.actuators.real_job import pods_of, wait_until
from tests.real.kubernetes import real_plane_only

CONTAINERS = "spec__template__spec__containers"
HA = {"fault-tolerance/job-retry-num": "3"}
SIDECAR = {"name": "proxy", "image": "proxy", "restartPolicy": "Always"}
OWN_RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}

SHAPES: dict[str, Object] = {
    "plain": manifest(),
    "devices": manifest(**{CONTAINERS: [with_devices("trainer"), container("logger")]}),
    "sidecar": manifest(spec__template__spec__initContainers=[SIDECAR]),
    "own-rules": manifest(spec__podFailurePolicy={"rules": [OWN_RULE]}),
    "per-index": manifest(spec__backoffLimitPerIndex=2, spec__maxFailedIndexes=1),
    "single": manifest(spec__completionMode=None, spec__completions=None, spec__parallelism=None),
    "rebuilt": manifest(metadata__annotations={**HA, RUN: "first-uid", EPOCH: "4"}),
    "ttl": manifest(spec__ttlSecondsAfterFinished=5, spec__podReplacementPolicy="Failed"),
    "suspended": manifest(spec__suspend=True),
}


def create(api: Cluster, namespace: str, job: Object) -> Object:
    return api.create(paths.jobs(namespace), job)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_injected_job_is_admitted_as_it_is(api: Cluster, namespace: str, shape: str) -> None:
    injection = inject(SHAPES[shape], OPTIONS)
    assert injection.untouched is None

    made = create(api, namespace, injection.manifest)

    wanted = injection.manifest["spec"]
    assert (
        made["spec"]["template"]["spec"]["containers"][0]["command"]
        == (wanted["template"]["spec"]["containers"][0]["command"])
    )
    rules = made["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules] == [
        rule["action"] for rule in wanted["podFailurePolicy"]["rules"]
    ]


def test_its_pods_carry_run_and_epoch(api: Cluster, namespace: str) -> None:
    job = create(api, namespace, inject(manifest(spec__completions=2, spec__parallelism=2), OPTIONS).manifest)
    wait_until(lambda: len(pods_of(api, job)) == 2)

    for pod in pods_of(api, job):
        annotations, labels = pod["metadata"]["annotations"], pod["metadata"]["labels"]
        assert (annotations[INJECTED], annotations[EPOCH]) == ("1", "1")
        assert labels["batch.kubernetes.io/controller-uid"] == job["metadata"]["uid"], "RELIGHT_RUN"


@pytest.mark.parametrize(
    "why",
    [
        {"spec__podReplacementPolicy": "TerminatingOrFailed"},
        {"spec__template__spec__restartPolicy": "OnFailure"},
    ],
)
def test_what_we_stay_out_of_would_not_have_been_admitted(
    api: Cluster, namespace: str, why: dict[str, Any]
) -> None:
    given = manifest(**why)
    assert inject(given, OPTIONS).untouched is not None
    create(api, namespace, {**given, "metadata": {**given["metadata"], "name": "as-it-is"}})

    forced = inject(manifest(), OPTIONS).manifest
    for path, value in why.items():
        *way, last = path.split("__")
        place = forced
        for key in way:
            place = place[key]
        place[last] = value
    with pytest.raises(ApiInvalid):
        create(api, namespace, forced)


@real_plane_only("the class of a pod is the API server's word")
@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({"limits": {"nvidia.com/gpu": 8}}, "BestEffort"),
        ({"limits": {"nvidia.com/gpu": 8, "cpu": "0", "memory": "0"}}, "BestEffort"),
        ({"limits": {"nvidia.com/gpu": 8, "cpu": "4", "memory": "8Gi"}}, "Guaranteed"),
        ({"limits": {"nvidia.com/gpu": 8}, "requests": {"cpu": "4"}}, "Burstable"),
    ],
)
def test_a_pod_keeps_its_quality_of_service(
    api: Cluster, namespace: str, resources: Object, quality: str
) -> None:
    given = manifest(**{CONTAINERS: [container(resources=resources)]})
    wait_until(lambda: _has_account(api, namespace))

    for name, job in (("bare", given), ("injected", inject(given, OPTIONS).manifest)):
        made = api.create(
            paths.pods(namespace), {"metadata": {"name": name}, "spec": job["spec"]["template"]["spec"]}
        )
        assert made["status"]["qosClass"] == quality, name


@real_plane_only("levels of pod security are Kubernetes' own")
def test_a_namespace_that_enforces_a_level_refuses_injected_pods_which_is_why_we_stay_out(
    api: Cluster,
) -> None:
    name = f"baseline-{uuid.uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    api.create(paths.namespaces(), {"metadata": {"name": name, "labels": labels}})
    wait_until(lambda: _has_account(api, name))
    pods = paths.pods(name)
    bare, wrapped = manifest(), inject(manifest(), OPTIONS).manifest
    try:
        api.create(pods, {"metadata": {"name": "bare"}, "spec": bare["spec"]["template"]["spec"]})
        with pytest.raises(ApiForbidden, match="hostPath"):
            api.create(pods, {"metadata": {"name": "injected"}, "spec": wrapped["spec"]["template"]["spec"]})
    finally:
        api.delete(paths.namespaces(name))


def _has_account(api: Cluster, namespace: str) -> bool:
    accounts = api.list(f"{paths.namespaces(namespace)}/serviceaccounts").items
    return any(account["metadata"]["name"] == "default" for account in accounts)
