"""Beneath relight's own rules the API server has its own: what a part must not write is refused, whatever RBAC grants it and relight wants.

RBAC lets each part do everything here, so every refusal is a bound's. Nothing is really done: the server is asked with `dryRun`. What relight
needs passes as well, see `test_rights`: there all steps are done within the same bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from actuators.jobs.keeping_off import KEPT_OFF
from actuators.jobs.manifest import REBUILT_FROM
from actuators.jobs.manifest_store import LABEL, name_for
from actuators.nodes.isolation_marks import TAINT
from recovery.annotations import JOB_RETRY_NUM
from relight.checkup import Verdict, bounds
from runtime import paths
from runtime.errors import ApiConflict, ApiForbidden
from runtime.kubernetes import Cluster
from schemas.cluster import (
    ATTEMPT,
    DESIRED,
    EPOCH,
    EVICTED_FOR,
    HOLD,
    INJECTED,
    ISOLATED,
    ISOLATION_ORDER,
    LET_GO,
    POD_RETRIES_USED,
    REPAIR,
    REPAIRED,
    RETRIES_USED,
    RUN,
    SUSPENDED_UNTIL,
    agent_lease,
)
from tests.actuators.real_job import wait_until
from tests.deploy.bounded_things import (
    ASKS,
    KEPT,
    MARKED,
    MISSPELT,
    NAMED_LIKE_OURS,
    OURS_KEPT,
    PREFERRED,
    THEIR_TERMS,
    UNTIL,
    Things,
    needing,
)
from tests.deploy.manifests import Object, objects, path_of
from tests.deploy.site import Site, Watched, ask
from tests.real.kubernetes import make_namespace

REAL_PLANE_ONLY = "admission policies are Kubernetes' own"

Asked = tuple[str, str, Object | None]
"""Method, path, body."""
Ask = Callable[[Things], Asked]


@dataclass(frozen=True)
class Case:
    """Something that is asked of the server."""

    what: str
    asked: Ask
    words: str = ""
    """Of the refusal."""

    def __str__(self) -> str:
        return self.what.replace(" ", "-")


@pytest.fixture(scope="module")
def things(site: Site) -> Iterator[Things]:
    site.grant_everything()
    namespace = make_namespace(site.api, f"bounded-{site.namespace}")
    with ExitStack() as stack:
        stack.callback(site.api.delete, paths.namespaces(namespace))
        yield Things(site, namespace, stack)


@pytest.fixture(scope="module")
def actuators(site: Site, things: Things) -> Watched:
    del things  # everything is granted
    return site.acting_as("actuators")


@pytest.fixture(scope="module")
def agent(site: Site, things: Things) -> Watched:
    """That of node `free`."""
    return site.acting_as("node-agent", things.agents)


def allowed(api: Cluster, asked: Ask, things: Things) -> None:
    """It is admitted. Where the name is taken it is; what was read for a change and is another's by now is read again, as relight does."""
    while True:
        method, path, body = asked(things)
        try:
            ask(api, method, path, body)
        except ApiConflict:
            if method == "PATCH":
                continue
        return


def refused(api: Cluster, case: Case, things: Things) -> None:
    """By a bound, in these words; and nobody else meets it."""
    assert case.words, "whatever is said holds no words"
    with pytest.raises(ApiForbidden, match="denied request") as told:
        allowed(api, case.asked, things)
    assert case.words in str(told.value)
    assert f"-{things.site.namespace}'" in str(told.value), "by a policy of ours"
    allowed(things.api, case.asked, things)


def node(name: str, change: Object) -> Ask:
    return lambda things: ("PATCH", things.node(name), change)


def job(name: str, change: Object) -> Ask:
    return lambda things: ("PATCH", things.job(name), change)


def status(change: Object, name: str = "held") -> Ask:
    return lambda things: ("PATCH", paths.status(things.job(name)), {"status": change})


def pod(change: Object) -> Ask:
    return lambda things: ("PATCH", things.pod("asking"), change)


