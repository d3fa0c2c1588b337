"""What a training process says, read word by word; what of it is told, and when."""

import json
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from supervisor.progress import (
    BURST,
    LIFE,
    LONGEST,
    LOOK_EVERY,
    MORE,
    MOST_OPEN,
    MOST_REPLACED,
    MOST_SAID,
    STEP_EVERY,
    Progress,
    ProgressSocket,
    Told,
    parse,
)
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
        b'phase x {"a":', b"x" * 5000, b'checkpoint 3 {"edge": "begin", "a": "' + b"x" * 70_000,
    ],
)  # fmt: skip
def test_what_is_no_word_is_still_a_sign_of_life(line: bytes) -> None:
    assert parse(line) == LIFE


@pytest.mark.parametrize(
    "unfit", ["NaN", "-Infinity", "1e999", "{}", "[[1]]", "[1.5]", f'"{"x" * LONGEST}"', f'"{"x" * 60_000}"']
)
def test_a_field_that_cannot_be_passed_on_costs_itself_not_the_word(unfit: str) -> None:
    said = f'{{"loss": {unfit}, "edge": "begin", "step_seconds": 0.5}}'
    fields = {"edge": "begin", "step_seconds": 0.5}

    assert parse(f"step 120 {said}".encode()) == ("step", 120, fields)
    assert parse(f"phase export {said}".encode()) == ("phase", "export", fields)


@pytest.mark.parametrize("rest", ['{"loss": ', "[1]", "fast", '{"log": "' + "x" * 70_000])
def test_a_step_is_heard_whatever_stands_behind_it(rest: str) -> None:
    assert parse(f"step 120 {rest}".encode()[:65536]) == ("step", 120, {})


def test_of_fields_that_are_too_many_the_short_ones_are_kept_and_none_is_our_number_of_a_report() -> None:
    long = {f"note-{number}": "x" * 1000 for number in range(8)}
    told = parse(f"checkpoint 9 {json.dumps({**long, 'seq': 7, 'edge': 'begin'})}".encode())

    assert told[:2] == ("checkpoint", 9)
    assert told[2].keys() == {"edge", "note-0", "note-1", "note-2", "note-3"}
    assert len(json.dumps(told[2])) <= LONGEST


def test_a_long_name_is_cut() -> None:
    assert len(parse(b"phase " + b"x" * 60_000)[1]) < 100


def test_only_the_newest_step_is_told_and_at_most_one_a_second() -> None:
    progress = Progress()
    assert progress.due() is None
    for step in range(5):
        assert progress.hear(("step", step, {}), 100.0) is None
    assert progress.take(100.0) == {"type": "progress", "step": 4, "open": []}
    progress.hear(("step", 5, {}), 100.1)
    assert progress.take(100.2) is None
    assert progress.due() == 100.0 + STEP_EVERY

    assert progress.take(100.0 + STEP_EVERY) == {"type": "progress", "step": 5, "open": []}


def test_edges_have_an_allowance_that_fills_again() -> None:
    progress = Progress()
    told = [progress.hear(("milestone", str(number), {}), 0.0) for number in range(BURST + 5)]
    assert [one is not None for one in told] == [True] * BURST + [False] * 5
    assert progress.hear(("milestone", "x", {}), 1.0) is None

    assert progress.hear(("milestone", "x", {}), 3.0) == {"type": "milestone", "name": "x"}


