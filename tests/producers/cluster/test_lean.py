"""Lean objects read like whole ones, and are small."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from producers.cluster.agents import AgentPod, lean_agent, read_agent
from producers.cluster.lean import LeanSource, lean_job, lean_node, lean_own_pod, lean_pod
from producers.cluster.nodes import read_node
from producers.cluster.pods import read_pod
from producers.cluster.runs import read_run
from producers.cluster.settings import WatchSettings
from runtime.informer import OpenWatch
from runtime.kubernetes import Change, ChangeKind, Listing, Object
from tests.producers.cluster.objects import START, make_job, make_node, make_pod, stamp, terminated

SETTINGS = WatchSettings()
BALLAST = {"managedFields": [{"manager": f"m{n}", "fieldsV1": {"f:x": {}}, "time": "t"} for n in range(20)]}


def whole_job() -> Object:
    job = make_job(
        "t", "j", spec={"suspend": True, "managedBy": "x", "podFailurePolicy": {"rules": ["x" * 999]}}
    )
    job["metadata"] |= BALLAST
    job["metadata"]["ownerReferences"] = [{"uid": "o", "controller": True}]
    job["metadata"]["annotations"]["relight.dev/evicted-for"] = "i"
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"
    job["spec"]["template"]["metadata"]["annotations"]["relight.dev/injected"] = "1"
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["x" * 5000]
    done = {
        "type": "Failed",
        "status": "True",
        "reason": "R",
        "message": "M",
        "lastTransitionTime": stamp(START),
    }
    job["status"] = {"conditions": [done], "succeeded": 3, "completionTime": stamp(START), "ready": 5}
    return job


def whole_pod() -> Object:
    pod = make_pod(make_job("t", "j"), "p", node="n1", rank=3, epoch="4")
    pod["metadata"] |= {**BALLAST, "deletionTimestamp": stamp(START)}
    pod["metadata"]["annotations"] |= {
        "relight.dev/injected": "1",
        "relight.dev/evicted-for": "i",
        "big": "x" * 5000,
    }
    pod["spec"]["containers"].insert(0, {"name": "proxy", "env": [{"name": "x" * 999}]})
    conditions = [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "lastTransitionTime": stamp(START),
        },
        {"type": "Ready", "status": "False", "message": "x" * 999},
    ]
    pod["status"]["conditions"] += conditions
    last = {"terminated": {"exitCode": 2, "finishedAt": stamp(START)}}
    pod["status"] |= {
        "phase": "Failed",
        "containerStatuses": [
            {**terminated(9, restarts=2), "lastState": last, "imageID": "x" * 999},
            {"name": "proxy"},
        ],
        "initContainerStatuses": [{"name": "i", "state": {"running": {}}}],
    }
    return pod


def whole_node() -> Object:
    node = make_node(
        "n1",
        "u",
        ready="Unknown",
        spec={"unschedulable": True, "taints": [{"key": "relight.dev/isolated"}], "podCIDR": "x"},
        conditions=[
            {"type": "PIDPressure", "status": "True", "reason": "R", "lastTransitionTime": stamp(START)}
        ],
    )
    node["metadata"] |= BALLAST
    node["metadata"]["labels"]["relight.dev/protected"] = ""
    node["metadata"]["annotations"]["relight.dev/isolated"] = "c"
    node["status"]["images"] = [{"names": ["x" * 100], "sizeBytes": 5} for _ in range(50)]
    return node


@pytest.mark.parametrize(
    ("whole", "trim", "read"),
    [
        (whole_job(), lean_job, lambda item: read_run(item, SETTINGS.devices)),
        (whole_pod(), lean_pod, read_pod),
        (
            whole_node(),
            lean_node,
            lambda item: read_node(item, SETTINGS.node_conditions, "relight.dev/protected", SETTINGS.devices),
        ),
        ({}, lean_job, lambda item: read_run(item, ())),
        ({}, lean_pod, read_pod),
        ({}, lean_node, lambda item: read_node(item, SETTINGS.node_conditions, "x")),
    ],
    ids=["job", "pod", "node", "empty job", "empty pod", "empty node"],
)
def test_a_lean_object_reads_like_the_whole_one(
    whole: Object, trim: Callable[[Object], Object], read: Callable[[Object], object]
) -> None:
    lean = trim(whole)
    assert read(lean) == read(whole)
    assert read(trim(lean)) == read(whole)
    if whole:
        assert len(json.dumps(lean)) < len(json.dumps(whole)) / 2


def test_an_own_pod_keeps_where_it_is() -> None:
    lean = lean_own_pod(whole_pod())
    assert (lean["spec"], lean["status"], lean["metadata"]["uid"]) == (
        {"nodeName": "n1"},
        {"phase": "Failed"},
        "p",
    )


class OneWatch:
    closed = False

    def close(self) -> None:
        self.closed = True

    def __iter__(self) -> Iterator[Change]:
        yield Change(ChangeKind.ADDED, whole_node())
        yield Change(ChangeKind.BOOKMARK, {"metadata": {"resourceVersion": "77"}})


class OneSource:
    def __init__(self) -> None:
        self.opened = OneWatch()

    def list(self, path: str, *, labels: str = "", fields: str = "") -> Listing:
        assert (path, labels, fields) == ("/p", "a=b", "c=d")
        return Listing([whole_node()], "5")

    def watch(self, path: str, *, since: str, labels: str = "", fields: str = "") -> OpenWatch:
        assert (path, since, labels, fields) == ("/p", "5", "a=b", "c=d")
        return self.opened


def test_lists_and_watches_are_lean_and_keep_their_versions() -> None:
    source = OneSource()
    lean = LeanSource(source, lean_node)
    listing = lean.list("/p", labels="a=b", fields="c=d")
    assert (listing.items, listing.resource_version) == ([lean_node(whole_node())], "5")
    watch = lean.watch("/p", since="5", labels="a=b", fields="c=d")
    added, bookmark = watch
    assert added.object == lean_node(whole_node())
    assert bookmark.object["metadata"]["resourceVersion"] == "77"
    watch.close()
    assert source.opened.closed


@pytest.mark.parametrize(("ready", "unready_since"), [("True", None), ("False", START), (None, None)])
def test_an_agents_pod_reads_like_the_whole_one(ready: str | None, unready_since: object) -> None:
    pod = make_pod(make_job("t", "j"), "a", node="n1")
    conditions = [
        {"type": "Ready", "status": ready, "lastTransitionTime": stamp(START), "message": "x" * 999}
    ]
    pod["status"] = {"phase": "Running", "conditions": conditions if ready else []}
    assert read_agent(lean_agent(pod)) == read_agent(pod) == AgentPod("n1", unready_since)  # type: ignore[arg-type]
    assert len(json.dumps(lean_agent(pod))) < 500
