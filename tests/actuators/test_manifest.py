"""What a job is created from again: what its user wrote, and nothing that the server or a controller put there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from actuators.jobs.keeping_off import KEPT_OFF
from actuators.jobs.manifest import REBUILT_FROM, cleaned, of_epoch, that_fails
from runtime.kubernetes import Object
from schemas.cluster import EPOCH, EVICTED_FOR, RUN

TRACKED = {
    "controller-uid": "old",
    "batch.kubernetes.io/controller-uid": "old",
    "job-name": "train",
    "batch.kubernetes.io/job-name": "train",
}


def served(**spec: Any) -> Object:
    """A Job as a server keeps it."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "team-a",
            "uid": "old",
            "resourceVersion": "7",
            "generation": 3,
            "creationTimestamp": "2026-03-01T12:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
            "labels": {"team": "a", **TRACKED},
            "annotations": {"note": "mine", EVICTED_FOR: "incident-1", KEPT_OFF: '["worn"]'},
            "ownerReferences": [{"kind": "CronJob", "name": "nightly", "uid": "c", "controller": True}],
            "finalizers": ["a-team/kept", "foregroundDeletion", "orphan"],
        },
        "spec": {
            "parallelism": 2,
            "suspend": True,
            "backoffLimit": 6,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "old"}},
            "template": {
                "metadata": {"creationTimestamp": None, "labels": {"app": "trainer", **TRACKED}},
                "spec": {"containers": [], "affinity": kept_off("worn")},
            },
            **spec,
        },
        "status": {"failed": 1, "startTime": "2026-03-01T12:00:01Z"},
    }


def kept_off(*names: str) -> Object:
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in names]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_what_the_server_set_is_left_out_and_what_the_user_wrote_stays() -> None:
    job = served()
    before = copy.deepcopy(job)

    made = cleaned(job)

    assert job == before, "what was read is not touched"
    assert made["metadata"] == {
        "name": "train",
        "namespace": "team-a",
        "labels": {"team": "a"},
        "annotations": {"note": "mine", KEPT_OFF: '["worn"]'},
        "ownerReferences": before["metadata"]["ownerReferences"],
        "finalizers": ["a-team/kept"],
    }
    assert "status" not in made
    assert set(made["spec"]) == {"parallelism", "backoffLimit", "template"}
    assert made["spec"]["template"]["metadata"] == {"labels": {"app": "trainer"}}


def test_a_selector_of_the_users_own_stays_with_its_labels() -> None:
    own = {"job-name": "train"}
    job = served(manualSelector=True, selector={"matchLabels": own})

    made = cleaned(job)

    assert made["spec"]["selector"] == {"matchLabels": own}
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "train"


def test_labels_that_were_all_the_controllers_leave_none() -> None:
    job = served()
    job["metadata"]["labels"] = dict(TRACKED)

    assert "labels" not in cleaned(job)["metadata"]


@pytest.mark.parametrize("names", [[], ["bad", "worse"]])
def test_the_next_issue_carries_run_and_epoch_and_keeps_off_these_nodes_and_no_earlier_ones(
    names: list[str],
) -> None:
    made = of_epoch(cleaned(served()), run="run-1", epoch=4, replaces="old", keep_off=names)

    annotations = made["metadata"]["annotations"]
    assert (annotations[RUN], annotations[EPOCH], annotations[REBUILT_FROM]) == ("run-1", "4", "old")
    assert made["spec"]["template"]["metadata"]["annotations"] == {RUN: "run-1", EPOCH: "4"}
    assert made["spec"]["template"]["spec"].get("affinity") == (kept_off(*names) if names else None)
    assert (KEPT_OFF in annotations) == bool(names)
    assert not made["spec"].get("suspend")


def test_one_that_is_over_makes_no_pod_and_ends_at_once() -> None:
    made = that_fails(cleaned(served()), run="run-1", epoch=3, replaces="old")

    spec = made["spec"]
    assert (spec["parallelism"], spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (0, 0, 1)
    assert made["metadata"]["annotations"][EPOCH] == "3", "no issue was started"
