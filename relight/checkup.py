"""What `relight doctor` looks at, one function a check. Each reads only, and none can fail the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from runtime.errors import ProcessError
from runtime.settings import Settings, read_settings
from schemas.wording import counted

CLOCK_LIMIT: Final = 1.0
"""Seconds a node's clock may be off before the doctor says so; windows and RTO run on node clocks."""


class Verdict(StrEnum):
    """How a check ended."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"
    """There is nothing to look at in this environment, or no way to know; the detail says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    check: str
    verdict: Verdict
    detail: str


ALL_THERE: Final = "all there, with the number of partitions that keys need"
NOT_KNOWN: Final = "not known here, because"
STAND_IN_BROKER: Final = "the broker is librdkafka's in-process one, which"
STAND_IN_CLUSTER: Final = "relight-standin"
"""How the sandbox's cluster says in its version that it is no Kubernetes."""

Check = Callable[[], Iterator[Finding]]


def topics() -> Iterator[Finding]:
    """Topics are there; their policies (how long kept, whose clock) are the catalogue's; keys go by murmur2."""
    from runtime.kafka import KafkaClients
    from runtime.topics import TopicAdministration

    settings = read_settings(Settings)
    administration = TopicAdministration(settings, KafkaClients(settings.kafka, "relight-doctor"))
    if administration.is_stand_in():
        yield from _compared("topics", administration.sizes(), ALL_THERE)
        yield Finding(
            "policies", Verdict.SKIPPED, f"{NOT_KNOWN} {STAND_IN_BROKER} keeps no settings of topics"
        )
        yield Finding(
            "partitioner",
            Verdict.SKIPPED,
            f"{NOT_KNOWN} {STAND_IN_BROKER} cannot remove the topic to try it on",
        )
        return
    differences = administration.differences()
    sizes = [one for one in differences if one.setting in {"the topic", "number of partitions"}]
    policies = [one for one in differences if one not in sizes]
    yield from _compared("topics", sizes, ALL_THERE)
    yield from _compared(
        "policies", policies, "kept as long, and stamped by the clock, that the catalogue wants"
    )
    yield from _compared("partitioner", administration.probe_partitioner(), "keys go by murmur2")


def _compared(check: str, differences: Sequence[object], well: str) -> Iterator[Finding]:
    for difference in differences:
        yield Finding(check, Verdict.BAD, str(difference))
    if not differences:
        yield Finding(check, Verdict.GOOD, well)


def versions() -> Iterator[Finding]:
    """Libraries the stage leans on are at the versions it was proven with."""
    from streams.pins import check_pins

    check_pins()
    yield Finding("versions", Verdict.GOOD, "libraries are at the versions this release was proven with")


def store() -> Iterator[Finding]:
    """The store answers its reader, and its schema is this release's."""
    from audit.migrate import read_migrations
    from audit.settings import AuditSettings
    from audit.store import Store

    settings = read_settings(AuditSettings).store
    known = max(migration.number for migration in read_migrations())
    with Store(settings, settings.reader) as asked:
        statement = f"SELECT max(number) FROM {settings.database}.schema_migrations FINAL"  # noqa: S608 - a checked name
        applied = int(asked.rows(statement)[0][0])
        if applied == known:
            version = asked.rows("SELECT version()")[0][0]
            yield Finding("store", Verdict.GOOD, f"ClickHouse {version}; schema is at migration {applied}")
        else:
            yield Finding(
                "store",
                Verdict.BAD,
                f"schema is at migration {applied}, this release wants {known}: `relight audit migrate`",
            )
        yield from _clocks(asked)


def _clocks(asked: object) -> Iterator[Finding]:
    from audit.store import Store

    if not isinstance(asked, Store):
        return
    rows = asked.rows(
        f"SELECT node, argMax(clock_offset, arrived) AS off FROM {asked.database}.signals "  # noqa: S608 - a checked name
        "WHERE kind = 'heartbeat' AND arrived > now64() - INTERVAL 1 HOUR AND isFinite(clock_offset) GROUP BY node"
    )
    if not rows:
        why = "no node told within an hour how far its clock is off the broker's; a broker without one has none to compare with"
        yield Finding("clocks", Verdict.SKIPPED, f"{NOT_KNOWN} {why}")
        return
    wrong = [(node, off) for node, off in rows if abs(off) > CLOCK_LIMIT]
    for node, off in wrong:
        yield Finding("clocks", Verdict.BAD, f"{node} is {off:+.3f} s off the broker's clock")
    if not wrong:
        yield Finding(
            "clocks",
            Verdict.GOOD,
            f"{counted(len(rows), 'node')} within {CLOCK_LIMIT:g} s of the broker's clock",
        )


