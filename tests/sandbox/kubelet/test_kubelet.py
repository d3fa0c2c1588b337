"""Pods on the real control plane, run by our kubelet: bound, run, reported, ended as Kubernetes has it."""

import socket
import struct
import sys
import time
from pathlib import Path

import psutil
import pytest

from runtime import paths
from runtime.kubernetes import Cluster, Object
from tests.real.kubernetes import NewKubelet, real_plane_only, stand_in_at_length
from tests.real.pods import CHIPS, FOREVER, OBEYS, SECONDS, Pods, container, until


@pytest.mark.slow
def test_an_indexed_job_is_scheduled_run_and_succeeds(
    api: Cluster, namespace: str, new_kubelet: NewKubelet
) -> None:
    nodes = [new_kubelet(devices={CHIPS: 8}, labels={"job": namespace}) for _ in range(3)]
    main = container(
        ["sh", "-c", 'echo "rank $JOB_COMPLETION_INDEX on $NODE with $ASCEND_VISIBLE_DEVICES"'],
        env=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        resources={"limits": {CHIPS: 8}},
    )
    template = {"restartPolicy": "Never", "nodeSelector": {"job": namespace}, "containers": [main]}
    job = {
        "metadata": {"name": "training"},
        "spec": {
            "completions": 3,
            "parallelism": 3,
            "completionMode": "Indexed",
            "template": {"spec": template},
        },
    }

    api.create(paths.jobs(namespace), job)
    until(lambda: api.get(paths.jobs(namespace, "training"))["status"].get("succeeded", 0), lambda n: n == 3)

    said = {
        node.log(where, name, "main").strip()
        for node in nodes
        for where, name in node.pods()
        if where == namespace
    }
    ranks = sorted(line.split()[1] for line in said)
    assert ranks == ["0", "1", "2"]
    assert {line.split()[3] for line in said} == {node.name for node in nodes}  # 8 chips each: a node each
    assert {line.split()[5] for line in said} == {"0,1,2,3,4,5,6,7"}


@pytest.mark.slow
def test_an_evicted_pod_is_a_disruption_to_its_job_and_no_failure(pods: Pods, tmp_path: Path) -> None:
    """What the Job controller makes of it hangs on the conditions that the kubelet leaves alone, and on the last phase it reports.

    It waits before it makes a pod anew, and forgets that once a pod of the Job succeeds: rank 1 is there for that.
    """
    enough = tmp_path / "enough"
    train = f"[ $JOB_COMPLETION_INDEX = 1 ] || exec sleep 600; until [ -e {enough} ]; do sleep 0.05; done"
    template = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": pods.node.name},
        "terminationGracePeriodSeconds": 1,
        "containers": [container(["sh", "-c", train])],
    }
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    spec = {
        "backoffLimit": 0,
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "podFailurePolicy": {"rules": [rule]},
        "template": {"spec": template},
    }
    pods.api.create(paths.jobs(pods.namespace), {"metadata": {"name": "training"}, "spec": spec})

    def of_rank_zero() -> list[str]:
        return [name for _, name in pods.node.pods() if name.startswith("training-0-")]

    first = until(of_rank_zero, lambda names: len(names) == 1)[0]
    pods.in_phase(first, "Running")

    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": first}}
    pods.api.create(paths.eviction(pods.namespace, first), eviction)

    until(lambda: pods.is_gone(first))
    enough.touch()
    second = until(lambda: [name for name in of_rank_zero() if name != first], lambda names: len(names) == 1)[
        0
    ]
    pods.in_phase(second, "Running")
    status = pods.api.get(paths.jobs(pods.namespace, "training"))["status"]
    assert status.get("failed", 0) == 0
    assert [each["type"] for each in status.get("conditions", [])] == []


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        (["true"], 0, "Completed"),
        (["sh", "-c", "exit 7"], 7, "Error"),
        (["/no/such/program"], 128, "StartError"),
    ],
)
def test_exit_codes_are_reported_as_they_were(pods: Pods, command: list[str], code: int, reason: str) -> None:
    pods.run("once", container(command))

    pods.in_phase("once", "Succeeded" if code == 0 else "Failed")

    ended = pods.status("once")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)


def test_a_signal_shows_in_the_exit_code(pods: Pods) -> None:
    pods.run("crashes", container(FOREVER))
    pods.in_phase("crashes", "Running")

    psutil.Process(pods.pid("crashes")).kill()
    pods.in_phase("crashes", "Failed")

    assert pods.status("crashes")["state"]["terminated"]["exitCode"] == 137
    assert pods.status("crashes")["state"]["terminated"]["reason"] == "Error"


def test_a_container_out_of_memory_is_told_apart_from_one_that_was_killed(pods: Pods) -> None:
    pods.run("greedy", container(FOREVER))
    pods.in_phase("greedy", "Running")

    pods.node.run_out_of_memory(pods.namespace, "greedy", "main")
    pods.in_phase("greedy", "Failed")

    ended = pods.status("greedy")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_process_that_obeys_sigterm_has_its_grace_and_then_the_pod_is_gone(pods: Pods) -> None:
    pods.run("obeys", container(OBEYS), terminationGracePeriodSeconds=30)
    until(lambda: pods.log("obeys"))
    began = time.monotonic()

    pods.api.delete(paths.pods(pods.namespace, "obeys"))
    until(lambda: pods.is_gone("obeys"))

    assert time.monotonic() - began < 20


