"""The stand-in answers what the real control plane answers: the same requests to both, and every answer compared.

Compared are the kind of answer and its body, less what differs by nature: UIDs, versions, times, generated names, and of owned fields all but
whose they are. Of an object that is refused as invalid the first field named is compared: wording is the real server's own.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from runtime import paths
from runtime.errors import ApiError
from runtime.kubernetes import Cluster, Object, PatchKind
from sandbox.cluster_standin import ClusterStandIn
from sandbox.control_plane import ControlPlane
from tests.real.kubernetes import client_of, make_namespace

REAL_PLANE_ONLY = "it asks both"

NOBODY = "example.com/nobody"
"""A scheduler, and a controller of Jobs, that there is none of: nobody but the test writes."""
CONTROLLERS = frozenset({"kube-controller-manager", "kube-scheduler"})
LIFECYCLE = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that controllers set and take off when they come to it."""


@dataclass
class Side:
    """One of the two: asks, and notes what was answered."""

    api: Cluster
    namespace: str
    answers: list[tuple[str, Any]] = field(default_factory=list)

    def ask(self, verb: str, *given: Any, **more: Any) -> Object:
        asked = f"{verb} {given[0].partition('&continue')[0]}"
        try:
            answer = getattr(self.api, verb)(*given, **more)
        except ApiError as error:
            self.answers.append((asked, (type(error).__name__, _refusal(error.status))))
            return {}
        if verb == "list":
            answer = {"items": answer.items, "metadata": {}}
        self.answers.append((asked, ("answered", _normal(answer))))
        return dict(answer)

    def watch(self, path: str, since: str, count: int, **selectors: str) -> None:
        """Note the first changes after a version."""
        opened = self.api.watch(path, since=since, **selectors)
        changes = list(itertools.islice(opened, count))
        opened.close()
        self.answers.append((f"watch {path}", [(one.kind.value, _normal(one.object)) for one in changes]))

    def pod(self, name: str, **spec: Any) -> Object:
        limits = {"resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "2"}}}
        containers = [{"name": "main", "image": "none", "command": ["true"], **limits}]
        made = {"containers": containers, "restartPolicy": "Never", "schedulerName": NOBODY, **spec}
        return {"metadata": {"name": name}, "spec": made}

    def job(self, name: str, **spec: Any) -> Object:
        environment = [
            {"name": "A", "value": ""},
            {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ]
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i:1", "env": environment}]}
        template = {"metadata": {"annotations": {"a": "b"}}, "spec": pod}
        size = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
        return {
            "metadata": {"name": name},
            "spec": {**size, "managedBy": NOBODY, "template": template, **spec},
        }


@pytest.fixture
def sides(
    request: pytest.FixtureRequest, cluster: ControlPlane, shared_stand_in: ClusterStandIn
) -> Iterator[tuple[Side, Side]]:
    """Real and stand-in, each with a namespace of the same name."""
    told = re.sub(r"[^a-z]+", "-", request.node.callspec.id.lower()).strip("-")
    name = f"same-{told}"
    made = [Side(client_of(plane), name) for plane in (cluster, shared_stand_in)]
    for side in made:
        make_namespace(side.api, name)
    yield made[0], made[1]
    for side in made:
        side.api.delete(paths.namespaces(name))


def nodes(side: Side) -> None:
    path = paths.nodes("same-n1")
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "x",
        "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    }
    status = {"capacity": {"cpu": "64"}, "conditions": [condition]}
    side.ask(
        "create",
        paths.nodes(),
        {"metadata": {"name": "same-n1", "labels": {"a": "b"}, "annotations": {}}, "status": status},
    )
    side.ask("create", paths.nodes(), {"metadata": {"name": "same-n1"}})
    taint = {"key": "relight.dev/isolated", "effect": "NoSchedule"}
    side.ask(
        "patch",
        path,
        {"spec": {"unschedulable": True, "taints": [taint]}, "metadata": {"annotations": {"x": "y"}}},
        manager="relight",
    )
    side.ask("patch", path, {"spec": {"unschedulable": None, "taints": None}}, manager="kubectl")
    more = [{"type": "Ready", "status": "True", "reason": "z"}, {"type": "Disk", "status": "False"}]
    told = {"status": {"conditions": more, "capacity": {"nvidia.com/gpu": "8"}}}
    side.ask("patch", paths.status(path), told, kind=PatchKind.STRATEGIC, manager="kubelet")
    side.ask("patch", path, {"status": {"phase": "x"}})
    side.ask(
        "patch", paths.status(path), {"spec": {"unschedulable": True}, "metadata": {"labels": {"l": "m"}}}
    )
    side.ask("patch", path, {"spec": {"taints": [taint, taint]}})
    side.ask("patch", path, {"spec": {"taints": [{"key": "a", "effect": "Bad"}]}})
    side.ask("patch", path, {"metadata": {"labels": {"a b": "c d"}}})
    side.ask("patch", path, {"spec": {"unknown": "c"}})
    side.ask("patch", path, {"spec": {"unschedulable": "yes"}})
    side.ask("list", paths.nodes(), labels="a=b")
    side.ask("list", paths.nodes(), fields="metadata.name=same-n1")
    side.ask("delete", path)
    side.ask("get", path)


def conditions_of_writes(side: Side) -> None:
    path = paths.config_maps(side.namespace, "c")
    made = side.ask(
        "create", paths.config_maps(side.namespace), {"metadata": {"name": "c"}, "data": {"a": "b", "e": ""}}
    )
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    side.ask("patch", path, {"metadata": {"uid": uid, "resourceVersion": version}, "data": {"a": "c"}})
    side.ask("patch", path, {"metadata": {"uid": uid, "resourceVersion": version}, "data": {"a": "d"}})
    side.ask("patch", path, {"metadata": {"uid": "another"}, "data": {"a": "d"}})
    side.ask("patch", path, {"metadata": {"name": "another"}})
    side.ask(
        "patch",
        path,
        [{"op": "test", "path": "/data/a", "value": "c"}, {"op": "add", "path": "/data/q", "value": "w"}],
        kind=PatchKind.JSON,
    )
    side.ask("patch", path, [{"op": "test", "path": "/data/a", "value": "x"}], kind=PatchKind.JSON)
    side.ask("patch", path, [{"op": "remove", "path": "/data/nothing"}], kind=PatchKind.JSON)
    side.ask("replace", path, made)
    side.ask("replace", path, {**made, "metadata": {"name": "c"}, "data": None})
    side.ask("delete", path, uid="another")
    side.ask("delete", path, uid=uid, resource_version=version)
    side.ask("delete", path, uid=uid)
    side.ask("delete", path)


def what_is_created(side: Side) -> None:
    all_pods = paths.pods(side.namespace)
    side.ask("create", all_pods, side.pod("p1"))
    side.ask("create", all_pods, side.pod("p1"))
    side.ask("create", all_pods, {**side.pod("x"), "metadata": {"generateName": "gen-"}})
    side.ask("create", all_pods, {**side.pod("x"), "metadata": {}})
    side.ask("create", all_pods, side.pod("A_b"))
    side.ask("create", all_pods, {"metadata": {"name": "q"}, "spec": {}})
    side.ask("create", all_pods, side.pod("q", priorityClassName="high"))
    side.ask("create", all_pods, side.pod("q", serviceAccountName="nobody"))
    side.ask("create", all_pods, {**side.pod("q"), "metadata": {"name": "q", "resourceVersion": "5"}})
    side.ask("create", all_pods, {**side.pod("q"), "metadata": {"name": "q", "namespace": "other"}})
    side.ask("create", paths.pods("no-such-namespace"), side.pod("q"))
    side.ask("create", all_pods, side.pod("dry"), dryRun="All")
    side.ask("create", all_pods, side.pod("p1"), dryRun="All")
    side.ask("get", paths.pods(side.namespace, "dry"))
    side.ask(
        "create",
        all_pods,
        side.pod("keeps", tolerations=[{"operator": "Exists"}], automountServiceAccountToken=False),
    )
    side.ask(
        "create",
        f"{paths.namespaces(side.namespace)}/secrets",
        {"metadata": {"name": "s"}, "stringData": {"a": "b"}},
    )


def a_pod_from_binding_to_end(side: Side) -> None:
    path = paths.pods(side.namespace, "p1")
    side.ask("create", paths.pods(side.namespace), side.pod("p1"))
    side.ask("patch", path, {"metadata": {"annotations": {"a": "b"}}}, manager="relight")
    side.ask("patch", path, {"spec": {"nodeName": "same"}})
    side.ask("patch", path, {"spec": {"priority": 5}})
    side.ask(
        "patch",
        paths.status(path),
        {"metadata": {"uid": "another"}, "status": {"phase": "Running"}},
        kind=PatchKind.STRATEGIC,
    )
    binding = {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "same-nowhere"}}
    side.ask("create", f"{path}/binding", binding)
    side.ask("get", path)
    state = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "ready": True}
    status = {
        "phase": "Running", "hostIP": "127.0.0.1", "podIP": "127.0.0.2",
        "podIPs": [{"$patch": "replace"}, {"ip": "127.0.0.2"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{**state, "restartCount": 0, "image": "none", "imageID": "x"}],
    }  # fmt: skip
    side.ask("patch", paths.status(path), {"status": status}, kind=PatchKind.STRATEGIC, manager="kubelet")
    side.ask("delete", path, grace=20)
    side.ask("delete", path, grace=30)
    side.ask("patch", path, {"metadata": {"finalizers": ["example.com/late"]}})
    side.ask("delete", path, grace=10)
    side.ask("delete", path, uid="another")
    side.ask("delete", path, grace=0)
    side.ask("get", path)


def what_holds_a_pod(side: Side) -> None:
    path = paths.pods(side.namespace, "held")
    held = side.pod("held", nodeName="same-nowhere")
    held["metadata"]["finalizers"] = ["example.com/held"]
    side.ask("create", paths.pods(side.namespace), held)
    side.ask("delete", path, grace=0)
    side.ask("get", path)
    side.ask("patch", path, {"metadata": {"finalizers": None}})
    side.ask("get", path)


def jobs_as_made(side: Side) -> None:
    all_jobs = paths.jobs(side.namespace)
    side.ask("create", all_jobs, side.job("indexed"))
    template = side.job("x")["spec"]["template"]
    side.ask(
        "create",
        all_jobs,
        {"metadata": {"name": "plain"}, "spec": {"managedBy": NOBODY, "template": template}},
    )
    always = {"spec": {"containers": [{"name": "m", "image": "i"}]}}
    side.ask("create", all_jobs, {"metadata": {"name": "always"}, "spec": {"template": always}})
    fails = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
    ignores = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    side.ask("create", all_jobs, side.job("policy", podFailurePolicy={"rules": [fails, ignores]}))
    side.ask(
        "create",
        all_jobs,
        side.job("both", podReplacementPolicy="TerminatingOrFailed", podFailurePolicy={"rules": [fails]}),
    )
    side.ask("create", all_jobs, side.job("index", backoffLimitPerIndex=1))
    side.ask("create", all_jobs, side.job("open", completions=None))
    labelled = side.job("labelled", suspend=True)
    labelled["metadata"]["labels"] = {"l": "m"}
    side.ask("create", all_jobs, labelled)


def what_of_a_job_may_change(side: Side) -> None:
    path = paths.jobs(side.namespace, "j")
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}
    ]}}  # fmt: skip
    since = "2026-01-01T00:00:00Z"

    def template(**change: Any) -> None:
        side.ask("patch", path, {"spec": {"template": change}}, manager="relight")

    def status(**change: Any) -> None:
        side.ask("patch", paths.status(path), {"status": change})

    def condition(kind: str, value: str) -> Object:
        return {"type": kind, "status": value, "lastTransitionTime": since, "lastProbeTime": since}

    side.ask("create", paths.jobs(side.namespace), side.job("j"))
    template(metadata={"annotations": {"a": "c"}})
    side.ask("patch", path, {"spec": {"completions": 3}})
    side.ask("patch", path, {"spec": {"completions": 3, "parallelism": 3}})
    side.ask("patch", path, {"spec": {"backoffLimit": 0, "activeDeadlineSeconds": 100}})
    side.ask("patch", path, {"spec": {"completionMode": "NonIndexed"}})
    side.ask("patch", path, {"spec": {"managedBy": None}})
    side.ask("patch", path, {"spec": {"suspend": True}})
    template(metadata={"annotations": {"a": "c"}}, spec={"affinity": {"nodeAffinity": affinity}})
    template(spec={"containers": [{"name": "main", "image": "other"}]})
    status(startTime=since, active=1, conditions=[condition("Suspended", "False")])
    template(metadata={"annotations": {"a": "d"}})
    status(active=None, conditions=[condition("Suspended", "True")])
    template(metadata={"annotations": {"a": "e"}})
    template(spec={"affinity": None})
    template(spec={"priorityClassName": "x"})
    status(startTime=None)
    side.ask("patch", path, {"spec": {"suspend": False}})
    status(startTime="2026-01-02T00:00:00Z", conditions=[condition("Suspended", "False")])
    status(startTime=None)
    status(conditions=[condition("FailureTarget", "True"), condition("Failed", "True")])
    status(conditions=[])
    side.ask("patch", path, {"metadata": {"uid": "another"}})
    side.ask("delete", path)


