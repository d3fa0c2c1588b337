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
from schemas.cluster import EPOCH, EVICTED_FOR, FIELD_MANAGER, ISOLATED, RUN, SUSPENDED_UNTIL
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
    "control",
    "protected",
)
OURS_KEPT = name_for("uid-1")
"""A ConfigMap as relight makes it."""
NAMED_LIKE_OURS = name_for("theirs")
"""Another's, by chance."""


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
        """Path of the one of a job."""
        (pod,) = pods_of(self.api, self.api.get(self.job(job)))
        assert ("deletionTimestamp" in pod["metadata"]) is leaving
        return paths.pods(self.namespace, pod["metadata"]["name"])

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
            body = {"metadata": {"name": f"{name}-{self.site.namespace}", "labels": {"team": "a"}}}
            self.api.create(paths.nodes(), body)
            self._stack.callback(self.api.delete, self.node(name))
        self._patch(self.node("free"), {"metadata": {"annotations": {"team": "a"}}})
        self._patch(self.node("free"), {"spec": {"taints": [*self.taints("free"), THEIR_TAINT]}})
        isolated = {"spec": {"unschedulable": True}, "metadata": {"annotations": {ISOLATED: OURS}}}
        self._patch(self.node("cordoned"), isolated)  # taken off and set again by a human
        self._patch(self.node("recordless"), {"spec": {"unschedulable": True}})
        theirs = {"spec": {"unschedulable": True}, "metadata": {"annotations": {ISOLATED: THEIRS}}}
        self._patch(self.node("was-cordoned"), theirs, FIELD_MANAGER)
        for name in ("isolated", "isolated-and-protected"):
            ours = {"taints": [*self.taints(name), TAINT], "unschedulable": True}
            self._patch(
                self.node(name), {"spec": ours, "metadata": {"annotations": {ISOLATED: OURS}}}, FIELD_MANAGER
            )
        self._patch(
            self.node("isolated-and-protected"), {"metadata": {"labels": {"relight.dev/protected": "true"}}}
        )
        label = "node-role.kubernetes.io/control-plane"
        self._patch(self.node("control"), {"metadata": {"labels": {label: ""}}})
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
        self._make_job("plain", {})
        for name, text in MISSPELT.items():
            self._make_job(name, {JOB_RETRY_NUM: text})
        self._make_job("idle", ASKS)
        self._make_job("theirs", {}, suspend=True)
        self._make_job("held", {**ASKS, **UNTIL}, suspend=True, terms=THEIR_TERMS)
        bad = {"key": "metadata.name", "operator": "NotIn", "values": ["bad"]}
        kept_off = [{**term, "matchFields": [*term.get("matchFields", []), bad]} for term in THEIR_TERMS]
        self._make_job("kept-off", {**ASKS, **UNTIL}, suspend=True, terms=kept_off)
        self._make_job("blanks", {JOB_RETRY_NUM: " 003 "})
        self._make_job("switched-off", UNTIL, suspend=True)
        self._make_job("marked", {**ASKS, **UNTIL, **MARKED}, suspend=True)
        self._make_job("marked-and-resumed", {**ASKS, **MARKED})
        self._make_job("switched-off-and-resumed", MARKED)
        self._make_job("queued", ASKS, labels={"kueue.x-k8s.io/queue-name": "q"})
        owner = {"apiVersion": "jobset.x-k8s.io/v1", "kind": "JobSet", "name": "s", "uid": "u"}
        self._make_job("owned", ASKS, finalizers=[KEPT], ownerReferences=[{**owner, "controller": True}])

    def _make_job(self, name: str, annotations: dict[str, str], **more: Any) -> None:
        self.api.create(paths.jobs(self.namespace), self.manifest(name, annotations, **more))

    def manifest(
        self,
        name: str,
        annotations: dict[str, str],
        *,
        suspend: bool = False,
        terms: list[Object] | None = None,
        **metadata: Any,
    ) -> Object:
        """Of a job without a pod."""
        made = job_manifest(name, 1, suspend=suspend)
        made["spec"]["parallelism"] = 0
        made["metadata"] |= {"annotations": annotations, **metadata}
        if terms:
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            made["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
        return made

    def rebuilt(self, name: str = "rebuilt", **carried: str) -> Object:
        """The manifest of a job in place of another one; `carried`: what its template says otherwise."""
        made = self.manifest(name, {REBUILT_FROM: "uid-1", RUN: "uid-1", EPOCH: "2"})
        made["spec"]["template"]["metadata"]["annotations"] |= {RUN: "uid-1", EPOCH: "2", **carried}
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