@pytest.mark.slow
@stand_in_at_length("it looks at the kubelet")
def test_a_process_that_does_not_hear_sigterm_is_killed_after_the_grace_and_not_before(pods: Pods) -> None:
    pods.run("deaf", container(FOREVER))
    pods.in_phase("deaf", "Running")
    process = psutil.Process(pods.pid("deaf"))
    began = time.monotonic()

    pods.api.delete(paths.pods(pods.namespace, "deaf"), grace=2)
    assert "deletionTimestamp" in pods.get("deaf")["metadata"]
    process.wait(SECONDS)
    assert time.monotonic() - began >= 2
    until(lambda: pods.is_gone("deaf"))


def test_a_pod_deleted_by_force_leaves_no_process(pods: Pods) -> None:
    pods.run("forced", container(["sh", "-c", "sleep 600 & sleep 600"]))
    pods.in_phase("forced", "Running")
    first = psutil.Process(pods.pid("forced"))
    until(lambda: len(first.children()), lambda n: n == 2)
    every = [first, *first.children()]

    pods.api.delete(paths.pods(pods.namespace, "forced"), grace=0)
    assert pods.is_gone("forced")

    _, alive = psutil.wait_procs(every, timeout=SECONDS)
    assert alive == []
    until(pods.node.pods, lambda here: here == [])


@pytest.mark.parametrize(
    ("policy", "code", "runs_again"),
    [("Always", 0, True), ("OnFailure", 1, True), ("OnFailure", 0, False), ("Never", 1, False)],
)
def test_a_container_runs_again_exactly_when_its_policy_says_so(
    pods: Pods, policy: str, code: int, runs_again: bool
) -> None:
    pods.run("again", container(["sh", "-c", f"exit {code}"]), restartPolicy=policy)

    if runs_again:
        until(lambda: pods.status("again").get("restartCount", 0), lambda count: count >= 2)
        assert pods.status("again")["lastState"]["terminated"]["exitCode"] == code
        assert pods.phase("again") == "Running"
    else:
        pods.in_phase("again", "Succeeded" if code == 0 else "Failed")
        time.sleep(0.3)
        assert pods.status("again")["restartCount"] == 0


def test_init_containers_run_first_and_one_after_another(pods: Pods) -> None:
    volume: Object = {"volumeMounts": [{"name": "work", "mountPath": "/relight/work"}]}
    pods.run(
        "ordered",
        container(["sh", "-c", "cat /relight/work/order"], **volume),
        initContainers=[
            container(["sh", "-c", "sleep 0.2; echo one >> /relight/work/order"], "one", **volume),
            container(["sh", "-c", "echo two >> /relight/work/order"], "two", **volume),
        ],
        volumes=[{"name": "work", "emptyDir": {}}],
    )

    pods.in_phase("ordered", "Succeeded")

    assert pods.log("ordered") == "one\ntwo\n"
    assert not Path("/relight").exists()


def test_a_sidecar_starts_before_and_ends_after_the_others_and_does_not_keep_the_pod(pods: Pods) -> None:
    shared: Object = {"volumeMounts": [{"name": "work", "mountPath": "/work-of-both"}]}
    script = "trap 'echo down; exit 0' TERM; touch /work-of-both/up; while true; do sleep 0.05; done"
    sidecar = container(["sh", "-c", script], "side", restartPolicy="Always", **shared)
    main = container(["sh", "-c", "until [ -e /work-of-both/up ]; do sleep 0.02; done; exit 4"], **shared)
    pods.run("accompanied", main, initContainers=[sidecar], volumes=[{"name": "work", "emptyDir": {}}])

    status = pods.in_phase("accompanied", "Failed")["status"]

    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
    assert pods.node.log(pods.namespace, "accompanied", "side") == "down\n"
    assert status["initContainerStatuses"][0]["restartCount"] == 0


def test_a_failed_init_container_fails_a_pod_that_is_never_restarted(pods: Pods) -> None:
    pods.run("unprepared", container(["true"]), initContainers=[container(["false"], "prepare")])

    status = pods.in_phase("unprepared", "Failed")["status"]

    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert "waiting" in status["containerStatuses"][0]["state"]


def test_an_empty_dir_outlives_a_container_and_its_layer_does_not(pods: Pods) -> None:
    script = "cat /kept/runs /layer-runs; echo run >> /kept/runs; echo run >> /layer-runs; exit 1"
    pods.run(
        "counts",
        container(["sh", "-c", script], volumeMounts=[{"name": "kept", "mountPath": "/kept"}]),
        restartPolicy="OnFailure",
        volumes=[{"name": "kept", "emptyDir": {}}],
    )

    until(lambda: pods.log("counts", 2).count("run\n"), lambda count: count == 2)

    assert "/layer-runs: No such file" in pods.log("counts", 2)


