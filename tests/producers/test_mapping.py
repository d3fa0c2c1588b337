"""Mapping tables: the shipped ones are sound, a wrong one is refused with its place."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from producers.errors import MappingError
from producers.mapping import SHIPPED, Codes, Rate, load_mapping

GOOD = """
exporter: mine
chip: {id: [uuid], index: gpu}
signals:
  - {read: rate, namespace: site, code: errors, series: [errors_total], window: 90s, above: 5, back_at: 1}
"""


def refused(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MappingError) as caught:
        load_mapping(str(path))
    return str(caught.value)


@pytest.mark.parametrize("name", sorted(path.stem for path in SHIPPED.glob("*.yaml")))
def test_a_shipped_table_is_sound_and_named_after_its_exporter(name: str) -> None:
    assert load_mapping(name).exporter == name


def test_the_npu_table_reads_all_ten_slots_of_codes() -> None:
    (codes,) = [row for row in load_mapping("npu-exporter").signals if isinstance(row, Codes)]

    assert len(set(codes.series)) == 10


def test_a_site_has_a_table_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD, encoding="utf-8")

    (row,) = load_mapping(str(path)).signals

    assert isinstance(row, Rate)
    assert row.window == timedelta(seconds=90)


def test_a_table_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(MappingError, match="one of dcgm-exporter, npu-exporter"):
        load_mapping("amd-exporter")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("above: 5", "above: lots", "signals.0.rate.above"),
        ("above: 5", "above: 0.5", "back_at (1) exceeds above (0.5)"),
        ("window: 90s", "window: soon", "is no duration"),
        ("window: 90s", "window: 0s", "signals.0.rate.window"),
        ("window: 90s", "window: 48h", "less than or equal"),
        ("code: errors", "code: 'no blanks'", "signals.0.rate.code"),
        ("series: [errors_total]", "series: []", "at least 1 item"),
        ("series: [errors_total]", "series: ['{}']", "signals.0.rate.series.0"),
        ("read: rate", "read: guess", "does not match any of the expected tags"),
        ("index: gpu", "idx: gpu", "chip.index"),
        ("exporter: mine", "exporter: ''", "exporter"),
        ("exporter: mine", "exporter: mine\nmore: 1", "Extra inputs"),
        ("exporter: mine", "exporter: [", "mine.yaml"),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    said = refused(tmp_path, GOOD.replace(old, new))

    assert says in said
    assert "mine.yaml" in said


def test_two_rows_for_one_code_would_clear_each_other(tmp_path: Path) -> None:
    row = GOOD.splitlines()[-1]

    assert "site/errors has two rows" in refused(tmp_path, f"{GOOD}{row}\n")


def test_two_rows_of_codes_share_no_namespace(tmp_path: Path) -> None:
    rows = "".join(
        f"  - {{read: codes, namespace: site, series: [{series}], write_as: decimal}}\n" for series in "ab"
    )

    assert "site/codes has two rows" in refused(tmp_path, GOOD + rows)
