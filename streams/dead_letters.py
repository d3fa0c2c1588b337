"""Dead letters: what cannot be handled keeps its bytes, and says why, where and when in its headers.

The value is the original, byte for byte; above the size limit a head of it, with length and SHA-256 of the whole. Nothing reads this topic
to process it again, so that a bad message never comes round.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from runtime.settings import DeadLetterSettings
from schemas.topics import DEADLETTERS
from streams.ports import Headers, Message, Send

PREFIX: Final = "relight."
_DETAIL: Final = 500


class Reason(StrEnum):
    """Why a message went to the dead letters."""

    EMPTY = "empty"
    UNREADABLE = "unreadable"
    UNKNOWN_TYPE = "unknown_type"
    OVERSIZED = "oversized"
    NOT_ACCEPTED = "not_accepted"
    """A type that this topic's writers have no business to send."""
    NONSENSE_TIME = "nonsense_time"
    RATE_CAPPED = "rate_capped"
    NO_SUBJECT = "no_subject"
    FOREIGN_CLUSTER = "foreign_cluster"
    MISPLACED = "misplaced"
    HALTED = "halted"


class DeadLetters:
    """Makes dead letters for one stage."""

    def __init__(self, stage: str, settings: DeadLetterSettings, topic_name: Callable[[str], str]) -> None:
        self._stage = stage.encode()
        self._settings = settings
        self._topic = topic_name(DEADLETTERS.name)

    def make(self, message: Message, reason: Reason, detail: str) -> Send:
        """Dead letter of one message."""
        raw = message.value or b""
        headers: Headers = (
            (f"{PREFIX}reason", reason.value.encode()),
            (f"{PREFIX}detail", detail[:_DETAIL].encode(errors="backslashreplace")),
            (f"{PREFIX}stage", self._stage),
            (f"{PREFIX}topic", message.topic.encode()),
            (f"{PREFIX}partition", str(message.partition).encode()),
            (f"{PREFIX}offset", str(message.offset).encode()),
            (f"{PREFIX}time", datetime.fromtimestamp(message.timestamp, UTC).isoformat().encode()),
        )
        if len(raw) > self._settings.whole_up_to:
            headers += (
                (f"{PREFIX}truncated", b"1"),
                (f"{PREFIX}bytes", str(len(raw)).encode()),
                (f"{PREFIX}sha256", hashlib.sha256(raw).hexdigest().encode()),
            )
            raw = raw[: self._settings.head]
        return Send(topic=self._topic, key=message.key, value=raw, headers=headers)