RIGHTS: Final = (
    ("get", "batch", "jobs", ""),
    ("patch", "batch", "jobs", ""),
    ("list", "", "pods", ""),
    ("patch", "", "pods", ""),
    ("patch", "", "nodes", ""),
    ("create", "", "events", ""),
)
"""What actuators need at least: verb, group, resource, subresource."""
FORBIDDEN: Final = (("create", "", "pods", "exec"), ("get", "", "secrets", ""))
"""What no part of relight should have (design 11)."""
_ACTUATORS: Final = re.compile(r"system:serviceaccount:(?P<namespace>[^:]+):actuators")
_BOUND: Final = "relight-actuators-configmaps"
"""Policy of `deploy/kubernetes/bounds.yaml` that is tried; they are applied together."""


def rights() -> Iterator[Finding]:
    """This identity may do what actuators must, and not what they must not."""
    from actuators.settings import ActuatorSettings
    from runtime.kubernetes import Cluster

    cluster = Cluster(read_settings(ActuatorSettings).kubernetes, "doctor")
    if STAND_IN_CLUSTER in str(cluster.get("/version").get("gitVersion")):
        why = "the cluster is the sandbox's stand-in, which lets everybody do everything"
        yield Finding("rights", Verdict.SKIPPED, f"{NOT_KNOWN} {why}")
        return
    missing = [_named(right) for right in RIGHTS if not _allowed(cluster.create, right)]
    too_much = [_named(right) for right in FORBIDDEN if _allowed(cluster.create, right)]
    for right in missing:
        yield Finding("rights", Verdict.BAD, f"may not {right}")
    for right in too_much:
        yield Finding("rights", Verdict.BAD, f"may {right}, which relight never needs")
    if not missing and not too_much:
        yield Finding("rights", Verdict.GOOD, "what actuators need, and neither exec nor secrets")
    yield from bounds(cluster.create)


def bounds(create: Callable[..., dict[str, Any]]) -> Iterator[Finding]:
    """The server refuses relight what it does not need, whatever RBAC grants it: seen by a dry run of something that only a bound refuses."""
    from runtime import paths
    from runtime.errors import ApiForbidden

    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    who = str(answer["status"]["userInfo"]["username"])
    account = _ACTUATORS.fullmatch(who)
    if account is None:
        why = f"bounds hold for relight's own accounts, and {who} is none of the actuators'; ask with their token"
        yield Finding("bounds", Verdict.SKIPPED, f"{NOT_KNOWN} {why}")
        return
    unmarked = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "relight-doctor"}}
    try:
        create(paths.config_maps(account["namespace"]), unmarked, dryRun="All")
    except ApiForbidden as error:
        in_force = _BOUND in str(error)
        told = (
            "in force" if in_force else f"{NOT_KNOWN} ConfigMaps are refused before a bound is asked: {error}"
        )
        yield Finding("bounds", Verdict.GOOD if in_force else Verdict.SKIPPED, told)
    else:
        wrong = f"{who} may write any ConfigMap; right would be deploy/kubernetes/bounds.yaml applied (Kubernetes 1.30), with this account in it"
        yield Finding("bounds", Verdict.BAD, wrong)


def _named(right: tuple[str, str, str, str]) -> str:
    verb, group, resource, sub = right
    return f"{verb} {resource}{'.' + group if group else ''}{'/' + sub if sub else ''}"


def _allowed(create: Callable[..., dict[str, object]], right: tuple[str, str, str, str]) -> bool:
    verb, group, resource, sub = right
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "subresource": sub}
        },
    }
    answer = create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asked)
    status = answer.get("status")
    return isinstance(status, dict) and bool(status.get("allowed"))


CHECKS: Final[dict[str, Check]] = {"versions": versions, "topics": topics, "store": store, "rights": rights}


def look(chosen: tuple[str, ...] = ()) -> list[Finding]:
    """Findings of all checks, or of those that were chosen; a check that breaks is a bad finding, not the end."""
    from audit.errors import AuditError
    from schemas.errors import SchemaError

    found: list[Finding] = []
    for name, check in CHECKS.items():
        if chosen and name not in chosen:
            continue
        try:
            found += check()
        except (ProcessError, AuditError, SchemaError) as error:
            found.append(Finding(name, Verdict.BAD, str(error)))
    return found
