"""docker-compose.yml and Dockerfile, as far as they can be checked without an engine: commands, settings, names, files, users."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import requires
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator, ValidationError
from packaging.requirements import Requirement

from relight.cli import main
from relight.commands.config import PROCESSES, _kind
from relight.settings_shown import shown
from tests.deploy.compose_rules import RULES
from tests.deploy.composed import COMPOSE, OURS, ROOT, SERVICES, commands_of

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def known() -> set[str]:
    environment = {"RELIGHT_CLUSTER": "lab", "RELIGHT_NODE__NAME": "n", "RELIGHT_NODE__UID": "u"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return {setting.variable for process in PROCESSES for setting in shown(_kind(process)())}


def test_the_file_is_as_the_compose_specification_wants_it() -> None:
    Draft202012Validator(RULES).validate(COMPOSE)


@pytest.mark.parametrize(
    "damage",
    [
        {"comand": ["router"]},
        {"restart": "sometimes"},
        {"environment": {"PORT": 9464}},
        {"depends_on": {"kafka": {"condition": "service_ready"}}},
        {"healthcheck": {"test": ["python"]}},
        {"volumes": ["kafka"]},
    ],
)
def test_what_an_engine_would_refuse_is_seen(damage: dict[str, Any]) -> None:
    broken = COMPOSE | {"services": {**SERVICES, "router": SERVICES["router"] | damage}}

    with pytest.raises(ValidationError):
        Draft202012Validator(RULES).validate(broken)


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_command_exists_with_its_options(name: str) -> None:
    for words in commands_of(OURS[name]):
        result = CliRunner().invoke(main, [*words, "--help"])

        assert result.exit_code == 0, result.output
        assert "Usage:" in result.output


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_setting_exists(name: str, known: set[str]) -> None:
    given = {variable for variable in OURS[name]["environment"] if variable.startswith("RELIGHT_")}

    assert given <= known, f"no such settings: {given - known}"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_what_a_service_waits_for_exists_and_can_come_true(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert other in SERVICES
        if how["condition"] == "service_healthy":
            assert "test" in SERVICES[other]["healthcheck"]
        else:
            assert how["condition"] == "service_completed_successfully"
            assert SERVICES[other]["restart"] == "no"


@pytest.mark.parametrize("name", sorted(OURS))
def test_ours_run_without_rights_they_do_not_need(name: str) -> None:
    service = OURS[name]

    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "ports" not in service
    assert "privileged" not in service


def test_named_volumes_are_declared_and_mounted_files_are_there() -> None:
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]

    for source in mounts:
        if source.startswith("./") and source != "./kubeconfig":  # the operator's own
            assert (ROOT / source).exists(), source
        elif not source.startswith("./"):
            assert source in COMPOSE["volumes"]


def test_actuators_only_watch_until_told_otherwise() -> None:
    assert OURS["actuators"]["environment"]["RELIGHT_ACTING__DRY_RUN"] == "${RELIGHT_DRY_RUN:-true}"
    assert OURS["actuators"]["profiles"] == ["cluster"]


def test_the_image_is_not_root_s_and_imports_from_no_working_folder() -> None:
    last_stage = DOCKERFILE.rsplit("FROM ", 1)[1]

    assert re.search(r"^USER \d+$", last_stage, re.MULTILINE)
    assert "PYTHONSAFEPATH=1" in last_stage
    assert "pip" not in last_stage


def locked(*names: str) -> set[str]:
    """Packages `deploy/locked.py` prints, run as the image's first stage runs it."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "deploy/locked.py", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(
        "--hash=sha256:" in entry
        for entry in re.split(r"^(?=[a-z].*==)", done.stdout, flags=re.MULTILINE)[1:]
    )
    return set(re.findall(r"^([a-z0-9._-]+)==", done.stdout, re.MULTILINE))


def test_the_image_gets_every_package_it_needs_by_its_hash_and_none_that_only_tests_need() -> None:
    """What is installed here knows its own requirements: the closure must be theirs."""

    def needs(name: str) -> set[str]:
        found = {Requirement(one) for one in requires(name) or []}
        return {
            one.name.lower().replace(".", "-").replace("_", "-")
            for one in found
            if one.marker is None or one.marker.evaluate({"extra": ""})
        }

    names = locked()
    assert {one for name in names for one in needs(name)} <= names
    assert needs("relight") <= names
    assert not {"chdb", "pytest", "mypy", "ruff", "hypothesis", "hatchling"} & names
    assert locked("hatchling") >= {"hatchling", *needs("hatchling")}
    assert DOCKERFILE.count("--require-hashes") == 2
    assert "--no-index" in DOCKERFILE


def test_what_is_copied_into_the_build_is_there_and_not_left_out_of_it() -> None:
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
        for word in line.split()
    }

    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {name.split("/")[0] for name in copied} & set(left_out) == set()
    assert {".git", ".venv", ".env", "kubeconfig"} <= set(left_out)


def test_the_image_holds_every_room() -> None:
    rooms = set(re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE))
    shipped = set(
        re.findall(r"packages = \[(.*?)\]", (ROOT / "pyproject.toml").read_text())[0]
        .replace('"', "")
        .split(", ")
    )

    assert rooms == shipped


def test_the_store_s_users_are_those_of_the_settings_and_a_reader_reads() -> None:
    tree = ET.parse(ROOT / "deploy/clickhouse/users.xml").getroot()  # noqa: S314 - our own file
    users = {user.tag: [query.text or "" for query in user.iter("query")] for user in tree.findall("users/*")}

    assert set(users) == {"migrator", "writer", "reader"}
    assert users["reader"] == ["GRANT SELECT ON relight.*"]
    assert users["writer"] == ["GRANT SELECT, INSERT ON relight.*"]
    assert tree.findtext("profiles/relight_reader/readonly") == "2"