def kept(change: Object, name: str = OURS_KEPT) -> Ask:
    return lambda things: ("PATCH", things.config_map(name), change)


def deleted(path: Callable[[Things], str]) -> Ask:
    return lambda things: ("DELETE", path(things), None)


def made(
    body: Callable[[Things], Object], where: Callable[[str], str] = paths.jobs, *, inside: str = ""
) -> Ask:
    return lambda things: ("POST", where(inside or things.namespace), body(things))


def lease(name: str) -> Ask:
    return lambda things: ("POST", paths.leases(things.site.namespace), {"metadata": {"name": name}})


def notes(values: dict[str, Any]) -> Object:
    return {"metadata": {"annotations": values}}


def spec(**values: Any) -> Object:
    return {"spec": values}


def template(**values: Any) -> Object:
    return spec(template=spec(**values))


def places(*terms: Object, **more: Any) -> Object:
    return template(**needing(list(terms), **more))


def rather(terms: list[Object] | None) -> Object:
    return template(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})


def off(term: Object) -> Object:
    """A term that keeps off a node as well."""
    return {"matchFields": [*term.get("matchFields", []), *by_name("NotIn", "bad")["matchFields"]]}


def by_name(operator: str, *names: str) -> Object:
    return {
        "matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]} for name in names]
    }


GPUS, ONE_NODE = THEIR_TERMS
SUSPEND = {**spec(suspend=True), **notes(UNTIL)}


def taints(name: str, *, but: Object | None, **more: Any) -> Ask:
    """Set those that stand there, without ours, and one more; on the version that was read."""

    def asked(things: Things) -> Asked:
        found = things.api.get(things.node(name))
        rest = [taint for taint in found["spec"].get("taints") or [] if taint["key"] != ISOLATED]
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        change = spec(taints=[*rest, but] if but else rest or None, **more)
        return "PATCH", things.node(name), {**change, "metadata": version}

    return asked


SPEC_OF_A_NODE = "nothing of a node's spec but its cordon and its taints"
TAINTS_OF_A_NODE = "every other taint stays as it is"
NOTES_OF_A_NODE = "annotations of a node's isolation and repair orders only"
REST_OF_A_NODE = "no label, owner or finalizer of a node"
THEIR_CORDON = "somebody else cordoned this node"
SHIELDED = "may not isolate a node of the control plane or one labelled relight.dev/protected"
OF_NODES = [
    Case("a label", node("free", {"metadata": {"labels": {"team": "b"}}}), REST_OF_A_NODE),
    Case("a label taken off", node("free", {"metadata": {"labels": {"team": None}}}), REST_OF_A_NODE),
    Case("a finalizer", node("free", {"metadata": {"finalizers": [KEPT]}}), REST_OF_A_NODE),
    Case("another's annotation", node("free", notes({"team": "b"})), NOTES_OF_A_NODE),
    Case("another's annotation taken off", node("free", notes({"team": None})), NOTES_OF_A_NODE),
    Case("an answer in the agent's place", node("free", notes({f"{REPAIRED}ring-0": "{}"})), NOTES_OF_A_NODE),
    Case("a setting of the node", node("free", spec(providerID="x")), SPEC_OF_A_NODE),
    Case("another's taint", taints("free", but={**TAINT, "key": "b"}), TAINTS_OF_A_NODE),
    Case("our taint so that pods go", taints("free", but={**TAINT, "effect": "NoExecute"}), TAINTS_OF_A_NODE),
    Case("others' taints taken off", node("free", spec(taints=[TAINT])), TAINTS_OF_A_NODE),
    Case("a cordon like a human's", node("free", spec(unschedulable=True)), "together with the taint"),
    Case("a human's cordon", node("cordoned", spec(unschedulable=None)), THEIR_CORDON),
    Case("a cordon there was before", node("was-cordoned", spec(unschedulable=None)), THEIR_CORDON),
    Case("a cordon without a record", node("recordless", spec(unschedulable=None)), THEIR_CORDON),
    Case("the control plane", taints("control", but=TAINT, unschedulable=True), SHIELDED),
    Case("the control plane cordoned", taints("control-isolated", but=TAINT, unschedulable=True), SHIELDED),
    Case("a protected node", taints("protected", but=TAINT), SHIELDED),
    Case("a node made", lambda _: ("POST", paths.nodes(), {"metadata": {"name": "n"}}), "makes no nodes"),
    Case("a node deleted", deleted(lambda things: things.node("free")), "makes no nodes and deletes none"),
]