def leases(side: Side) -> None:
    all_leases, path = paths.leases(side.namespace), paths.leases(side.namespace, "l")
    at = "2026-01-01T00:00:00.123456Z"
    spec = {"holderIdentity": "", "leaseDurationSeconds": 40, "renewTime": at}
    side.ask("create", all_leases, {"metadata": {"name": "l"}, "spec": spec})
    found = side.ask("get", path)
    side.ask(
        "replace", path, {**found, "spec": {**found["spec"], "holderIdentity": "a", "leaseTransitions": 1}}
    )
    side.ask("replace", path, found)
    side.ask("replace", path, {"metadata": {"name": "l"}, "spec": spec})
    side.ask("patch", path, {"spec": {"leaseDurationSeconds": 0}})
    side.ask("patch", path, {"spec": {"renewTime": "2026-01-01T00:00:01.5Z"}})
    side.ask("patch", path, {"spec": {"renewTime": "noon"}})
    side.ask("patch", path, {"spec": {"renewTime": at.replace("123", "456")}}, manager="agent")


def events(side: Side) -> None:
    about = {"kind": "Job", "namespace": side.namespace, "name": "j", "uid": "u1", "apiVersion": "batch/v1"}
    at = "2026-01-01T00:00:00Z"
    event = {
        "involvedObject": about,
        "reason": "R",
        "message": "m",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": at,
    }
    for name, reason in (("e1", "R"), ("e2", "S"), ("e1", "R")):
        side.ask(
            "create", paths.events(side.namespace), {**event, "metadata": {"name": name}, "reason": reason}
        )
    side.ask("list", paths.events(side.namespace), fields="involvedObject.uid=u1,reason=R")
    side.ask("list", paths.events(side.namespace), fields="reason!=R")


