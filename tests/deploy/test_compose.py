"""docker-compose.yml and Dockerfile, as far as they can be checked without an engine: commands, settings, names, files, users."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from relight.cli import main
from relight.commands.config import PROCESSES, _kind
from relight.settings_shown import shown

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = YAML(typ="safe").load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {
    name: service for name, service in SERVICES.items() if service.get("image", "").startswith("relight:")
}
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def commands_of(service: dict[str, Any]) -> list[list[str]]:
    if "entrypoint" not in service:
        return [list(service["command"])]
    return [shlex.split(part)[1:] for part in service["command"][0].split("&&")]


@pytest.fixture(scope="module")
def known() -> set[str]:
    environment = {"RELIGHT_CLUSTER": "lab", "RELIGHT_NODE__NAME": "n", "RELIGHT_NODE__UID": "u"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return {setting.variable for process in PROCESSES for setting in shown(_kind(process)())}


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
    assert "pip install" not in last_stage


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