NOT_ASKED = "only a job that asks for high availability"
FOREIGN = "another controller owns, queues or manages"
REST_OF_A_JOB = "no label, owner or finalizer of a job"
SPEC_OF_A_JOB = "nothing of a job's spec but its suspension, its template and what ends it"
NOTES_OF_A_JOB = "only annotations of a job that are relight's own"
TEMPLATE = "nothing of a job's template but run, epoch and the nodes it keeps off"
PLACES = "keep a job off nodes by name, and change nothing else of where it may run"
ENDS = "set no other value of these"
STATUS = "take the start time off the status of a suspended job, and change nothing else of it"
UNMARKED = "only a job that it marked before"
IN_PLACE_OF = "only in place of one it deleted"
BESIDE = "no job in a namespace of Kubernetes or of relight itself"
OF_JOBS = [
    Case("suspended unasked", job("plain", SUSPEND), NOT_ASKED),
    *[Case(f"suspended, misspelt {text}", job(name, SUSPEND), NOT_ASKED) for name, text in MISSPELT.items()],
    Case("suspended after all", job("switched-off-and-resumed", SUSPEND), f"suspend {NOT_ASKED}"),
    Case("suspended for ever", job("idle", spec(suspend=True)), "without saying until when"),
    Case("suspended in a queue", job("queued", SUSPEND), FOREIGN),
    Case("suspended in another's hands", job("owned", SUSPEND), FOREIGN),
    Case("suspended elsewhere", job("elsewhere", SUSPEND), FOREIGN),
    Case("failed unasked", job("plain", spec(backoffLimit=0)), NOT_ASKED),
    Case("resumed though another suspended it", job("theirs", spec(suspend=False)), NOT_ASKED),
    Case("marked unasked", job("theirs", notes(MARKED)), NOT_ASKED),
    Case("marked as it runs", job("asking", notes(MARKED)), "only a job that is suspended or has failed"),
    Case("switched on", job("plain", notes(ASKS)), NOT_ASKED),
    Case("its retries", job("idle", notes({JOB_RETRY_NUM: "9"})), NOTES_OF_A_JOB),
    Case("its owner's word", job("idle", notes({"relight.dev/independent-ranks": "true"})), NOTES_OF_A_JOB),
    Case("its asking taken off", job("held", notes({JOB_RETRY_NUM: None})), NOTES_OF_A_JOB),
    Case("a label of a job", job("idle", {"metadata": {"labels": {"team": "b"}}}), REST_OF_A_JOB),
    Case("a finalizer of a job", job("idle", {"metadata": {"finalizers": [KEPT]}}), REST_OF_A_JOB),
    Case("a finalizer taken off", job("owned", {"metadata": {"finalizers": None}}), REST_OF_A_JOB),
    Case("its back-off", job("idle", spec(backoffLimit=7)), ENDS),
    Case("its time", job("idle", spec(activeDeadlineSeconds=60)), ENDS),
    Case("its size", job("idle", spec(parallelism=5)), ENDS),
    Case("no pod and no end", job("asking", spec(parallelism=0)), ENDS),
    Case("more pods as it ends", job("idle", spec(parallelism=5, backoffLimit=0, activeDeadlineSeconds=1)), ENDS),
    Case("no pod, in no time", job("asking", spec(parallelism=0, activeDeadlineSeconds=1)), ENDS),
    Case("no pod, for ever", job("asking", spec(parallelism=0, backoffLimit=0)), ENDS),
    Case("how long it is kept", job("held", spec(ttlSecondsAfterFinished=1)), SPEC_OF_A_JOB),
    Case("how long it was kept", job("kept-off", spec(ttlSecondsAfterFinished=1)), SPEC_OF_A_JOB),
    Case("that it goes", job("kept-off", spec(ttlSecondsAfterFinished=None)), SPEC_OF_A_JOB),
    Case("what its pods say", job("held", spec(template=notes({INJECTED: "9"}))), TEMPLATE),
    Case("what its pods said", job("held", spec(template=notes({INJECTED: None}))), TEMPLATE),
    Case("a label of its pods", job("held", spec(template={"metadata": {"labels": {"a": "b"}}})), TEMPLATE),
    Case("a selector", job("held", template(nodeSelector={"gpu": "b"})), TEMPLATE),
    Case("another selector", job("kept-off", template(nodeSelector={"gpu": "b"})), TEMPLATE),
    Case("a selector taken off", job("kept-off", template(nodeSelector=None)), TEMPLATE),
    Case("a note on its pods", job("held", spec(template=notes({"team": "a"}))), TEMPLATE),
    Case("what it tolerates", job("held", template(tolerations=[{"operator": "Exists"}])), TEMPLATE),
    Case("pods sent to a node", job("held", places(*THEIR_TERMS, by_name("In", "x"))), PLACES),
    Case("a requirement dropped", job("held", places(ONE_NODE)), PLACES),
    Case("a choice of nodes dropped", job("held", places(GPUS)), PLACES),
    Case("a preference", job("held", places(*THEIR_TERMS, **PREFERRED)), PLACES),
    Case("another preference", job("kept-off", rather([{"weight": 2, "preference": GPUS}])), PLACES),
    Case("a preference taken off", job("kept-off", rather(None)), PLACES),
    Case("deleted as it runs", deleted(lambda things: things.job("asking")), UNMARKED),
    Case("deleted unmarked", deleted(lambda things: things.job("held")), UNMARKED),
    Case("deleted, resumed", deleted(lambda things: things.job("marked-and-resumed")), "suspended or has failed"),
    Case("deleted, active", deleted(lambda things: things.job("marked-and-active")), "and has no active pod"),
    Case("made of nothing", made(lambda things: things.manifest("new", ASKS)), IN_PLACE_OF),
    Case("made in no place", made(lambda things: things.rebuilt(**{REBUILT_FROM: None})), IN_PLACE_OF),
    Case("made of two epochs", made(lambda things: things.rebuilt(carried={EPOCH: "1"})), IN_PLACE_OF),
    Case("made beside Kubernetes", made(lambda things: things.rebuilt(), inside="kube-system"), BESIDE),
    Case("made beside relight", lambda it: ("POST", paths.jobs(it.site.namespace), it.rebuilt()), BESIDE),
    Case("what failed of it", status({"failed": 7}), STATUS),
    Case("what holds of it", status({"conditions": [{"type": "Mine", "status": "True"}]}), STATUS),
    Case("all that holds of it", status({"conditions": None}), STATUS),
]  # fmt: skip

