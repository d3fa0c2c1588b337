"""Exported schemas are what the models say, are promised, and are read by an independent validator."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator, ValidationError

from relight.cli import main
from schemas.catalogue import PAYLOADS
from schemas.envelope import encode
from schemas.export import DIALECT, FOLDER, all_schemas, changes, export, promised, schema_of
from schemas.signals import ChipFault
from tests.schemas.samples import sample

TYPES = sorted(payload.TYPE for payload in PAYLOADS)


def test_the_exported_schemas_are_up_to_date() -> None:
    assert [str(change) for change in changes()] == [], "right would be: relight schemas export"


def test_no_promised_schema_was_changed_so_that_somebody_breaks() -> None:
    broken = [str(change) for change in changes() if change.broken]

    assert broken == [], "right would be a new version of the type, beside the old one"


def test_every_registered_type_has_a_promised_schema() -> None:
    assert sorted(promised()) == TYPES


@pytest.mark.parametrize("type_name", TYPES)
def test_each_is_a_valid_schema_and_accepts_what_is_written(type_name: str) -> None:
    schema = schema_of(type_name)
    Draft202012Validator.check_schema(schema)
    written = json.loads(encode(sample(type_name)))

    assert schema["$schema"] == DIALECT
    Draft202012Validator(schema).validate(written)


@pytest.mark.parametrize(
    "damage", [{"type": "dev.relight.other.v1"}, {"data": {}}, {"specversion": "0.3"}, {"cluster": "UPPER"}]
)
def test_what_is_no_such_message_is_refused_by_the_schema(damage: dict[str, object]) -> None:
    written = json.loads(encode(sample(ChipFault.TYPE))) | damage

    with pytest.raises(ValidationError):
        Draft202012Validator(schema_of(ChipFault.TYPE)).validate(written)


def test_fields_of_newer_releases_are_allowed() -> None:
    written = json.loads(encode(sample(ChipFault.TYPE)))
    written["data"]["from_the_future"] = 1

    Draft202012Validator(schema_of(ChipFault.TYPE)).validate(written)


# ------------------------------------------------------------ promises are kept


def copies(folder: Path) -> Path:
    export(folder)
    return folder


def change_copy(folder: Path, edit: str, to: str) -> None:
    """Make the promise one that the models do not keep, or keep more than."""
    path = folder / f"{ChipFault.TYPE}.json"
    before = path.read_text(encoding="utf-8")
    assert edit in before
    path.write_text(before.replace(edit, to), encoding="utf-8")


def test_a_change_that_breaks_nobody_is_exported(tmp_path: Path) -> None:
    folder = copies(tmp_path)
    change_copy(folder, '"maxLength": 2000', '"maxLength": 1999')

    assert [change.broken for change in export(folder)] == [()]
    assert changes(folder) == []


def test_a_change_that_breaks_somebody_is_named_and_not_exported(tmp_path: Path) -> None:
    folder = copies(tmp_path)
    change_copy(folder, '"maxLength": 2000', '"maxLength": 2001')
    before = promised(folder)

    (change,) = export(folder)

    assert "maxLength is 2000 now, was 2001" in str(change)
    assert "data.detail" in str(change)
    assert promised(folder) == before


def test_a_type_that_is_gone_breaks_its_readers(tmp_path: Path) -> None:
    folder = copies(tmp_path)
    (folder / "dev.relight.signal.gone.v1.json").write_text('{"type": "object"}')

    (change,) = changes(folder)

    assert change.type == "dev.relight.signal.gone.v1"
    assert change.broken


def test_a_new_version_stands_beside_the_old_one(tmp_path: Path) -> None:
    folder = copies(tmp_path)
    (folder / f"{ChipFault.TYPE}.json").unlink()

    (change,) = export(folder)

    assert (change.what, change.broken) == ("is new", ())


@pytest.mark.slow
def test_the_command_ends_with_1_on_a_break_and_on_stale_copies(tmp_path: Path) -> None:
    folder = copies(tmp_path)
    run = CliRunner().invoke
    assert run(main, ["schemas", "check", "--folder", str(folder)]).exit_code == 0
    change_copy(folder, '"maxLength": 2000', '"maxLength": 2001')

    assert run(main, ["schemas", "check", "--folder", str(folder)]).exit_code == 1
    refused = run(main, ["schemas", "export", "--folder", str(folder)])
    assert refused.exit_code == 1
    assert "needs a new version" in refused.output
    assert run(main, ["schemas", "export", "--folder", str(folder), "--even-if-broken"]).exit_code == 0
    assert run(main, ["schemas", "check", "--folder", str(folder)]).exit_code == 0


def test_what_is_shipped_is_what_was_compared() -> None:
    assert FOLDER.is_dir()
    assert promised() == json.loads(json.dumps(all_schemas()))
