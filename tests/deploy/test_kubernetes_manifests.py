"""deploy/kubernetes, as far as it can be read: commands, settings, accounts, and what no container of ours may do."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from click.testing import CliRunner

from actuators.settings import IsolationSettings
from audit.settings import AuditSettings
from relight.cli import main
from relight.commands.config import PROCESSES, _kind
from relight.settings_shown import shown
from schemas.cluster import ISOLATED
from tests.deploy.manifests import Object, container_of, granted, objects, template_of, workloads

ALL = list(objects())
WORKLOADS = workloads()
ids = [f"{item['kind']}-{item['metadata']['name']}" for item in WORKLOADS]
each_workload = pytest.mark.parametrize("workload", WORKLOADS, ids=ids)
BOUNDS = [item for item in ALL if item["kind"] == "ValidatingAdmissionPolicy"]
each_bound = pytest.mark.parametrize("bound", BOUNDS, ids=[item["metadata"]["name"] for item in BOUNDS])
ACCOUNTS = [item["metadata"]["name"] for item in ALL if item["kind"] == "ServiceAccount"]


@pytest.fixture(scope="module")
def known() -> set[str]:
    environment = {"RELIGHT_CLUSTER": "lab", "RELIGHT_NODE__NAME": "n", "RELIGHT_NODE__UID": "u"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return {setting.variable for process in PROCESSES for setting in shown(_kind(process)())}


def variables(container: Object) -> dict[str, Any]:
    maps = {item["metadata"]["name"]: item["data"] for item in ALL if item["kind"] == "ConfigMap"}
    found: dict[str, Any] = {}
    for source in container["envFrom"]:
        found |= maps[source["configMapRef"]["name"]]
    return found | {one["name"]: one.get("value") for one in container.get("env", [])}


@each_workload
def test_every_command_exists(workload: Object) -> None:
    container = container_of(workload)
    words = [container["args"]]
    if "command" in container:
        assert container["command"] == ["/bin/sh", "-ec"]
        words = [shlex.split(part)[1:] for part in container["args"][0].split("&&")]

    for one in words:
        result = CliRunner().invoke(main, [*one, "--help"])
        assert result.exit_code == 0, result.output
        assert "Usage:" in result.output


@each_workload
def test_every_setting_exists(workload: Object, known: set[str]) -> None:
    given = set(variables(container_of(workload)))

    assert given <= known, f"no such settings: {given - known}"


@each_workload
def test_it_begins_with_what_it_must_be_told(workload: Object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the manifest are ones the process starts with."""
    name = container_of(workload)["args"][0]
    process = name if name in PROCESSES else None
    for variable, value in variables(container_of(workload)).items():
        monkeypatch.setenv(variable, "node-1" if value is None else value)

    settings = (AuditSettings if process is None else _kind(process))()

    assert settings.cluster == "lab"
    assert settings.observe.port == 9464


@each_workload
def test_only_the_node_agent_is_root_and_nobody_else_keeps_a_right_of_the_kernel(workload: Object) -> None:
    pod, container = template_of(workload)["spec"], container_of(workload)
    security = container["securityContext"]

    assert security["readOnlyRootFilesystem"] is True
    if workload["metadata"]["name"] == "node-agent":
        assert pod["hostPID"] is True
        return
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(pod)
    assert all("hostPath" not in volume for volume in pod["volumes"])


@each_workload
def test_a_token_is_mounted_only_where_there_are_rights(workload: Object) -> None:
    pod = template_of(workload)["spec"]

    assert pod["serviceAccountName"] in ACCOUNTS
    assert pod["automountServiceAccountToken"] == bool(granted(pod["serviceAccountName"]))


@each_workload
def test_selectors_find_their_own_pods_and_nobody_elses(workload: Object) -> None:
    labels = template_of(workload)["metadata"]["labels"]

    assert labels["app.kubernetes.io/component"] == workload["metadata"]["name"]
    if workload["kind"] in {"Deployment", "DaemonSet"}:
        assert workload["spec"]["selector"]["matchLabels"] == labels


@pytest.mark.parametrize("account", ACCOUNTS)
def test_nobody_reads_secrets_enters_pods_makes_pods_or_hands_out_rights(account: str) -> None:
    resources = {resource for _, resource, _ in granted(account)}

    assert not {"secrets", "pods/exec", "pods/attach", "serviceaccounts/token", "*"} & resources
    assert ("create", "pods", "cluster") not in granted(account)
    assert not {verb for verb, _, _ in granted(account)} & {"*", "escalate", "bind", "impersonate"}


def test_who_only_speaks_to_kafka_or_the_store_has_no_right_at_all() -> None:
    assert {account for account in ACCOUNTS if not granted(account)} == {
        "router",
        "recovery",
        "audit",
        "setup",
    }


def test_actuators_only_watch_until_told_otherwise() -> None:
    (actuators,) = [item for item in WORKLOADS if item["metadata"]["name"] == "actuators"]

    assert variables(container_of(actuators))["RELIGHT_ACTING__DRY_RUN"] == "true"


def test_the_node_agent_stays_on_a_node_that_is_isolated() -> None:
    (agent,) = [item for item in WORKLOADS if item["kind"] == "DaemonSet"]

    assert agent["spec"]["template"]["spec"]["tolerations"] == [{"operator": "Exists"}], ISOLATED


def test_every_part_a_pipeline_needs_is_there() -> None:
    assert {
        item["metadata"]["name"] for item in WORKLOADS if item["kind"] in {"Deployment", "DaemonSet"}
    } == set(PROCESSES)


@each_bound
def test_a_bound_holds_for_accounts_of_relight_s_and_for_nobody_else(bound: Object) -> None:
    (condition,) = bound["spec"]["matchConditions"]
    named = set(re.findall(r'"system:serviceaccount:relight:([^"]+)"', condition["expression"]))

    assert named
    assert named <= {account for account in ACCOUNTS if granted(account)}
    # An expression that raised would, by failurePolicy, refuse everybody's writes.
    assert condition["expression"].startswith('request.userInfo.?username.orValue("") ')
    assert bound["spec"]["failurePolicy"] == "Fail"


@each_bound
def test_a_bound_is_bound_and_refuses_in_plain_words(bound: Object) -> None:
    name = bound["metadata"]["name"]
    (binding,) = [
        item
        for item in ALL
        if item["kind"] == "ValidatingAdmissionPolicyBinding" and item["spec"]["policyName"] == name
    ]

    assert binding["spec"] == {"policyName": name, "validationActions": ["Deny", "Audit"]}
    for rule in bound["spec"]["validations"]:
        assert re.match(
            "(an actuator|a node agent|an agent's token|a watcher|no part of relight) ", rule["message"]
        )
        assert rule["reason"] == "Forbidden", "what is invalid is tried otherwise by resume_job"


def test_what_the_guards_protect_the_bounds_protect() -> None:
    text = json.dumps(BOUNDS)

    assert [label for label in IsolationSettings().protected_labels if label not in text] == []


def test_each_part_with_a_token_has_a_bound_and_each_kind_it_writes_is_in_one() -> None:
    writes = {"create", "update", "patch", "delete"}
    bounded = {
        (account, resource)
        for bound in BOUNDS
        for account in re.findall(r"system:serviceaccount:relight:([a-z-]+)", json.dumps(bound["spec"]))
        for rule in bound["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
    }
    written = {
        (account, resource)
        for account in ACCOUNTS
        for verb, resource, _ in granted(account)
        if verb in writes and resource != "events"  # said of objects, and nothing acts on them
    }

    assert written - bounded == set()
