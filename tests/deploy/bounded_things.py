"""What stands in a cluster where relight must keep to its bounds: objects it may write something of, and objects of others."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from actuators.jobs.manifest import REBUILT_FROM
from actuators.jobs.manifest_store import LABEL, MANIFEST, name_for
from actuators.nodes.isolation_marks import OURS, TAINT, THEIRS
from recovery.annotations import JOB_RETRY_NUM
from runtime import paths
from runtime.kubernetes import Cluster
from schemas.cluster import EPOCH, EVICTED_FOR, FIELD_MANAGER, HOLD, ISOLATED, REPAIR, RUN, SUSPENDED_UNTIL
from tests.actuators.real_job import job_manifest, pods_of, wait_until
from tests.actuators.real_steps import bind, set_phase
from tests.deploy.manifests import Object
from tests.deploy.site import Site, make_asking_job

ASKS = {JOB_RETRY_NUM: "3"}
UNTIL = {SUSPENDED_UNTIL: "2030-01-01T00:00:00+00:00"}
MARKED = {EVICTED_FOR: "incident-1"}
KEPT = "example.com/kept"
"""A finalizer."""
THEIR_TAINT = {"key": "team-a", "value": "x", "effect": "NoSchedule"}
THEIR_TERMS = [
    {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a"]}]},
    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},
]
"""Where a job of theirs may run."""
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": THEIR_TERMS[0]}]}
"""And where rather."""
MISSPELT = {f"misspelt-{number}": text for number, text in enumerate(("0", "129", "many", "", "-1", "1.5"))}
"""Jobs by what they say instead of a number of retries."""
NODES = (
    "free",
    "other",
    "isolated",
    "isolated-and-protected",
    "cordoned",
    "was-cordoned",
    "recordless",
    "uncordoned",
    "control",
    "control-isolated",
    "protected",
)
OURS_KEPT = name_for("uid-1")
"""A ConfigMap as relight makes it."""
NAMED_LIKE_OURS = name_for("theirs")
"""Another's, by chance."""