def selectors_and_pages(side: Side) -> None:
    where = paths.leases(side.namespace)
    for name, labels in (
        ("a", {"t": "x"}),
        ("b", {"t": "y", "u": ""}),
        ("c", {}),
        ("d", {"t": "x", "u": "z"}),
    ):
        side.ask("create", where, {"metadata": {"name": name, "labels": labels}})
    for text in ("t=x", "t==y", "t!=x", "t", "!t", "t in (x, y),u", "t notin (x)", "t=x,u=z", "u="):
        side.ask("list", where, labels=f"{text}")
    side.ask("list", where, labels="t=x=y")
    side.ask("list", where, fields="metadata.name=b")
    side.ask("list", where, fields=f"metadata.namespace={side.namespace}", labels="t=x")
    side.ask("list", where, page=2)
    first = side.ask("get", f"{where}?limit=2")
    side.ask("get", f"{where}?limit=1&labelSelector=t")
    side.ask("delete", paths.leases(side.namespace, "d"))
    side.ask("get", f"{where}?limit=2&continue={first['metadata']['continue']}")
    side.ask("get", f"{where}?limit=2&continue=nonsense")


def namespaces(side: Side) -> None:
    name = f"{side.namespace}-going"
    side.ask("create", paths.namespaces(), {"metadata": {"name": name, "finalizers": ["example.com/kept"]}})
    side.ask("delete", paths.namespaces("default"))
    side.ask("delete", paths.namespaces(name))
    side.ask("create", paths.config_maps(name), {"metadata": {"name": "late"}})
    side.ask("patch", paths.namespaces(name), {"metadata": {"finalizers": None}})