def test_how_far_it_has_come_is_its_newest_step_and_what_began_and_has_not_ended() -> None:
    progress = Progress()
    assert progress.standing(50.0) == {"step": None, "open": [], "silent": None}
    words: list[Told] = [
        ("step", 3, {}),
        ("phase", "evaluation", {"edge": "begin"}),
        ("checkpoint", 3, {"edge": "begin"}),
        ("checkpoint", 2, {"edge": "verified"}),
        ("phase", "export", {"edge": "begin"}),
        ("phase", "export", {"edge": "end"}),
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
    for number in range(BURST):
        progress.hear(("milestone", f"m{number}", {}), 0.0)
    for number in range(MOST_OPEN):
        assert progress.hear(("phase", f"p{number}", {"edge": "begin"}), 0.0) is None
    assert progress.standing(0.0)["open"] == [f"p{number}" for number in range(MOST_OPEN)]
    for number in range(MOST_OPEN):
        progress.hear(("phase", f"p{number}", {"edge": "end"}), 0.0)

    assert progress.standing(0.0)["open"] == []


def test_names_beyond_those_told_apart_are_open_until_the_next_start() -> None:
    progress = Progress()
    for edge in ("begin", "end"):
        for number in range(MOST_OPEN + 5):
            progress.hear(("phase", f"p{number}", {"edge": edge}), 0.0)

    assert progress.standing(0.0)["open"] == [MORE]
    progress.begin()
    assert progress.standing(0.0)["open"] == []


def test_a_phase_is_over_when_as_many_processes_ended_it_as_began_it() -> None:
    progress = Progress()
    for _ in range(40):
        progress.hear(("phase", "evaluation", {"edge": "begin"}), 0.0)
    progress.hear(("checkpoint", 9, {"edge": "begin"}), 0.0)
    said = progress.standing(0.0)["open"]
    assert (said[:2], len(said)) == (["evaluation", "save"], MOST_SAID)
    progress.hear(("checkpoint", 9, {}), 0.0)
    for _ in range(39):
        progress.hear(("phase", "evaluation", {"edge": "end"}), 0.0)
    assert progress.standing(0.0)["open"] == ["evaluation"]
    for _ in range(3):
        progress.hear(("phase", "evaluation", {"edge": "end"}), 0.0)
    assert progress.standing(0.0)["open"] == []
    progress.hear(("phase", "evaluation", {"edge": "begin"}), 0.0)

    assert progress.standing(0.0)["open"] == ["evaluation"]


@pytest.mark.parametrize(
    ("told", "is_open"),
    [
        (LIFE, []),
        (("milestone", "x", {}), []),
        (("phase", "export", {"edge": "begin"}), ["export"]),
        (("checkpoint", 3, {"edge": "begin", "tier": "nfs"}), ["save"]),
    ],
)
def test_after_any_other_word_the_newest_step_is_said_again_with_what_is_open(
    told: Told, is_open: list[str]
) -> None:
    progress = Progress()
    progress.hear(("step", 3, {"step_seconds": 0.5, "open": ["what a process says"]}), 0.0)
    fields: dict[str, Any] = {"type": "progress", "step": 3, "open": []}
    assert progress.take(0.0) == {**fields, "step_seconds": 0.5}
    for _ in range(BURST):
        progress.hear(("milestone", "x", {}), 10.0)
    assert progress.take(10.0) == fields
    assert progress.hear(told, 10.0) is None, "it has no allowance, and is lost"

    assert progress.take(20.0) == {**fields, "open": is_open}
    assert progress.take(30.0) is None


def test_before_the_first_step_there_is_none_to_say_again() -> None:
    progress = Progress()
    progress.hear(("phase", "start_up", {"edge": "begin"}), 0.0)
    progress.hear(LIFE, 0.0)

    assert progress.due() is None


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


@pytest.mark.parametrize("what", ["folder", "socket"])
def test_a_socket_that_somebody_removed_is_made_again_where_the_processes_look_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    socket = ProgressSocket()
    monkeypatch.setenv("RELIGHT_PROGRESS", socket.path)
    assert not looked(socket, 100.0)
    if what == "folder":
        shutil.rmtree(Path(socket.path).parent)
    else:
        Path(socket.path).unlink()
    tell("step", 1)
    assert not looked(socket, 100.0 + LOOK_EVERY - 1)
    tell("step", 2)
    assert not looked(socket, 100.0 + LOOK_EVERY)
    tell("step", 3)

    assert socket.receive() == [("step", 3, {})]
    socket.close()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_connected_to_a_socket_that_was_removed_is_still_heard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    progress = ProgressSocket()
    clients = []
    for number in range(MOST_REPLACED + 3):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        client.connect(progress.path)
        clients.append(client)
        shutil.rmtree(Path(progress.path).parent)
        assert not looked(progress, LOOK_EVERY * number)
    for number, client in enumerate(clients[:MOST_REPLACED]):
        client.send(b"step %d" % number)

    assert progress.receive() == [("step", number, {}) for number in range(MOST_REPLACED)]
    assert len(progress.sockets) == MOST_REPLACED + 1, "no more are kept than that"
    for client in clients:
        client.close()
    progress.close()


def test_a_file_system_that_answers_nobody_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    progress, answers = ProgressSocket(), threading.Event()
    monkeypatch.setattr(ProgressSocket, "_see", lambda *_: answers.wait(30))
    begun = threading.active_count()

    assert [progress.look(LOOK_EVERY * turn) for turn in range(1, 5)] == [False] * 4
    assert threading.active_count() == begun + 1, "one look at a time"
    assert not progress.deaf
    answers.set()
    progress.close()


def test_a_container_without_room_for_a_thread_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    progress = ProgressSocket()
    monkeypatch.setattr(threading.Thread, "start", none)

    assert [progress.look(LOOK_EVERY * turn) for turn in (1, 2)] == [False, False]
    progress.close()


def looked(socket: ProgressSocket, now: float) -> bool:
    """Whether a look, until it is over, changed anything."""
    changed = socket.look(now)
    while socket._looking is not None and not socket._seen:
        time.sleep(0.001)
    return socket.look(now) or changed


def test_where_it_cannot_be_made_again_that_is_known_until_it_can(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    socket = ProgressSocket()
    monkeypatch.setenv("RELIGHT_PROGRESS", socket.path)
    folder = Path(socket.path).parent
    shutil.rmtree(folder)
    folder.touch()
    assert [looked(socket, LOOK_EVERY * turn) for turn in (1, 2)] == [True, False]
    assert (socket.deaf, socket.receive()) == (True, [])
    folder.unlink()
    assert [looked(socket, LOOK_EVERY * turn) for turn in (3, 4)] == [True, False]
    tell("step", 3)

    assert (socket.deaf, socket.receive()) == (False, [("step", 3, {})])
    socket.close()


def test_a_socket_that_could_never_be_made_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgressSocket, "_made", lambda *_: False)

    assert not looked(ProgressSocket(), 1000.0)
