"""Injection as a pure change: what it adds, what it never touches, and each reason to stay out."""

import copy
from decimal import Decimal
from typing import Any

import pytest
from kubernetes.utils.quantity import parse_quantity

from actuators.injection.inject import inject
from actuators.injection.options import InjectionOptions, PodSecurity
from actuators.injection.parts import literal
from actuators.injection.reasons import Reason
from runtime.kubernetes import Object
from schemas.cluster import EPOCH, INJECTED, RUN
from supervisor.wrapper import WRAPPER
from tests.actuators.manifests import OPTIONS, container, manifest, with_devices

CONTAINERS = "spec__template__spec__containers"
ANNOTATIONS = "metadata__annotations"
HA = {"fault-tolerance/job-retry-num": "3"}


def injected(given: Object | None = None, options: InjectionOptions = OPTIONS) -> Object:
    injection = inject(given or manifest(), options)
    assert injection.untouched is None, injection.untouched
    return injection.manifest


def pod_of(job: Object) -> Object:
    found: Object = job["spec"]["template"]["spec"]
    return found


def environment_of(one: Object) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in one["env"]}


def test_the_command_is_wrapped_and_its_arguments_follow() -> None:
    main = pod_of(injected())["containers"][0]

    assert main["command"] == ["sh", "-c", literal(WRAPPER), "relight", "python", "train.py"]
    assert main["args"] == ["--lr", "0.1"]


def test_kubernetes_expansion_gives_back_the_wrapper_to_the_letter() -> None:
    """`$$` is a dollar sign to Kubernetes, and `$(NAME)` a variable; everything else stays."""
    expanded = literal("a $$ $(x) $! ${y}").replace("$$", "\0").replace("\0", "$")

    assert expanded == "a $$ $(x) $! ${y}"
    assert literal(WRAPPER).replace("$$", "$") == WRAPPER