def what_a_watch_tells(side: Side) -> None:
    where = paths.leases(side.namespace)
    since = side.api.list(where).resource_version
    side.ask("create", where, {"metadata": {"name": "a", "labels": {"t": "x"}}})
    side.ask("create", where, {"metadata": {"name": "b"}})
    side.ask("patch", f"{where}/a", {"metadata": {"annotations": {"k": "v"}}})
    side.ask(
        "patch", f"{where}/a", {"metadata": {"annotations": {"k": "v"}}}
    )  # changes nothing, tells nothing
    side.ask("patch", f"{where}/b", {"metadata": {"labels": {"t": "x"}}})
    side.ask("patch", f"{where}/a", {"metadata": {"labels": {"t": "z"}}})
    side.ask("delete", f"{where}/b")
    side.watch(where, since, 6)
    side.watch(where, since, 5, labels="t=x")
    side.watch(where, since, 3, fields="metadata.name=b")


def what_a_watch_tells_of_a_pod_that_goes(side: Side) -> None:
    where = paths.pods(side.namespace)
    since = side.api.list(where).resource_version
    side.ask("create", where, side.pod("p"))
    side.ask("delete", f"{where}/p")
    side.ask("create", where, side.pod("q", nodeName="same-nowhere"))
    side.ask("delete", f"{where}/q", grace=5)
    side.ask("delete", f"{where}/q", grace=0)
    side.watch(where, since, 7)
    side.watch(where, since, 4, fields="spec.nodeName=same-nowhere")