def needing(terms: list[Object], **more: Any) -> Object:
    """Of a pod: where it may run."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": {**required, **more}}}


def owned_by(owner: Object) -> Object:
    """Of an object: who controls it, and that nobody takes it away."""
    return {"finalizers": [KEPT], "ownerReferences": [{**owner, "controller": True}]}


class Things:
    """Made once; nothing that is asked for here is done, so that they stay as they are."""

    def __init__(self, site: Site, namespace: str, stack: ExitStack) -> None:
        self.site = site
        self.api: Cluster = site.api
        self.namespace = namespace
        self._stack = stack
        self._make_nodes()
        self._make_jobs()
        self._make_the_rest()
        self.agents = self._make_pod("free")
        self.stray = self._make_pod("other")
        """A pod of no job, deleted and not gone."""
        self.api.delete(self.pod_of_none(self.stray))

    def node(self, name: str) -> str:
        """Path of one."""
        return paths.nodes(f"{name}-{self.site.namespace}")

    def job(self, name: str) -> str:
        """Path of one."""
        return paths.jobs(self.namespace, name)

    def pod(self, job: str, *, leaving: bool = False) -> str:
        """Path of the one of a job; beside one that leaves its controller makes another."""
        (name,) = [
            pod["metadata"]["name"]
            for pod in pods_of(self.api, self.api.get(self.job(job)))
            if ("deletionTimestamp" in pod["metadata"]) is leaving
        ]
        return paths.pods(self.namespace, name)

    def pod_of_none(self, pod: Object) -> str:
        """Path of `agents` or `stray`."""
        return paths.pods(self.site.namespace, pod["metadata"]["name"])

    def config_map(self, name: str) -> str:
        """Path of one."""
        return paths.config_maps(self.namespace, name)

    def taints(self, name: str) -> list[Object]:
        """Those of a node as they are: the node lifecycle controller adds some."""
        return list(self.api.get(self.node(name))["spec"].get("taints") or [])

    def _make_nodes(self) -> None:
        self.free = f"free-{self.site.namespace}"
        for name in NODES:
            # With a label, as every kubelet makes its node: the server records no writers of what was made empty.
            body = {
                "metadata": {"name": f"{name}-{self.site.namespace}", "labels": {"team": "a"}},
                "spec": {} if name == "free" else {"providerID": f"lab://{name}"},
            }
            self.api.create(paths.nodes(), body)
            self._stack.callback(self.api.delete, self.node(name))
        self._patch(self.node("free"), {"metadata": {"annotations": {"team": "a"}}})
        self._patch(self.node("free"), {"spec": {"taints": [*self.taints("free"), THEIR_TAINT]}})
        isolated = {"spec": {"unschedulable": True}, "metadata": {"annotations": {ISOLATED: OURS}}}
        self._patch(self.node("cordoned"), isolated)  # taken off and set again by a human
        self._patch(self.node("recordless"), {"spec": {"unschedulable": True}})
        theirs = {"spec": {"unschedulable": True}, "metadata": {"annotations": {ISOLATED: THEIRS}}}
        self._patch(self.node("was-cordoned"), theirs, FIELD_MANAGER)
        self._patch(self.node("uncordoned"), {"metadata": theirs["metadata"]}, FIELD_MANAGER)
        marks = {ISOLATED: OURS, f"{HOLD}x": "{}", f"{REPAIR}y": "{}"}
        for name in ("isolated", "isolated-and-protected"):
            ours = {"taints": [*self.taints(name), TAINT], "unschedulable": True}
            self._patch(self.node(name), {"spec": ours, "metadata": {"annotations": marks}}, FIELD_MANAGER)
        self._patch(
            self.node("isolated-and-protected"), {"metadata": {"labels": {"relight.dev/protected": "true"}}}
        )
        label = "node-role.kubernetes.io/control-plane"
        self._patch(self.node("control"), {"metadata": {"labels": {label: ""}}})
        isolated = {"spec": {"taints": [*self.taints("control-isolated"), TAINT]}}
        self._patch(self.node("control-isolated"), {**isolated, "metadata": {"labels": {label: ""}}})
        self._patch(self.node("protected"), {"metadata": {"labels": {"relight.dev/protected": "true"}}})

    def _make_pod(self, node: str) -> Object:
        made = self.site.pod_on(f"{node}-{self.site.namespace}")
        self._stack.callback(self.api.delete, self.pod_of_none(made), grace=0)
        return made

    def _make_jobs(self) -> None:
        make_asking_job(self.api, self.namespace, 1, name="asking")
        wait_until(lambda: self.api.get(self.job("asking")).get("status", {}).get("active") == 1)
        make_asking_job(self.api, self.namespace, 1, name="leaving")
        (pod,) = pods_of(self.api, self.api.get(self.job("leaving")))
        bind(self.api, pod, self.free)
        set_phase(self.api, pod, "Running")
        self.api.delete(self.pod("leaving"))
        self._stack.callback(self.api.delete, self.pod("leaving", leaving=True), grace=0)
        self._make_jobs_without_pods()

    def _make_jobs_without_pods(self) -> None:
        queue = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
        elsewhere = {"managedBy": "example.com/controller"}
        bad = {"key": "metadata.name", "operator": "NotIn", "values": ["bad"]}
        kept_off = [{**term, "matchFields": [*term.get("matchFields", []), bad]} for term in THEIR_TERMS]
        self._make_job("plain", {})
        for name, text in MISSPELT.items():
            self._make_job(name, {JOB_RETRY_NUM: text})
        self._make_job("idle", ASKS)
        self._make_job("blanks", {JOB_RETRY_NUM: " 003 "})
        self._make_job("theirs", {}, suspend=True)
        self._make_job("theirs-and-asks", ASKS, suspend=True)
        self._make_job("held", {**ASKS, **UNTIL}, suspend=True, parallelism=1, pod=needing(THEIR_TERMS))
        near = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}}
        picky = {**needing(kept_off, **PREFERRED), "nodeSelector": {"gpu": "a"}}
        picky["affinity"]["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
        self._make_job("kept-off", {**ASKS, **UNTIL}, suspend=True, pod=picky, ttlSecondsAfterFinished=1000)
        self._make_job("switched-off", UNTIL, suspend=True)
        self._make_job("marked", {**ASKS, **UNTIL, **MARKED}, suspend=True)
        self._make_job("marked-and-resumed", {**ASKS, **MARKED})
        self._make_job("switched-off-and-resumed", MARKED)
        self._make_job("queued", ASKS, metadata=queue)
        self._make_job("queued-and-held", {**ASKS, **UNTIL}, metadata=queue, suspend=True)
        self._make_job("elsewhere", ASKS, **elsewhere)
        self._make_job(
            "owned",
            ASKS,
            metadata=owned_by(
                {"apiVersion": "jobset.x-k8s.io/v1", "kind": "JobSet", "name": "s", "uid": "u"}
            ),
        )
        schedule = {
            "schedule": "0 0 1 1 *",
            "suspend": True,
            "jobTemplate": {"spec": self.manifest("x", {})["spec"]},
        }
        cron = self.api.create(
            f"/apis/batch/v1/namespaces/{self.namespace}/cronjobs",
            {"metadata": {"name": "c"}, "spec": schedule},
        )
        reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": cron["metadata"]["uid"]}
        self._make_job("of-a-cron-job", ASKS, metadata=owned_by(reference))
        self._make_job(
            "marked-and-active", {**ASKS, **UNTIL, **MARKED}, suspend=True, parallelism=1, **elsewhere
        )
        self._patch(
            paths.status(self.job("marked-and-active")),
            {"status": {"active": 1, "startTime": "2026-01-01T00:00:00Z"}},
        )
        self._make_job("marked-and-leaving", {**ASKS, **MARKED}, metadata={"finalizers": [KEPT]})
        self.api.delete(self.job("marked-and-leaving"))
        wait_until(lambda: "conditions" in self.api.get(self.job("held")).get("status", {}))
        for name in ("owned", "of-a-cron-job", "marked-and-leaving"):
            self._stack.callback(self._patch, self.job(name), {"metadata": {"finalizers": None}})

    def _make_job(self, name: str, annotations: dict[str, str], **more: Any) -> None:
        self.api.create(paths.jobs(self.namespace), self.manifest(name, annotations, **more))

    def manifest(
        self,
        name: str,
        annotations: dict[str, str],
        *,
        metadata: Object | None = None,
        pod: Object | None = None,
        **spec: Any,
    ) -> Object:
        """Of a job without a pod."""
        made = job_manifest(name, 1, **{"parallelism": 0, **spec})
        made["metadata"] |= {"annotations": annotations, **(metadata or {})}
        made["spec"]["template"]["spec"] |= pod or {}
        return made

    def rebuilt(self, *, carried: dict[str, str] | None = None, **says: str | None) -> Object:
        """The manifest of a job in place of another one; what it, or its template, says otherwise."""
        issue = {RUN: "uid-1", EPOCH: "2"}
        notes = {REBUILT_FROM: "uid-1", **issue, **says}
        made = self.manifest("rebuilt", {key: text for key, text in notes.items() if text is not None})
        made["spec"]["template"]["metadata"]["annotations"] |= {**issue, **(carried or {})}
        return made

    def kept(self, name: str = OURS_KEPT, **more: Object) -> Object:
        """The manifest of a job that is being made anew, as a ConfigMap keeps it."""
        metadata = {"name": name, "labels": {LABEL: "true"}, "annotations": {RUN: "uid-1"}}
        return {"metadata": metadata, "data": {MANIFEST: "{}"}, **more}

    def _make_the_rest(self) -> None:
        leases = paths.leases(self.site.namespace)
        self.api.create(leases, {"metadata": {"name": "relight-isolation"}})
        maps = paths.config_maps(self.namespace)
        self.api.create(maps, {"metadata": {"name": "theirs"}, "data": {"a": "b"}})
        self.api.create(maps, {"metadata": {"name": NAMED_LIKE_OURS}, "data": {"a": "b"}})
        self.api.create(maps, self.kept())

    def _patch(self, path: str, change: Object, manager: str = "kubectl") -> None:
        self.api.patch(path, change, manager=manager)
