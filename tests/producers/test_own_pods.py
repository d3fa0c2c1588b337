"""Pods of this node as the API has them: identity, desired state, what is wrong counts as absent."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from producers.own_node import OwnNode
from producers.own_pods import OwnerJob, OwnPod, OwnPods, Terminated, chip_of_device, read_pod
from runtime.informer import Difference
from runtime.kubernetes import Listing, Watch
from schemas import cluster
from schemas.cluster import Desired, ProcessOrder
from tests.producers.supervisors.supervised import NOW, own_pod, pod_object

RUN = Desired(epoch=1, attempt=1, state=ProcessOrder.RUN)


class Silent:
    """An API nobody asks: differences are told by hand."""

    def list(self, path: str, *, labels: str = "", fields: str = "") -> Listing:
        raise NotImplementedError

    def watch(self, path: str, *, since: str, labels: str = "", fields: str = "") -> Watch:
        raise NotImplementedError


def own_pods() -> tuple[OwnPods, list[OwnPod]]:
    heard: list[OwnPod] = []
    return OwnPods(Silent(), "node-1", lambda: NOW, heard.append), heard


def test_the_run_is_the_annotation_s_else_the_job_s() -> None:
    job = pod_object(run=None)
    job["metadata"]["labels"][cluster.JOB_UID_LABEL] = "job-uid"

    assert own_pod(run="run-7").run == "run-7"
    assert read_pod(job, NOW).run == "job-uid"
    assert own_pod(run=None).run is None
    assert own_pod(run=None).placement() is None


@pytest.mark.parametrize("text", ["{", "[]", '{"epoch": 0}', "x" * 5000, json.dumps({"state": "dance"})])
def test_desired_state_that_cannot_be_read_is_none(text: str) -> None:
    assert own_pod(desired=text).desired is None


@pytest.mark.parametrize(("text", "epoch"), [("3", 3), ("0", 1), ("-1", 1), ("many", 1), ("9" * 40, 1)])
def test_an_epoch_that_is_none_is_the_first(text: str, epoch: int) -> None:
    assert own_pod(annotations={cluster.EPOCH: text}).epoch == epoch


def test_the_container_is_named_by_its_id_else_where_there_is_but_one() -> None:
    two = own_pod(
        containerStatuses=[
            {"name": "a", "containerID": "containerd://1"},
            {"name": "b", "containerID": "cri-o://2"},
            {"name": "c", "containerID": ""},
        ]
    )

    def name(pod: OwnPod, *said: str) -> str | None:
        placed = pod.placement(*said)
        assert placed is not None
        return placed.container

    assert name(two, "2") == "b"
    assert name(two, "", "a") == "a"
    assert name(two) is None
    assert name(own_pod()) == "trainer"


def test_extended_resources_and_named_chips_are_read() -> None:
    limits = {
        "huawei.com/Ascend910": "2",
        "cpu": "4",
        "hugepages.kubernetes.io/x": "1",
        "nvidia.com/gpu": "bad",
    }
    pod = own_pod(
        container={"resources": {"limits": limits}},
        annotations={"huawei.com/AscendReal": "Ascend910-0, Ascend910-7"},
    )

    assert pod.resources == {"huawei.com/Ascend910": 2}
    assert pod.chips == ("index:0", "index:7")
    assert chip_of_device("GPU-abc") == "GPU-abc"


def test_changes_are_told_once_and_a_pod_that_goes_is_told_as_gone() -> None:
    pods, heard = own_pods()
    first, same = pod_object(), pod_object(version="2")
    changed = pod_object(version="3", desired=RUN.to_text())

    pods.tell(Difference(None, first))
    pods.tell(Difference(first, same))
    pods.tell(Difference(same, changed))
    assert pods.get("pod-1") == heard[-1]
    pods.tell(Difference(changed, None))

    assert [(pod.desired, pod.gone) for pod in heard] == [(None, False), (RUN, False), (RUN, True)]
    assert pods.get("pod-1") is None


def test_times_of_a_pod_are_its_own_and_an_end_needs_its_end() -> None:
    ended = own_pod(
        phase="Failed",
        containerStatuses=[
            {
                "name": "a",
                "containerID": "x://1",
                "state": {"terminated": {"finishedAt": "2026-03-01T11:30:00Z"}},
            },
            {
                "name": "b",
                "containerID": "x://2",
                "state": {"terminated": {"finishedAt": "2026-03-01T11:40:00Z"}},
            },
        ],
    )

    assert ended.started == NOW - timedelta(hours=1)
    assert ended.ended == datetime(2026, 3, 1, 11, 40, tzinfo=UTC)
    assert own_pod(started="soon").started == datetime(2026, 3, 1, 10, 59, tzinfo=UTC)  # its creation
    assert own_pod().ended is None


def node_object(uid: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "node-1", "uid": uid, "resourceVersion": "1", "annotations": annotations},
        "status": {"allocatable": {"cpu": "8", "huawei.com/Ascend910": "8", "x/y": "1Gi"}},
    }


def test_another_node_under_our_name_is_not_ours() -> None:
    node = OwnNode(Silent(), "node-1", "uid-1")
    heard: list[Any] = []
    node.hear(heard.append)

    node.tell(Difference(None, node_object("uid-1")))
    assert node.resources() == {"huawei.com/Ascend910": 8}
    node.tell(Difference(node_object("uid-1"), None))
    node.tell(Difference(None, node_object("uid-2")))

    assert node.object is None
    assert node.resources() == {}
    assert len(heard) == 1


def test_the_job_a_pod_is_made_by_is_its_controller() -> None:
    pod = pod_object()
    pod["metadata"]["ownerReferences"] = [
        {"kind": "Job", "name": "other", "uid": "1"},
        {"kind": "Job", "name": "train", "uid": "2", "controller": True},
    ]
    assert read_pod(pod, NOW).job == OwnerJob("train", "2")
    assert own_pod().job is None


def test_a_container_that_stands_terminated_has_ended_and_one_that_runs_again_has_not() -> None:
    end = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-03-01T11:40:00Z"}}
    found = own_pod(
        containerStatuses=[
            {"name": "a", "restartCount": 2, "state": end},
            {"name": "b", "state": {"running": {}}, "lastState": end},
            {"name": "c", "state": {"terminated": {"exitCode": -1}}},
        ]
    ).terminated
    assert found == {
        "a": Terminated(2, 137, oom=True, at=datetime(2026, 3, 1, 11, 40, tzinfo=UTC)),
        "c": Terminated(0, 255, oom=False, at=None),  # what cannot be read is no success
    }


def test_a_pod_that_is_deleted_or_evicted_is_leaving() -> None:
    deleted = pod_object()
    deleted["metadata"]["deletionTimestamp"] = "2026-03-01T11:40:00Z"
    assert read_pod(deleted, NOW).leaving
    assert own_pod(conditions=[{"type": "DisruptionTarget", "status": "True"}]).leaving
    assert not own_pod(conditions=[{"type": "DisruptionTarget", "status": "False"}]).leaving
