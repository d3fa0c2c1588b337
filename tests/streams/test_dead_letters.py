"""A dead letter keeps the original, or says of which original it is the head."""

from __future__ import annotations

import hashlib

from runtime.settings import DeadLetterSettings
from streams.dead_letters import DeadLetters, Reason
from tests.streams.bench import headers_of
from tests.streams.fakes import FakeMessage

SMALL = DeadLetterSettings(whole_up_to=1024, head=10)


def test_an_original_within_the_limit_is_kept_whole() -> None:
    raw = bytes(range(256)) * 4
    letter = DeadLetters("router", SMALL, str).make(FakeMessage(0, raw, b"key"), Reason.UNREADABLE, "why")

    assert (letter.value, letter.key) == (raw, b"key")
    assert "truncated" not in headers_of(letter)


def test_of_a_larger_one_the_head_the_length_and_the_hash_are_kept() -> None:
    raw = b"x" * 1025
    letter = DeadLetters("router", SMALL, str).make(FakeMessage(0, raw), Reason.OVERSIZED, "why")

    assert letter.value == raw[:10]
    told = headers_of(letter)
    assert (told["truncated"], told["bytes"]) == ("1", "1025")
    assert told["sha256"] == hashlib.sha256(raw).hexdigest()


def test_whatever_stands_in_the_detail_is_cut_and_written_as_it_can_be() -> None:
    letter = DeadLetters("router", SMALL, str).make(
        FakeMessage(0, b""), Reason.UNREADABLE, "\ud800" + "d" * 9999
    )

    assert len(headers_of(letter)["detail"]) < 600
