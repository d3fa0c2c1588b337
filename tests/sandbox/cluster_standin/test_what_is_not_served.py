"""What the stand-in does not do it refuses by name, with 501: it never answers half."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.cluster_standin.conftest import Asker

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

PATHS = [
    ("GET", "/"),
    ("GET", "/api"),
    ("GET", "/apis"),
    ("GET", "/api/v1"),
    ("GET", "/api/v2/pods"),
    ("GET", "/apis/apps/v1/deployments"),
    ("GET", "/apis/apps/v1/namespaces/default/daemonsets"),
    ("GET", "/apis/batch/v1beta1/namespaces/default/jobs"),
    ("GET", "/apis/batch/v1/namespaces/default/cronjobs"),
    ("GET", "/apis/batch/v1/namespaces/default/pods"),
    ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
    ("GET", "/apis/events.k8s.io/v1/namespaces/default/events"),
    ("GET", "/api/v1/services"),
    ("GET", "/api/v1/namespaces/default/endpoints"),
    ("POST", "/api/v1/namespaces/default/resourcequotas"),
    ("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets"),
    ("POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
    ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
    ("GET", "/openapi/v2"),
    ("GET", "/openapi/v3"),
    ("GET", "/metrics"),
    ("POST", "/version"),
    ("GET", f"{PODS}/p/log"),
    ("GET", f"{PODS}/p/exec"),
    ("POST", f"{PODS}/p/exec"),
    ("GET", f"{PODS}/p/binding"),
    ("GET", f"{PODS}/p/eviction"),
    ("PATCH", f"{PODS}/p/ephemeralcontainers"),
    ("PATCH", f"{PODS}/p/resize"),
    ("GET", f"{PODS}/p/status/more"),
    ("DELETE", f"{PODS}/p/status"),
    ("POST", f"{PODS}/p"),
    ("POST", "/api/v1/pods"),
    ("GET", "/api/v1/pods/p"),
    ("DELETE", PODS),
    ("DELETE", "/api/v1/nodes"),
    ("PATCH", PODS),
    ("PUT", PODS),
    ("HEAD", f"{PODS}/p"),
    ("OPTIONS", PODS),
    ("GET", "/api/v1/namespaces/default/nodes"),
    ("GET", "/api/v1/nodes/n/proxy"),
    ("POST", "/api/v1/bindings"),
    ("PATCH", "/api/v1/namespaces/default/status"),
    ("GET", "/api/v1/watch/pods"),
    ("GET", "/api/v1/componentstatuses"),
    ("PATCH", f"{JOBS}/j/scale"),
    ("POST", f"{JOBS}/j/status"),
    ("PUT", "/api/v1/namespaces/default/events/e"),
    ("PATCH", "/api/v1/namespaces/default/configmaps/c/status"),
    ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l/status"),
]
OPTIONS = [
    ("GET", f"{PODS}/p?resourceVersion=5"),
    ("GET", f"{PODS}/p?pretty=true"),
    ("GET", f"{PODS}?resourceVersion=5"),
    ("GET", f"{PODS}?resourceVersion=0&resourceVersionMatch=NotOlderThan"),
    ("GET", f"{PODS}?fieldSelector=spec.schedulerName%3Dx"),
    ("GET", f"{PODS}?fieldSelector=status.podIP%3Dx"),
    ("GET", "/api/v1/nodes?fieldSelector=spec.providerID%3Dx"),
    ("GET", f"{PODS}?labelSelector=a%3E5"),
    ("GET", f"{PODS}?watch=true"),
    ("GET", f"{PODS}?watch=true&resourceVersion=0"),
    ("GET", f"{PODS}?watch=true&resourceVersion=1&sendInitialEvents=true"),
    ("GET", f"{PODS}?watch=true&resourceVersion=1&limit=5"),
    ("GET", f"{PODS}/p?watch=true&resourceVersion=1"),
    ("POST", f"{PODS}?fieldValidation=Strict"),
    ("PATCH", f"{PODS}/p?dryRun=All"),
    ("PATCH", f"{PODS}/p?force=true"),
    ("PUT", f"{PODS}/p?dryRun=All"),
    ("DELETE", f"{PODS}/p?gracePeriodSeconds=0"),
    ("DELETE", f"{PODS}/p?propagationPolicy=Orphan"),
]
NODE: dict[str, Any] = {"metadata": {"name": "n1"}}
POD = {"metadata": {"name": "p1"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
BODIES: list[tuple[str, str, Any, str]] = [
    ("PATCH", "/api/v1/nodes/n1", NODE, "application/apply-patch+yaml"),
    ("PATCH", "/api/v1/nodes/n1", NODE, "application/json"),
    ("POST", "/api/v1/nodes", NODE, "application/yaml"),
    ("POST", "/api/v1/nodes", NODE, "application/vnd.kubernetes.protobuf"),
    ("PUT", "/api/v1/nodes/n1", NODE, "application/yaml"),
    ("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": True}}, STRATEGIC),
    ("PATCH", "/api/v1/nodes/n1/status", {"status": {"volumesInUse": ["a"]}}, STRATEGIC),
    ("PATCH", "/api/v1/nodes/n1/status", {"$retainKeys": ["status"]}, STRATEGIC),
    ("PATCH", "/api/v1/nodes/n1/status", {"metadata": {"finalizers": ["a/b"]}}, STRATEGIC),
    (
        "PATCH",
        "/api/v1/nodes/n1/status",
        {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}},
        STRATEGIC,
    ),
    (
        "PATCH",
        "/api/v1/nodes/n1",
        [{"op": "move", "from": "/a", "path": "/b"}],
        "application/json-patch+json",
    ),
    (
        "PATCH",
        "/api/v1/nodes/n1",
        [{"op": "copy", "from": "/a", "path": "/b"}],
        "application/json-patch+json",
    ),
    ("DELETE", "/api/v1/nodes/n1", {"dryRun": ["All"]}, "application/json"),
    ("DELETE", "/api/v1/nodes/n1", {"orphanDependents": True}, "application/json"),
    (
        "POST",
        "/api/v1/namespaces",
        {"metadata": {"name": "tight", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}},
        "application/json",
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _there(ask: Asker) -> None:
    assert ask("POST", "/api/v1/nodes", NODE)[0] == 201


@pytest.mark.parametrize(("method", "path"), [*PATHS, *OPTIONS])
def test_what_is_not_served_is_501_and_named(ask: Asker, method: str, path: str) -> None:
    if method == "HEAD":  # has no body, by HTTP
        assert ask.head(path) == 501
        return
    body = POD if method in ("POST", "PUT", "PATCH") else None
    content = MERGE if method == "PATCH" else "application/json"
    code, status = ask(method, path, body, content=content)

    assert (code, status["reason"], status["kind"], status["status"]) == (
        501,
        "NotImplemented",
        "Status",
        "Failure",
    )
    named = path.partition("?")[0]
    assert f"{method} {named}" in status["message"] or "selector" in status["message"], status["message"]


@pytest.mark.parametrize(("method", "path", "body", "content"), BODIES)
def test_what_of_a_body_is_not_served_is_501_and_changes_nothing(
    ask: Asker, method: str, path: str, body: Any, content: str
) -> None:
    before = ask("GET", "/api/v1/nodes/n1")

    code, status = ask(method, path, body, content=content)

    assert (code, status["reason"]) == (501, "NotImplemented"), status
    assert len(status["message"]) > 20
    assert ask("GET", "/api/v1/nodes/n1") == before


@pytest.mark.parametrize("token", ["", "another"])
def test_who_has_no_token_is_not_let_in(ask: Asker, token: str) -> None:
    code, status = ask("GET", "/api/v1/nodes", token=token)

    assert (code, status["reason"]) == (401, "Unauthorized")


def test_health_is_asked_without_a_token_and_the_version_says_what_it_is(ask: Asker) -> None:
    assert "standin" in ask("GET", "/version")[1]["gitVersion"]
    assert ask.text("/readyz") == "ok"


def test_a_review_of_rights_says_that_nobody_is_limited(ask: Asker) -> None:
    asked = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "exec"}}}

    code, told = ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asked)

    assert code == 201
    assert told["status"]["allowed"]
    assert "limits nobody" in told["status"]["reason"]