TOLD = "nothing of a pod but its annotation relight.dev/desired"
A_POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
OF_PODS = [
    Case("a label of a pod", pod({"metadata": {"labels": {"a": "b"}}}), TOLD),
    Case("a note on a pod", pod(notes({"team": "a"})), TOLD),
    Case("what its controller counts it by", pod({"metadata": {"finalizers": None}}), TOLD),
    Case("another annotation of a pod", pod(notes({EPOCH: "7"})), TOLD),
    Case("an annotation of a pod taken off", pod(notes({EPOCH: None})), TOLD),
    Case("a deadline of a pod", pod(spec(activeDeadlineSeconds=1)), TOLD),
    Case("a stranger told", lambda it: ("PATCH", it.pod_of_none(it.agents), notes({DESIRED: "{}"})), "supervisor"),
    Case("a live pod deleted", deleted(lambda things: things.pod("asking")), "somebody has deleted already"),
    Case("another's pod deleted", deleted(lambda it: it.pod_of_none(it.stray)), "only a pod of a job"),
    Case("a pod made", made(lambda _: A_POD, paths.pods), "makes no pods"),
]  # fmt: skip

NAMED = "only ConfigMaps of jobs that are being made anew"
FILLED = "nothing in a ConfigMap but the manifest of a job"
OF_CONFIG_MAPS = [
    Case("another's", kept({"data": {"a": "c"}}, "theirs"), NAMED),
    Case("another's labelled as ours", kept({"metadata": {"labels": {LABEL: "true"}}}, NAMED_LIKE_OURS), NAMED),
    Case("another's deleted", deleted(lambda things: things.config_map("theirs")), NAMED),
    Case("one of our name deleted", deleted(lambda things: things.config_map(NAMED_LIKE_OURS)), NAMED),
    Case("one of our label made", made(lambda things: things.kept("any"), paths.config_maps), NAMED),
    Case("our label taken off", kept({"metadata": {"labels": {LABEL: None}}}), NAMED),
    Case("something else in it", kept({"data": {"x": "y"}}), FILLED),
    Case("bytes in it", made(lambda it: it.kept(name_for("a"), binaryData={"x": "eA=="}), paths.config_maps), FILLED),
]  # fmt: skip