def test_the_supervisor_finds_everything_it_reads() -> None:
    job = injected(manifest(spec__template__spec__terminationGracePeriodSeconds=90))
    seen = environment_of(pod_of(job)["containers"][0])

    assert seen["RELIGHT_RUN"] == {
        "fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}
    }
    assert seen["RELIGHT_POD_UID"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert seen["RELIGHT_HA"] == "on"
    assert seen["RELIGHT_POD_GRACE"] == "90"
    mounted = {mount["mountPath"] for mount in pod_of(job)["containers"][0]["volumeMounts"]}
    for variable in ("RELIGHT_SUPERVISOR", "RELIGHT_PODINFO", "RELIGHT_SOCKET"):
        assert seen[variable].rpartition("/")[0] in mounted
    assert seen["RELIGHT_VOLUME"] in mounted


def test_the_agents_socket_folder_is_made_where_there_is_no_agent_so_that_the_pod_starts() -> None:
    volumes = {volume["name"]: volume for volume in pod_of(injected())["volumes"]}

    assert volumes["relight-agent"]["hostPath"] == {"path": "/run/relight/agent", "type": "DirectoryOrCreate"}


def test_the_template_says_epoch_one_and_that_it_is_injected() -> None:
    annotations = injected()["spec"]["template"]["metadata"]["annotations"]

    assert annotations == {INJECTED: "1", EPOCH: "1"}


def test_a_rebuilt_object_carries_run_and_epoch_on() -> None:
    job = injected(manifest(metadata__annotations={**HA, RUN: "first-uid", EPOCH: "4"}))

    assert job["spec"]["template"]["metadata"]["annotations"] == {INJECTED: "1", EPOCH: "4", RUN: "first-uid"}
    seen = environment_of(pod_of(job)["containers"][0])
    assert seen["RELIGHT_RUN"] == {"fieldRef": {"fieldPath": f"metadata.annotations['{RUN}']"}}


@pytest.mark.parametrize(
    ("annotations", "own", "limit"),
    [
        ({"fault-tolerance/job-retry-num": "3"}, None, 9),
        ({"fault-tolerance/job-retry-num": "3"}, 0, 3),
        ({"fault-tolerance/job-retry-num": "3", "fault-tolerance/pod-retry-num": "2"}, 1, 6),
        ({"fault-tolerance/job-retry-num": "128"}, 0, 32),
    ],
)
def test_the_users_backoff_limit_stays_plus_at_most_the_retries(
    annotations: dict[str, str], own: int | None, limit: int
) -> None:
    job = injected(manifest(metadata__annotations=annotations, spec__backoffLimit=own))

    assert job["spec"]["backoffLimit"] == limit


def test_with_a_limit_per_index_that_of_the_job_is_left_alone() -> None:
    assert "backoffLimit" not in injected(manifest(spec__backoffLimitPerIndex=1))["spec"]


def test_disruptions_are_not_counted_as_failures() -> None:
    rules = injected()["spec"]["podFailurePolicy"]["rules"]

    assert rules == [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]


def test_the_users_own_failure_policy_goes_first_and_what_it_says_of_disruptions_stays() -> None:
    own = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    rules = injected(manifest(spec__podFailurePolicy={"rules": [own]}))["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules] == ["FailJob", "Ignore"]

    counted = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    policy = {"rules": [counted]}
    assert injected(manifest(spec__podFailurePolicy=policy))["spec"]["podFailurePolicy"] == policy


@pytest.mark.parametrize(("own", "kept"), [(None, None), (60, 3600), (86_400, 86_400), (0, 3600)])
def test_a_finished_job_is_kept_long_enough_to_be_seen_and_never_shorter(
    own: int | None, kept: int | None
) -> None:
    assert (
        injected(manifest(spec__ttlSecondsAfterFinished=own))["spec"].get("ttlSecondsAfterFinished") == kept
    )


def test_twice_is_as_once_and_what_was_given_stays() -> None:
    given = manifest()
    before = copy.deepcopy(given)

    once = inject(given, OPTIONS)
    twice = inject(once.manifest, OPTIONS)

    assert given == before
    assert twice.manifest == once.manifest
    assert twice.untouched is not None
    assert twice.untouched.reason is Reason.ALREADY_INJECTED
    assert inject(copy.deepcopy(before), OPTIONS).manifest == once.manifest, "the same bytes every time"


def test_other_containers_and_sidecars_stay_as_they_are() -> None:
    sidecar = {"name": "proxy", "image": "proxy", "restartPolicy": "Always", "command": ["proxy"]}
    prepare = {"name": "prepare", "image": "prepare", "command": ["prepare"]}
    given = manifest(
        **{CONTAINERS: [container("logger"), with_devices("trainer")]},
        spec__template__spec__initContainers=[sidecar, prepare],
    )

    pod = pod_of(injected(given))

    assert pod["containers"][0] == container("logger")
    assert pod["containers"][1]["command"][0] == "sh"
    assert [one["name"] for one in pod["initContainers"]] == ["relight-supervisor", "proxy", "prepare"]
    assert pod["initContainers"][1:] == [sidecar, prepare]


def test_the_named_container_wins_over_the_one_with_devices() -> None:
    given = manifest(
        **{CONTAINERS: [container("launcher"), with_devices("trainer")]},
        metadata__annotations={**HA, "relight.dev/container": "launcher"},
    )

    assert inject(given, OPTIONS).container == "launcher"


def test_the_granted_devices_are_told_to_the_pre_check() -> None:
    npus = with_devices("main", "huawei.com/Ascend910", "16")
    seen = environment_of(pod_of(injected(manifest(**{CONTAINERS: [npus]})))["containers"][0])

    assert seen["RELIGHT_NPUS"] == "16"
    assert "RELIGHT_GPUS" not in seen


@pytest.mark.parametrize(
    ("subdomain", "size", "peers"),
    [
        ("svc", 3, "train-0.svc,train-1.svc,train-2.svc"),
        (None, 3, None),
        ("svc", 1, None),
        ("svc", 300, None),
    ],
)
def test_peers_are_named_where_they_have_stable_names(
    subdomain: str | None, size: int, peers: str | None
) -> None:
    given = manifest(
        spec__template__spec__subdomain=subdomain, spec__completions=size, spec__parallelism=size
    )
    seen = environment_of(pod_of(injected(given))["containers"][0])

    assert seen.get("RELIGHT_PEERS") == peers


def test_what_the_team_set_itself_stays() -> None:
    own = container(env=[{"name": "RELIGHT_PEERS", "value": "mine"}, {"name": "A", "value": "b"}])
    main = pod_of(injected(manifest(**{CONTAINERS: [own]})))["containers"][0]

    assert environment_of(main)["A"] == "b"
    assert main["env"][:2] == own["env"]


COUNTED = ("cpu", "memory")
NOTHING = Decimal(0)
CHIPS = {"nvidia.com/gpu": 8}
ROOM = {"cpu": "4", "memory": "8Gi"}
ALIKE = {"requests": ROOM, "limits": ROOM}


@pytest.mark.parametrize(
    ("pod", "quality"),
    [
        ({"main": {}}, "BestEffort"),
        ({"main": {"limits": CHIPS}}, "BestEffort"),
        ({"main": {"requests": CHIPS, "limits": CHIPS}}, "BestEffort"),
        ({"main": {"limits": {**CHIPS, "ephemeral-storage": "9Gi"}, "requests": None}}, "BestEffort"),
        ({"main": {"limits": {**CHIPS, "cpu": "0", "memory": "0.0Gi"}, "requests": {"cpu": 0}}}, "BestEffort"),
        ({"main": {"limits": {**CHIPS, **ROOM}}}, "Guaranteed"),
        ({"main": ALIKE}, "Guaranteed"),
        ({"main": ALIKE, "init": ALIKE}, "Guaranteed"),
        ({"main": ALIKE, "init": {}}, "Burstable"),
        ({"main": {"limits": CHIPS}, "init": {"requests": {"cpu": "100m"}}}, "Burstable"),
        ({"main": {"requests": {"cpu": "0.5"}, "limits": CHIPS}}, "Burstable"),
        ({"main": {"requests": {"cpu": "2"}, "limits": ROOM}}, "Burstable"),
        ({"main": {"limits": {"memory": "8Gi"}}}, "Burstable"),
    ],
)  # fmt: skip
def test_the_quality_of_service_of_the_pod_stays(pod: dict[str, Object], quality: str) -> None:
    given = manifest(**{CONTAINERS: [container("main", resources=pod["main"])]})
    if "init" in pod:
        pod_of(given)["initContainers"] = [container("fetch", resources=pod["init"])]

    assert quality_of(pod_of(given)) == quality
    assert quality_of(pod_of(injected(given))) == quality


def quality_of(pod: Object) -> str:
    """As `ComputePodQOS` of Kubernetes has it: cpu and memory of all containers, amounts above zero; a limit alone is a request as well."""
    asked, limited = dict.fromkeys(COUNTED, NOTHING), dict.fromkeys(COUNTED, NOTHING)
    guaranteed = True
    for one in [*pod["containers"], *pod.get("initContainers", [])]:
        resources = one.get("resources") or {}
        for name in COUNTED:
            limit = amount_of(resources.get("limits"), name)
            asked[name] += amount_of(resources.get("requests"), name) or limit
            limited[name] += limit
            guaranteed = guaranteed and limit > NOTHING
    if not any([*asked.values(), *limited.values()]):
        return "BestEffort"
    return "Guaranteed" if guaranteed and asked == limited else "Burstable"


def amount_of(amounts: Object | None, name: str) -> Decimal:
    return Decimal(parse_quantity((amounts or {}).get(name, 0)))  # type: ignore[no-untyped-call]


def test_a_single_pod_need_not_be_indexed() -> None:
    given = manifest(spec__completionMode=None, spec__completions=None, spec__parallelism=None)

    assert inject(given, OPTIONS).untouched is None


def test_a_job_of_a_cron_job_is_injected() -> None:
    owner = {"kind": "CronJob", "name": "nightly", "controller": True}

    assert inject(manifest(metadata__ownerReferences=[owner]), OPTIONS).untouched is None


UNTOUCHED: list[tuple[Reason, Object]] = [
    (Reason.NOT_A_JOB, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    (Reason.NOT_A_JOB, {}),
    (Reason.NOT_A_JOB, manifest(apiVersion="batch/v2")),
    (Reason.ALREADY_INJECTED, manifest(spec__template__metadata__annotations={INJECTED: "1"})),
    (Reason.HA_OFF, manifest(metadata__annotations=None)),
    (Reason.HA_OFF, manifest(metadata__annotations={"fault-tolerance/job-retry-num": "0"})),
    (Reason.BAD_RETRY_NUM, manifest(metadata__annotations={"fault-tolerance/job-retry-num": "three"})),
    (Reason.BAD_RETRY_NUM, manifest(metadata__annotations={"fault-tolerance/job-retry-num": "129"})),
    (Reason.BAD_RETRY_NUM, manifest(metadata__annotations={"fault-tolerance/job-retry-num": "-1"})),
    (Reason.BAD_RETRY_NUM, manifest(metadata__annotations={"fault-tolerance/job-retry-num": ""})),
    (Reason.BAD_POD_RETRY_NUM, manifest(metadata__annotations={**HA, "fault-tolerance/pod-retry-num": "x"})),
    (
        Reason.OWNED,
        manifest(metadata__ownerReferences=[{"kind": "JobSet", "name": "set", "controller": True}]),
    ),
    (Reason.QUEUED, manifest(metadata__labels={"kueue.x-k8s.io/queue-name": "q"})),
    (Reason.MANAGED_ELSEWHERE, manifest(spec__managedBy="kueue.x-k8s.io/multikueue")),
    (Reason.NOT_INDEXED, manifest(spec__completionMode="NonIndexed")),
    (Reason.NOT_INDEXED, manifest(spec__completionMode=None, spec__completions=None)),
    (Reason.RESTART_POLICY, manifest(spec__template__spec__restartPolicy="OnFailure")),
    (Reason.RESTART_POLICY, manifest(spec__template__spec__restartPolicy=None)),
    (Reason.WINDOWS, manifest(spec__template__spec__os={"name": "windows"})),
    (
        Reason.NAMED_CONTAINER_MISSING,
        manifest(metadata__annotations={**HA, "relight.dev/container": "nobody"}),
    ),
    (Reason.NO_CONTAINER_CHOSEN, manifest(**{CONTAINERS: [container("a"), container("b")]})),
    (Reason.SEVERAL_HOLD_DEVICES, manifest(**{CONTAINERS: [with_devices("a"), with_devices("b")]})),
    (Reason.NO_COMMAND, manifest(**{CONTAINERS: [container(command=None)]})),
    (Reason.NO_COMMAND, manifest(**{CONTAINERS: [container(command=[])]})),
    (Reason.NAME_TAKEN, manifest(spec__template__spec__volumes=[{"name": "relight-bin", "emptyDir": {}}])),
    (Reason.NAME_TAKEN, manifest(**{CONTAINERS: [container("relight-supervisor")]})),
    (
        Reason.NAME_TAKEN,
        manifest(**{CONTAINERS: [container(volumeMounts=[{"name": "x", "mountPath": "/relight/"}])]}),
    ),
    (Reason.REPLACEMENT_POLICY, manifest(spec__podReplacementPolicy="TerminatingOrFailed")),
    (Reason.MALFORMED, manifest(spec__template=None)),
    (Reason.MALFORMED, manifest(spec__template__spec__containers=None)),
    (Reason.MALFORMED, manifest(spec__template__spec__containers=["main"])),
    (Reason.MALFORMED, manifest(metadata=None)),
]


@pytest.mark.parametrize(("reason", "given"), UNTOUCHED, ids=lambda value: getattr(value, "name", ""))
def test_untouched_because(reason: Reason, given: Object) -> None:
    before = copy.deepcopy(given)

    injection = inject(given, OPTIONS)

    assert injection.untouched is not None
    assert injection.untouched.reason is reason
    assert injection.manifest == before
    assert str(injection.untouched).startswith("untouched, because ")


@pytest.mark.parametrize("level", [PodSecurity.BASELINE, PodSecurity.RESTRICTED])
def test_untouched_because_the_namespace_would_refuse_every_pod(level: PodSecurity) -> None:
    injection = inject(manifest(), OPTIONS.model_copy(update={"pod_security": level}))

    assert injection.untouched is not None
    assert injection.untouched.reason is Reason.HOST_PATH_FORBIDDEN
    assert injection.manifest == manifest()


def test_every_reason_has_a_test() -> None:
    assert {reason for reason, _ in UNTOUCHED} | {Reason.HOST_PATH_FORBIDDEN} == set(Reason)
