"""The line's bounds, on a real socket and a clock of the test's own."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.link import FIRST_WAIT, LONGEST_LINE, LONGEST_WAIT, MOST_WAITING, Link, parse


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "agent.sock"))
        listening.listen()
        listening.settimeout(10)
        yield listening


def connected(listener: socket.socket, link: Link, now: float) -> socket.socket:
    assert link.connect(now)
    return listener.accept()[0]


def test_a_reader_that_never_reads_is_told_no_more_than_the_bound(
    listener: socket.socket, tmp_path: Path
) -> None:
    link = Link(tmp_path / "agent.sock")
    with connected(listener, link, 0.0) as line:
        told = 0
        while link.send({"type": "state", "n": told}, 0.0):
            told += 1
            assert told < 100_000, "no bound"
        assert not link.has_room()
        assert link.wants_write()
        line.settimeout(10)
        heard = b""
        while heard.count(b"\n") < told:  # what was taken is delivered whole and in order once it reads
            heard += line.recv(65536)
            link.flush(0.0)
        numbers = [json.loads(raw)["n"] for raw in heard.splitlines()]
        link.drop(0.0)

    assert numbers == list(range(told))
    assert len(heard) > MOST_WAITING


def test_tries_are_further_and_further_apart_up_to_half_a_minute(tmp_path: Path) -> None:
    link = Link(tmp_path / "nobody")
    now, waits = 0.0, []
    for _ in range(10):
        assert not link.connect(now)
        again = link.next_try()
        assert again is not None
        assert not link.connect(again - 0.01)
        assert link.next_try() == again, "too early is no try"
        waits.append(again - now)
        now = again

    assert waits[:4] == pytest.approx([FIRST_WAIT, 0.5, 1.0, 2.0])
    assert waits[-1] == LONGEST_WAIT


def test_a_word_of_the_agent_makes_the_next_try_early_again(listener: socket.socket, tmp_path: Path) -> None:
    link = Link(tmp_path / "agent.sock")
    now = 0.0
    for _ in range(6):  # lines that end without a word
        with connected(listener, link, now):
            link.drop(now)
        now = link.next_try() or 0.0
    with connected(listener, link, now) as line:
        line.sendall(b'{"v": 1, "type": "ack", "seq": 1}\n')
        assert link.receive(now) == [{"v": 1, "type": "ack", "seq": 1}]
        link.drop(now)

    assert (link.next_try() or 0.0) - now == pytest.approx(FIRST_WAIT)


def test_messages_cut_anywhere_are_put_together(listener: socket.socket, tmp_path: Path) -> None:
    link = Link(tmp_path / "agent.sock")
    raw = b'{"v": 1, "type": "a"}\n{"v": 1, "type": "b"}\n'
    with connected(listener, link, 0.0) as line:
        found = []
        for byte in raw:
            line.sendall(bytes([byte]))
            found += [message["type"] for message in link.receive(0.0)]
        link.drop(0.0)

    assert found == ["a", "b"]


def test_the_end_of_the_line_and_a_line_without_end_are_noticed(
    listener: socket.socket, tmp_path: Path
) -> None:
    link = Link(tmp_path / "agent.sock")
    connected(listener, link, 0.0).close()
    assert link.receive(0.0) == []
    assert link.socket is None
    with connected(listener, link, 100.0) as line:
        line.sendall(b"x" * (LONGEST_LINE + 2))
        for _ in range(10):
            link.receive(100.0)
        assert link.socket is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"x",
        b"[]",
        b"1",
        b'{"v": 1}',
        b'{"v": 2, "type": "ack"}',
        b'{"v": 1, "type": 1}',
        b"[" * 5000,
        b'{"type": "ack"}',
        b"\xff",
    ],
)
def test_what_is_no_message_of_this_version_is_nothing(line: bytes) -> None:
    assert parse(line) is None


def test_a_field_of_a_message_does_not_replace_the_version(listener: socket.socket, tmp_path: Path) -> None:
    link = Link(tmp_path / "agent.sock")
    with connected(listener, link, 0.0) as line:
        link.send({"type": "milestone", "v": 9}, 0.0)
        assert json.loads(line.recv(4096))["v"] == 1
        link.drop(0.0)