SCENARIOS: list[Callable[[Side], None]] = [
    nodes,
    conditions_of_writes,
    what_is_created,
    a_pod_from_binding_to_end,
    what_holds_a_pod,
    jobs_as_made,
    what_of_a_job_may_change,
    leases,
    events,
    selectors_and_pages,
    namespaces,
    what_a_watch_tells,
    what_a_watch_tells_of_a_pod_that_goes,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_both_give_the_same_answers(sides: tuple[Side, Side], scenario: Callable[[Side], None]) -> None:
    real, ours = sides
    for side in sides:
        scenario(side)

    assert [asked for asked, _ in ours.answers] == [asked for asked, _ in real.answers]
    for number, ((asked, wanted), (_, found)) in enumerate(zip(real.answers, ours.answers, strict=True)):
        assert found == wanted, f"answer {number}, {asked}"


_SHAPES = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"kube-api-access-\w{5}"), "kube-api-access-X"),
    (re.compile(r"gen-\w{5}\b"), "gen-X"),
    (re.compile(r'"(resourceVersion|continue)": "[^"]+"'), r'"\1": "X"'),
    (re.compile(r"(in record|in the precondition) \(\d+\)"), r"\1 (X)"),
)


def _normal(item: Any) -> Any:
    text = json.dumps(_plain(item), sort_keys=True)
    for shape, name in _SHAPES:
        text = shape.sub(name, text)
    return json.loads(text)


def _plain(item: Any) -> Any:
    """Without nulls; of owned fields, who owns some."""
    if isinstance(item, list):
        return [_plain(each) for each in item]
    if not isinstance(item, dict):
        return item
    made = {key: _plain(value) for key, value in item.items() if value is not None}
    if "managedFields" in made:
        owners = {
            (each["manager"], each.get("subresource", ""), each["operation"])
            for each in made["managedFields"]
        }
        made["managedFields"] = sorted(owner for owner in owners if owner[0] not in CONTROLLERS)
    made.pop("node.alpha.kubernetes.io/ttl", None)  # annotation of the real controllers
    if "taints" in made:
        made["taints"] = [each for each in made["taints"] if each["key"] not in LIFECYCLE] or None
    return {key: value for key, value in made.items() if value is not None}


def _refusal(status: Object) -> Any:
    told = _normal({key: status.get(key) for key in ("code", "reason", "message", "details")})
    if told.get("reason") in ("Invalid", "BadRequest"):
        causes = (told.get("details") or {}).get("causes") or [{}]
        return told["code"], told["reason"], causes[0].get("field")
    return told
