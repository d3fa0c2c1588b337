"""The tree stays one that is read quickly: short files, rooms that say what they are, one command that CI can run."""

import ast
import os
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 600  # lines

with (ROOT / "pyproject.toml").open("rb") as _file:
    PROJECT = tomllib.load(_file)
ROOMS: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
FOLDERS = [*ROOMS, "tests", "benchmarks"]
PYTHON_FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name)
def test_no_python_file_is_longer_than_600_lines(path: Path) -> None:
    length = len(path.read_text(encoding="utf-8").splitlines())

    assert length <= LONGEST_FILE, f"{name(path)} has {length} lines: it holds more than one thing"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name)
def test_every_module_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))

    assert ast.get_docstring(tree), f"{name(path)} has no docstring"


def test_every_top_level_package_is_shipped_typed_and_checked() -> None:
    found = sorted(
        path.parent.name
        for path in ROOT.glob("*/__init__.py")
        if path.parent.name not in ("tests", "benchmarks")
    )

    assert found == ROOMS
    assert [room for room in ROOMS if not (ROOT / room / "py.typed").exists()] == []
    assert PROJECT["tool"]["importlinter"]["root_packages"] == ROOMS
    assert PROJECT["tool"]["coverage"]["run"]["source"] == ROOMS
    assert set(ROOMS) <= set(PROJECT["tool"]["mypy"]["packages"])


def test_every_import_contract_is_a_sentence() -> None:
    names = [contract["name"] for contract in PROJECT["tool"]["importlinter"]["contracts"]]

    assert all(said[:1].isalpha() and said.endswith(".") and " " in said for said in names)


def test_no_folder_has_a_name_that_says_nothing() -> None:
    nothing = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}

    assert [name(path) for path in PYTHON_FILES if nothing & {path.stem, path.parent.name}] == []


def test_ci_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_lock_file_names_no_place_to_fetch_from() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")

    assert "://" not in lock
    assert "--index-url" not in lock
    assert "--find-links" not in lock


def test_every_locked_package_has_a_hash() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = [entry for entry in lock.replace("\\\n", "").splitlines() if "==" in entry]

    assert len(entries) > len(PROJECT["project"]["dependencies"])
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_every_dependency_has_its_reason_beside_it() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["dev"]]

    assert [one for one in wanted if f'"{one}", # ' not in text] == []
