"""What a pod remembers, over containers, damage and loss."""

import json
from pathlib import Path

import pytest

from supervisor.volume import MOST_REPORTS, Volume


def types(volume: Volume) -> list[str]:
    found: list[str] = []
    at = 0
    while (report := volume.after(at)) is not None:
        found.append(report["type"])
        at = report["seq"]
    return found


def test_everything_outlives_the_container(tmp_path: Path) -> None:
    first = Volume(tmp_path)
    first.count_start()
    first.count_start(reset=True)
    first.obey((3, 1, 2))
    first.add({"type": "exit"})
    second = Volume(tmp_path)

    assert (second.launches, second.starts, second.last) == (2, 1, (3, 1, 2))
    assert (second.spool, second.sequence, types(second)) == (first.spool, 1, ["exit"])


def test_a_number_is_not_used_again_when_all_is_acknowledged(tmp_path: Path) -> None:
    first = Volume(tmp_path)
    first.add({"type": "exit"})
    first.acknowledge(1)
    second = Volume(tmp_path)
    second.add({"type": "started"})

    assert second.after(0) == {"type": "started", "seq": 2}


def test_a_lost_volume_begins_a_spool_of_another_name(tmp_path: Path) -> None:
    first = Volume(tmp_path)
    first.add({"type": "exit"})
    (tmp_path / "reports").unlink()

    assert Volume(tmp_path).spool != first.spool


def test_the_oldest_goes_first_and_exits_last(tmp_path: Path) -> None:
    volume = Volume(tmp_path)
    volume.add({"type": "exit"})
    for _ in range(MOST_REPORTS + 9):
        volume.add({"type": "milestone"})
    assert (volume.lost, types(volume)[0], len(types(volume))) == (10, "exit", MOST_REPORTS)
    for _ in range(MOST_REPORTS + 1):
        volume.add({"type": "exit"})

    assert set(types(volume)) == {"exit"}
    assert Volume(tmp_path).lost == volume.lost == 10 + MOST_REPORTS + 1


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "\0" * 40,
        "[]",
        "{}",
        '{"launches": -1, "starts": 1e9, "last": [1, true, 0]}',
        '{"seq": "x"}\n{"seq": 1}\n{',
        "[" * 9999,
    ],
)
def test_damage_is_forgotten_not_fatal(tmp_path: Path, damage: str) -> None:
    for name in ("kept", "reports"):
        (tmp_path / name).write_text(damage, encoding="utf-8")
    volume = Volume(tmp_path)

    assert (volume.launches, volume.starts, volume.last, types(volume)) == (0, 0, None, [])
    volume.count_start()
    assert json.loads((tmp_path / "kept").read_text(encoding="utf-8"))["launches"] == 1


def test_without_a_volume_memory_serves(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for volume in (Volume(None), Volume(tmp_path / "missing")):
        assert [volume.count_start(), volume.count_start()] == [1, 2]
        volume.add({"type": "exit"})
        assert types(volume) == ["exit"]

    assert capfd.readouterr().err.count("cannot be written") == 1, "said once, not with every write"
