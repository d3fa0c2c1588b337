"""What a training process says, read word by word; what of it is told, and when."""

from pathlib import Path

import pytest

from supervisor.progress import BURST, MOST_OPEN, STEP_EVERY, Progress, ProgressSocket, Told, parse
from supervisor.relight_progress import tell
from supervisor.settings import hang_minutes


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


def test_how_far_it_has_come_is_its_newest_step_and_what_began_and_has_not_ended() -> None:
    progress = Progress()
    assert progress.standing(50.0) == {"step": None, "open": [], "silent": None}
    words: list[Told] = [
        ("step", 3, {}),
        ("phase", "evaluation", {"edge": "begin"}),
        ("phase", "evaluation", {"edge": "begin"}),
        ("checkpoint", 3, {"edge": "begin"}),
        ("phase", "x" * 4000, {"edge": "begin"}),
        ("phase", "x" * 4000, {"edge": "end"}),
        ("milestone", "stable", {"edge": "begin"}),
        ("phase", "compilation", {"edge": ["begin"]}),
    ]
    for told in words:
        progress.hear(told, 100.0)
    assert progress.standing(103.0) == {"step": 3, "open": ["evaluation", "save"], "silent": 3.0}
    progress.hear(("checkpoint", 3, {"tier": "local"}), 104.0)  # no edge is an end
    progress.hear(("phase", "evaluation", {"edge": "end"}), 104.0)

    assert progress.standing(104.0) == {"step": 3, "open": [], "silent": 0.0}


def test_phases_are_known_beyond_the_allowance_of_words_and_never_without_end() -> None:
    progress = Progress()
    for number in range(BURST + MOST_OPEN):
        progress.hear(("phase", f"p{number}", {"edge": "begin"}), 0.0)
    assert len(progress.standing(0.0)["open"]) == MOST_OPEN
    for number in range(BURST + MOST_OPEN):
        progress.hear(("phase", f"p{number}", {"edge": "end"}), 0.0)

    assert progress.standing(0.0)["open"] == []


def test_a_new_start_has_told_nothing_and_no_step_of_the_one_before_is_said_as_its_own() -> None:
    progress = Progress()
    progress.hear(("step", 3, {}), 100.0)
    progress.hear(("phase", "evaluation", {"edge": "begin"}), 100.0)
    progress.begin()

    assert progress.standing(200.0) == {"step": None, "open": [], "silent": None}
    assert progress.take(200.0) is None


@pytest.mark.parametrize(
    ("text", "minutes", "complains"),
    [
        (None, None, False),
        ("", None, False),
        (" ", None, False),
        ("45", 45.0, False),
        ("0.5", 0.5, False),
        ("0", 0.0, False),
        ("2h", 0.0, True),
        ("-1", 0.0, True),
        ("inf", 0.0, True),
        ("nan", 0.0, True),
    ],
)
def test_minutes_that_are_none_switch_it_off_and_the_container_s_log_says_so(
    text: str | None, minutes: float | None, complains: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {} if text is None else {"MA_HANG_DETECT_TIME": text}

    assert hang_minutes(environment) == minutes
    assert ("MA_HANG_DETECT_TIME" in capsys.readouterr().err) is complains


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