def test_downward_api_files_follow_annotations(pods: Pods) -> None:
    items = [
        {"path": "said", "fieldRef": {"fieldPath": "metadata.annotations['say']"}},
        {"path": "uid", "fieldRef": {"fieldPath": "metadata.uid"}},
    ]
    script = "cat /etc/told/uid; echo; while true; do cat /etc/told/said; echo; sleep 0.05; done"
    pods.run(
        "listens",
        container(["sh", "-c", script], volumeMounts=[{"name": "told", "mountPath": "/etc/told"}]),
        volumes=[{"name": "told", "downwardAPI": {"items": items}}],
    )
    until(lambda: "hello" in pods.log("listens"))
    assert pods.log("listens").splitlines()[0] == pods.get("listens")["metadata"]["uid"]

    pods.api.patch(paths.pods(pods.namespace, "listens"), {"metadata": {"annotations": {"say": "goodbye"}}})

    until(lambda: "goodbye" in pods.log("listens"))
    assert set(pods.log("listens").splitlines()[1:]) <= {"hello", "goodbye", ""}


@real_plane_only("a client in a pod speaks TLS, with a token of its account")
def test_a_pods_own_client_reaches_the_api_with_its_service_account(pods: Pods) -> None:
    script = (
        "import json, os, ssl, urllib.request as web\n"
        "at = '/var/run/secrets/kubernetes.io/serviceaccount/'\n"
        "url = f\"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}\"\n"
        "review = {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'SelfSubjectReview'}\n"
        "asked = web.Request(url + '/apis/authentication.k8s.io/v1/selfsubjectreviews', json.dumps(review).encode(),\n"
        "    {'Authorization': 'Bearer ' + open(at + 'token').read(), 'Content-Type': 'application/json'})\n"
        "opener = web.build_opener(web.ProxyHandler({}),\n"
        "    web.HTTPSHandler(context=ssl.create_default_context(cafile=at + 'ca.crt')))\n"
        "print(json.load(opener.open(asked))['status']['userInfo']['username'])\n"
    )
    pods.run("client", container([sys.executable, "-c", script]))

    until(lambda: pods.phase("client"), lambda phase: phase in ("Succeeded", "Failed"))

    assert pods.log("client").strip() == f"system:serviceaccount:{pods.namespace}:default"


def test_every_process_of_a_pod_is_known_as_its_own(pods: Pods) -> None:
    pods.run("known", container(["sh", "-c", "sleep 600 & sleep 600"]))
    pods.in_phase("known", "Running")
    first = psutil.Process(pods.pid("known"))
    until(lambda: len(first.children()), lambda n: n == 2)
    uid = pods.get("known")["metadata"]["uid"]

    found = [pods.node.pod_of(process.pid) for process in (first, *first.children())]

    assert [(each.uid, each.name, each.container) for each in found if each] == [(uid, "known", "main")] * 3
    assert pods.node.pod_of(psutil.Process().pid) is None


def test_who_speaks_on_a_socket_of_the_node_is_known_by_what_the_kernel_says(
    pods: Pods, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "agent"))
        server.listen()
        server.settimeout(SECONDS)
        script = (
            "import socket, time\n"
            "line = socket.socket(socket.AF_UNIX)\n"
            "line.connect('/var/run/relight/agent')\n"
            "line.sendall(b'hello')\n"
            "time.sleep(600)\n"
        )
        main = container(
            [sys.executable, "-c", script], volumeMounts=[{"name": "node", "mountPath": "/var/run/relight"}]
        )
        pods.run("speaks", main, volumes=[{"name": "node", "hostPath": {"path": str(tmp_path)}}])

        line, _ = server.accept()
        with line:
            pid, _, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            speaker = pods.node.pod_of(pid)

    assert speaker is not None
    assert (speaker.uid, speaker.name) == (pods.get("speaks")["metadata"]["uid"], "speaks")


def test_a_pod_says_where_it_can_be_reached_and_no_two_share_an_address(pods: Pods) -> None:
    for name in ("a", "b"):
        pods.run(name, container(FOREVER))

    addresses = [pods.in_phase(name, "Running")["status"]["podIP"] for name in ("a", "b")]

    assert len({*addresses, pods.node.address}) == 3
    assert all(address.startswith("127.") for address in addresses)


def test_a_pod_that_cannot_be_made_says_why_and_starts_when_it_can(pods: Pods) -> None:
    reference = {"configMapKeyRef": {"name": "settings", "key": "colour"}}
    pods.run(
        "waits", container(["sh", "-c", "echo $COLOUR"], env=[{"name": "COLOUR", "valueFrom": reference}])
    )
    until(lambda: "settings" in pods.status("waits").get("state", {}).get("waiting", {}).get("message", ""))
    assert pods.phase("waits") == "Pending"

    pods.api.create(
        f"{paths.namespaces(pods.namespace)}/configmaps",
        {"metadata": {"name": "settings"}, "data": {"colour": "blue"}},
    )

    pods.in_phase("waits", "Succeeded")
    assert pods.log("waits") == "blue\n"