OF_LEASES = [
    Case("the watchers' Lease", lease("relight-watcher"), "Lease relight-isolation only"),
    Case("an agent's Lease", lease(agent_lease("n")), "Lease relight-isolation only"),
]


OF_ACTUATORS = [*OF_NODES, *OF_JOBS, *OF_PODS, *OF_CONFIG_MAPS, *OF_LEASES]


@pytest.mark.parametrize("case", OF_ACTUATORS, ids=str)
def test_what_an_actuator_must_not_write_is_refused_in_plain_words_and_to_nobody_else(
    actuators: Watched, things: Things, case: Case
) -> None:
    refused(actuators, case, things)


GONE_ON = {**spec(suspend=False), **notes({SUSPENDED_UNTIL: None, EVICTED_FOR: None, LET_GO: "1"})}
ISSUED = {RUN: "uid-1", EPOCH: "2"}
OVER = notes({ISOLATED: None, f"{HOLD}x": None, f"{REPAIR}y": None, ISOLATION_ORDER: "2 c"})
ALLOWED = [
    Case("isolated", taints("free", but=TAINT)),
    Case("held and repaired", node("free", notes({f"{HOLD}x": "{}", f"{REPAIR}y": "{}", ISOLATION_ORDER: "1 c"}))),
    Case("released", taints("isolated", but=None, unschedulable=None)),
    Case("repaired, protected", node("protected", notes({f"{REPAIR}y": "{}"}))),
    Case("released, its marks", node("isolated", OVER)),
    Case("released, cordoned before", node("was-cordoned", OVER)),
    Case("held, uncordoned since", node("uncordoned", notes({f"{HOLD}x": "{}"}))),
    Case("released, protected since", taints("isolated-and-protected", but=None, unschedulable=None)),
    Case("a protected node's marks in line", node("isolated-and-protected", notes({f"{HOLD}x": "{}"}))),
    Case("suspended", job("idle", SUSPEND)),
    Case("suspended, of a CronJob", job("of-a-cron-job", SUSPEND)),
    Case("noted in a queue", job("queued-and-held", notes({ATTEMPT: "1"}))),
    Case("noted, suspended by its owner", job("theirs-and-asks", notes({ATTEMPT: "1"}))),
    Case("noted, marked", job("marked-and-resumed", notes({RETRIES_USED: "1"}))),
    Case("asked for with blanks", job("blanks", SUSPEND)),
    Case("failed", job("asking", spec(backoffLimit=0, activeDeadlineSeconds=1))),
    Case("failed as it is suspended", job("held", spec(suspend=False, backoffLimit=0, activeDeadlineSeconds=1, parallelism=0))),
    Case("let go", job("marked", GONE_ON)),
    Case("let go, switched off since", job("switched-off", GONE_ON)),
    Case("unmarked, switched off since", job("switched-off-and-resumed", notes({EVICTED_FOR: None}))),
    Case("the next issue", job("held", {**spec(template=notes(ISSUED)), **notes({**ISSUED, ATTEMPT: "1", KEPT_OFF: "[]"})})),
    Case("budgets mirrored", job("held", notes({RETRIES_USED: "1", POD_RETRIES_USED: "0"}))),
    Case("kept off nodes", job("held", places(*[{**term, **off(term)} for term in THEIR_TERMS]))),
    Case("kept off nodes no more", job("kept-off", places(*THEIR_TERMS))),
    Case("an affinity of ours alone", job("switched-off", places(by_name("NotIn", "a", "b")))),
    Case("its start time", status({"startTime": None}, "marked-and-active")),
    Case("marked", job("held", notes(MARKED))),
    Case("deleted, marked", deleted(lambda things: things.job("marked"))),
    Case("deleted, marked, by its owner too", deleted(lambda things: things.job("marked-and-leaving"))),
    Case("made anew", made(lambda things: things.rebuilt())),
    Case("told", pod(notes({DESIRED: "{}"}))),
    Case("forced off", deleted(lambda things: things.pod("leaving", leaving=True))),
    Case("kept", made(lambda things: things.kept(name_for("a")), paths.config_maps)),
    Case("noted", kept(notes({"relight.dev/rebuild-stage": "marked"}))),
    Case("emptied", deleted(lambda things: things.config_map(OURS_KEPT))),
    Case("the guards' Lease", lease("relight-isolation")),
]  # fmt: skip


