"""`relight doctor`: what is wrong is named, what cannot be reached does not hide the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from audit.migrate import migrate
from audit.settings import StoreSettings
from audit.store import Store
from relight import checkup
from relight.checkup import Finding, Verdict
from relight.cli import main
from sandbox.cluster_standin import ClusterStandIn
from sandbox.embedded_broker import EmbeddedBroker
from schemas.ids import node_subject
from schemas.signals import Heartbeat, NodeRef
from schemas.topics import SIGNALS
from tests.audit.story import START, Story, put


def run(*arguments: str) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    result = CliRunner().invoke(main, ["doctor", *arguments, "-o", "json"])
    found: dict[str, list[tuple[str, str]]] = {}
    for row in map(json.loads, result.output.splitlines()):
        found.setdefault(row["check"], []).append((row["verdict"], row["detail"]))
    return result.exit_code, found


def test_versions_are_those_the_stage_was_proven_with() -> None:
    code, found = run("--only", "versions")

    assert (code, found["versions"][0][0]) == (0, "good")


def test_a_check_that_cannot_reach_its_part_is_bad_and_the_others_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RELIGHT_STORE__PORT", "1")

    code, found = run("--only", "store", "--only", "versions")

    assert code == 1
    assert found["store"][0][0] == "bad"
    assert found["versions"][0][0] == "good"


@pytest.mark.slow
def test_a_schema_that_is_not_this_release_s_is_bad(
    store_settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELIGHT_STORE__PORT", str(store_settings.port))
    monkeypatch.setenv("RELIGHT_STORE__DATABASE", store_settings.database)
    with Store(store_settings, store_settings.migrator) as store:
        migrate(store, lambda: datetime.now(UTC))
        assert run("--only", "store")[1]["store"][0][0] == "good"

        store.command(f"TRUNCATE TABLE {store_settings.database}.schema_migrations")
        code, found = run("--only", "store")

    assert code == 1
    assert "relight audit migrate" in found["store"][0][1]


@pytest.mark.slow
def test_a_clock_that_is_off_is_named(store_settings: StoreSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_STORE__PORT", str(store_settings.port))
    monkeypatch.setenv("RELIGHT_STORE__DATABASE", store_settings.database)
    story = Story()
    now = (datetime.now(UTC) - START).total_seconds()
    for name, offset in (("good", 0.01), ("late", -7.5)):
        beat = Heartbeat(
            node=NodeRef(uid=name, name=name),
            boot_id="b",
            started_at=datetime.now(UTC) - timedelta(hours=1),
            clock_offset_seconds=offset,
        )
        story.tell(SIGNALS, node_subject(name), beat, now)
    with Store(store_settings, store_settings.migrator) as store:
        migrate(store, lambda: datetime.now(UTC))
        put(store, story.records)

    code, found = run("--only", "store")

    assert code == 1
    assert found["clocks"] == [("bad", "late is -7.500 s off the broker's clock")]


@pytest.mark.slow
def test_of_the_sandbox_s_parts_nothing_is_bad_and_what_cannot_be_known_there_says_why(
    tmp_path: Path,
    shared_stand_in: ClusterStandIn,
    store_settings: StoreSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for name, value in {
            **broker.environment,
            "RELIGHT_KAFKA__BOOTSTRAP": broker.bootstrap,
            "RELIGHT_KUBERNETES__KUBECONFIG": str(shared_stand_in.kubeconfig),
            "RELIGHT_STORE__PORT": str(store_settings.port),
            "RELIGHT_STORE__DATABASE": store_settings.database,
        }.items():
            monkeypatch.setenv(name, value)
        with Store(store_settings, store_settings.migrator) as store:
            migrate(store, lambda: datetime.now(UTC))

        code, found = run()
        monkeypatch.setenv("RELIGHT_TOPICS__PARTITIONS", "8")
        other_size = run("--only", "topics")[1]["topics"]

    verdicts = {check: told[0][0] for check, told in found.items() if len(told) == 1}
    skipped = ("policies", "partitioner", "clocks", "rights")
    assert verdicts == {
        **dict.fromkeys(("versions", "topics", "store"), "good"),
        **dict.fromkeys(skipped, "skipped"),
    }
    assert code == 0
    for check in skipped:
        assert found[check][0][1].startswith("not known here, because")
    assert {verdict for verdict, _ in other_size} == {"bad"}, "what it can tell it is asked"
    assert other_size[0][1].endswith("number of partitions is 4; right would be 8")


ADMIN = "kubernetes-admin"
ACTUATORS = "system:serviceaccount:relight:actuators"


def reviewing(allowed: Callable[[str, str], bool], *, who: str = ADMIN) -> Any:
    def create(path: str, body: dict[str, Any], **query: str) -> dict[str, Any]:
        if path.endswith("selfsubjectreviews"):
            return {"status": {"userInfo": {"username": who}}}
        if path.endswith("configmaps"):
            assert query == {"dryRun": "All"}
            return body
        assert path.endswith("selfsubjectaccessreviews")
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": allowed(asked["verb"], asked["subresource"] or asked["resource"])}}

    return create


@pytest.mark.parametrize(
    ("allowed", "says"),
    [
        (lambda _verb, what: what not in {"exec", "secrets"}, None),
        (
            lambda verb, what: what not in {"exec", "secrets"} and (verb, what) != ("patch", "nodes"),
            "may not patch nodes",
        ),
        (lambda _verb, _what: True, "may create pods/exec, which relight never needs"),
    ],
)
def test_rights_that_are_missing_or_too_many_are_named(
    allowed: Callable[[str, str], bool], says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scripted:
        def __init__(self, *_: object) -> None:
            self.create = reviewing(allowed)

        def get(self, _path: str) -> dict[str, Any]:
            return {"gitVersion": "v1.36.3"}

    monkeypatch.setattr("runtime.kubernetes.Cluster", Scripted)
    found = [one for one in checkup.rights() if one.check == "rights"]

    if says is None:
        assert [one.verdict for one in found] == [Verdict.GOOD]
    else:
        assert Finding("rights", Verdict.BAD, says) in found


def test_a_cluster_without_bounds_is_bad_for_the_account_they_hold_for_and_others_cannot_tell() -> None:
    (bad,) = checkup.bounds(reviewing(lambda _verb, _what: True, who=ACTUATORS))
    (not_known,) = checkup.bounds(reviewing(lambda _verb, _what: True, who=ADMIN))

    assert (bad.check, bad.verdict) == ("bounds", Verdict.BAD)
    assert "bounds.yaml" in bad.detail
    assert not_known.verdict is Verdict.SKIPPED
    assert not_known.detail.startswith("not known here, because")
    assert ADMIN in not_known.detail
