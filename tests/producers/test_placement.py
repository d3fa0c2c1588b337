"""What ran on a chip when it failed: by a file, which may be wrong or change."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from producers.errors import PlacementError
from producers.placement import NobodyKnows, PlacementFile, placed, read_intervals
from schemas.signals import ChipFault, ChipRef, FaultState, NodeCondition, NodeRef, Placement

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODE = NodeRef(uid="u-1", name="n-1")
FAULT = ChipFault(
    node=NODE, chip=ChipRef(id="GPU-1", index=3), namespace="xid", code="79", state=FaultState.ONCE
)


def line(run: str, *, chip: str | None = None, since: int = 0, until: int | None = None) -> str:
    content = {
        "chip": chip,
        "since": (NOW + timedelta(minutes=since)).isoformat(),
        "until": None if until is None else (NOW + timedelta(minutes=until)).isoformat(),
        "placement": {"run": run},
    }
    return json.dumps(content)


def file_of(folder: Path, *lines: str) -> PlacementFile:
    path = folder / "placements"
    path.write_text("\n".join(lines))
    return PlacementFile(path, lambda: NOW)


def run_at(placements: PlacementFile, minutes: int, chip: str | None = "GPU-1") -> str | None:
    found = placements.at(chip, NOW + timedelta(minutes=minutes))
    return found.run if found else None


def test_what_ran_at_the_time_is_found_and_not_what_runs_now(tmp_path: Path) -> None:
    placements = file_of(tmp_path, line("old", chip="GPU-1", until=10), line("new", chip="GPU-1", since=20))

    assert [run_at(placements, at) for at in (-1, 0, 9, 10, 19, 20)] == [
        None,
        "old",
        "old",
        None,
        None,
        "new",
    ]


def test_another_chip_is_not_meant(tmp_path: Path) -> None:
    placements = file_of(tmp_path, line("r", chip="GPU-2"))

    assert run_at(placements, 1) is None
    assert run_at(placements, 1, chip=None) is None


def test_an_interval_of_the_whole_node_is_of_every_chip(tmp_path: Path) -> None:
    placements = file_of(tmp_path, line("r"))

    assert run_at(placements, 1) == run_at(placements, 1, chip=None) == "r"


def test_a_file_that_changed_is_read_again_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    placements = file_of(tmp_path, line("one"))
    assert run_at(placements, 1) == "one"

    (tmp_path / "placements").write_text(line("second"))
    assert run_at(placements, 1) == "second"

    (tmp_path / "placements").write_text("{nonsense, and longer than before it was written so wrongly}")
    assert run_at(placements, 1) == "second"

    (tmp_path / "placements").unlink()
    assert run_at(placements, 1) == "second"


def test_what_ended_before_the_longest_window_is_forgotten(tmp_path: Path) -> None:
    placements = file_of(tmp_path, line("r", since=-60 * 48, until=-60 * 25))

    assert run_at(placements, -60 * 30) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{}", ":2: since"),
        (json.dumps({"since": "2026-03-01T00:00:00", "placement": {"run": "r"}}), ":2: since"),
        (json.dumps({"since": "2026-03-01T00:00:00Z", "placement": {}}), ":2: placement.run"),
        (json.dumps({"since": "2026-03-01T00:00:00Z", "placement": {"run": "r"}, "chp": "x"}), ":2: chp"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, wrong: str, said: str) -> None:
    path = tmp_path / "placements"
    path.write_text(f"{line('r')}\n{wrong}\n")

    with pytest.raises(PlacementError, match=said):
        read_intervals(path)


def test_only_chip_faults_are_stamped_and_only_when_they_are_not_yet(tmp_path: Path) -> None:
    placements = file_of(tmp_path, line("r"))
    condition = NodeCondition(node=NODE, condition="not-ready", state=FaultState.ASSERTED)
    already = FAULT.model_copy(update={"placement": Placement(run="other")})

    assert placed(FAULT, placements, NOW).placement == Placement(run="r")
    assert placed(already, placements, NOW).placement == Placement(run="other")
    assert placed(condition, placements, NOW).placement is None
    assert placed(FAULT, NobodyKnows(), NOW).placement is None


def test_a_chip_is_found_by_its_index_where_its_identity_is_not_known(tmp_path: Path) -> None:
    placements = file_of(tmp_path, line("r", chip="index:3"))

    assert placed(FAULT, placements, NOW).placement == Placement(run="r")