@pytest.mark.parametrize("case", ALLOWED, ids=str)
def test_what_it_needs_passes_and_the_way_back_does_whatever_its_owner_switched_since(
    actuators: Watched, things: Things, case: Case
) -> None:
    allowed(actuators, case.asked, things)


ANSWER = node("free", notes({f"{REPAIRED}ring-0": "{}"}))
REST_OF_ITS_NODE = "nothing of its Node but annotations"
NOTES_OF_ITS_NODE = "repaired.relight.dev/ only"
OF_AGENTS = [
    Case("an answer of another", node("other", notes({f"{REPAIRED}ring-0": "{}"})), "its own Node only"),
    Case("a cordon", node("free", spec(unschedulable=True)), REST_OF_ITS_NODE),
    Case("taints", node("free", spec(taints=[])), REST_OF_ITS_NODE),
    Case("a label of its node", node("free", {"metadata": {"labels": {"a": "b"}}}), REST_OF_ITS_NODE),
    Case("a hold", node("free", notes({f"{HOLD}x": "{}"})), NOTES_OF_ITS_NODE),
    Case("an order to itself", node("free", notes({f"{REPAIR}x": "{}"})), NOTES_OF_ITS_NODE),
    Case("another's annotation taken off", node("free", notes({"team": None})), NOTES_OF_ITS_NODE),
    Case("its node deleted", deleted(lambda things: things.node("free")), "a node agent makes no nodes and deletes none"),
    Case("another agent's Lease", lease(agent_lease("other")), "a node agent may write its own Lease only"),
    Case("the guards' Lease", lease("relight-isolation"), "a node agent may write its own Lease only"),
]  # fmt: skip


@pytest.mark.parametrize("case", OF_AGENTS, ids=str)
def test_an_agent_writes_no_other_node_no_other_lease_and_nothing_but_its_answers(
    agent: Watched, things: Things, case: Case
) -> None:
    refused(agent, case, things)


def test_an_agent_writes_its_answers_and_its_lease(agent: Watched, things: Things) -> None:
    allowed(agent, ANSWER, things)
    allowed(agent, lease(agent_lease(things.free)), things)


UNBOUND = Case(
    "an answer of nobody knows which node", ANSWER, "an agent's token must be bound to a pod on a node"
)


