"""What a training process says, read word by word; what of it is told, and when."""

from pathlib import Path

import pytest

from supervisor.progress import BURST, STEP_EVERY, Progress, ProgressSocket, parse
from supervisor.relight_progress import tell


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"step 120", ("step", 120, {})),
        (b" step  7 \n", ("step", 7, {})),
        (b'step 3 {"step_seconds": 0.5}', ("step", 3, {"step_seconds": 0.5})),
        (b"milestone first_step", ("milestone", "first_step", {})),
        (
            b'checkpoint 9 {"edge": "end", "contents": ["model"]}',
            ("checkpoint", 9, {"edge": "end", "contents": ["model"]}),
        ),
        (b'phase evaluation {"edge": "begin"}', ("phase", "evaluation", {"edge": "begin"})),
    ],
)
def test_the_words_are_understood(line: bytes, told: object) -> None:
    assert parse(line) == told


@pytest.mark.parametrize(
    "line",
    [
        b"", b"step", b"step -1", b"step 1.5", b"step \xd9\xa1", b"step " + b"9" * 19, b"stop 1", b"milestone", b"phase x [1]",
        b'phase x {"a": {}}', b'phase x {"a": [[1]]}', b'phase x {"a": NaN}', b'phase x {"a": -Infinity}', b'phase x {"a":', b"x" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_word_is_nothing(line: bytes) -> None:
    assert parse(line) is None


def test_only_the_newest_step_is_told_and_at_most_one_a_second() -> None:
    progress = Progress()
    assert progress.due() is None
    for step in range(5):
        assert progress.hear(("step", step, {}), 100.0) is None
    assert progress.take(100.0) == {"type": "progress", "step": 4}
    progress.hear(("step", 5, {}), 100.1)
    assert progress.take(100.2) is None
    assert progress.due() == 100.0 + STEP_EVERY

    assert progress.take(100.0 + STEP_EVERY) == {"type": "progress", "step": 5}


def test_edges_have_an_allowance_that_fills_again() -> None:
    progress = Progress()
    told = [progress.hear(("milestone", str(number), {}), 0.0) for number in range(BURST + 5)]
    assert [one is not None for one in told] == [True] * BURST + [False] * 5
    assert progress.hear(("milestone", "x", {}), 0.5) is None

    assert progress.hear(("milestone", "x", {}), 1.5) == {"type": "milestone", "name": "x"}


def test_tell_without_relight_or_with_a_socket_that_is_gone_does_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RELIGHT_PROGRESS", raising=False)
    tell("step", 1)
    monkeypatch.setenv("RELIGHT_PROGRESS", str(tmp_path / "gone"))
    tell("step", 1)
    tell("milestone", "x", never_json=object())


def test_the_socket_is_made_where_there_is_room_for_it_and_goes_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    for unfit in (str(deep), "/proc", str(tmp_path / "missing")):
        monkeypatch.setenv("TMPDIR", unfit)
        socket = ProgressSocket()
        monkeypatch.setenv("RELIGHT_PROGRESS", socket.path)
        tell("step", 3)
        tell("milestone", "x", step=4)

        assert socket.receive() == [("step", 3, {}), ("milestone", "x", {"step": 4})]
        socket.close()
        assert not Path(socket.path).parent.exists()
    assert list(deep.iterdir()) == []