def test_a_token_that_is_bound_to_no_pod_writes_nothing(site: Site, things: Things) -> None:
    api = site.acting_as("node-agent")

    refused(api, UNBOUND, things)
    refused(api, replace(UNBOUND, asked=lease(agent_lease(things.free))), things)


OF_WATCHERS = Case(
    "the guards' Lease", lease("relight-isolation"), "a watcher may write Lease relight-watcher only"
)


def test_a_watcher_writes_its_own_lease_only(site: Site, things: Things) -> None:
    api = site.acting_as("watcher")

    refused(api, OF_WATCHERS, things)
    refused(api, replace(OF_WATCHERS, asked=lease(agent_lease(things.free))), things)
    allowed(api, lease("relight-watcher"), things)


OF_NOBODY = Case(
    "a Lease deleted",
    deleted(lambda things: paths.leases(things.site.namespace, "relight-isolation")),
    "no part of relight deletes a Lease",
)


def test_the_doctor_sees_with_the_actuators_token_that_they_are_in_force(
    actuators: Watched, things: Things
) -> None:
    assert [one.verdict for one in bounds(actuators.create)] == [Verdict.GOOD]
    assert [one.verdict for one in bounds(things.api.create)] == [Verdict.SKIPPED]


def test_no_part_deletes_a_lease(things: Things, actuators: Watched, agent: Watched) -> None:
    for api in (actuators, agent):
        refused(api, OF_NOBODY, things)


@pytest.mark.slow
def test_the_largest_objects_cost_less_than_the_server_lets_an_expression_cost(
    actuators: Watched, things: Things
) -> None:
    """Past its budget an expression is refused, and a suspended job would stay so: many times what is usual passes."""
    many = {f"example.com/note-{number}": "x" * 50 for number in range(500)}
    large = things.manifest("large", {**ASKS, **UNTIL, **many}, suspend=True, pod=needing(THEIR_TERMS * 20))
    template = large["spec"]["template"]
    template["metadata"]["annotations"] |= many
    environment = [{"name": f"V{number}", "value": "x" * 50} for number in range(20)]
    template["spec"]["containers"] = [
        {"name": f"c{number}", "image": "none", "env": environment} for number in range(30)
    ]
    things.api.create(paths.jobs(things.namespace), large)
    wide = [{"key": f"example.com/t-{number}", "effect": "NoSchedule"} for number in range(100)]
    body = {"metadata": {"name": f"wide-{things.namespace}", "annotations": many}, "spec": {"taints": wide}}
    path = paths.nodes(things.api.create(paths.nodes(), body)["metadata"]["name"])

    try:
        allowed(
            actuators, job("large", {**places(*[{**term, **off(term)} for term in THEIR_TERMS * 20])}), things
        )
        allowed(actuators, job("large", GONE_ON), things)
        allowed(actuators, lambda _: ("PATCH", path, notes({f"{HOLD}x": "{}"})), things)
    finally:
        things.api.delete(path)


def test_the_server_finds_no_fault_in_any_expression(site: Site) -> None:
    """It checks them against the types of what they are for, a moment after they are made, and says so in their status."""
    policies = [item for item in site.made if item["kind"] == "ValidatingAdmissionPolicy"]
    assert len(policies) == sum(item["kind"] == "ValidatingAdmissionPolicy" for item in objects())

    def status(policy: Object) -> Object:
        found: Object = site.api.get(path_of(policy)).get("status") or {}
        return found

    for policy in policies:
        wait_until(lambda: "typeChecking" in status(policy))  # noqa: B023 - waited for here
        assert status(policy)["typeChecking"] == {}, policy["metadata"]["name"]


def test_each_bound_is_met_by_a_refusal_that_is_in_its_words() -> None:
    said = [case.words for case in (*OF_ACTUATORS, *OF_AGENTS, UNBOUND, OF_WATCHERS, OF_NOBODY)]
    assert all(said)
    written = [
        rule["message"]
        for item in objects()
        if item["kind"] == "ValidatingAdmissionPolicy"
        for rule in item["spec"]["validations"]
    ]

    assert [text for text in written if not any(words in text for words in said)] == []
