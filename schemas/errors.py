"""Errors of this room.

SchemaError                 root
├── DecodeError             bytes are no valid relight message: who sent it must mend it; it belongs in the dead letters
│   ├── UnknownTypeError    a CloudEvents type (or version of it) this release does not know
│   └── OversizedError      larger than the topic allows
└── CatalogueError          topics in the broker differ from the catalogue: the operator must act
"""

from __future__ import annotations


class SchemaError(Exception):
    """Root of everything this room raises."""


class DecodeError(SchemaError):
    """Bytes are no valid relight message. `place` is the field path, empty when the whole message is meant."""

    def __init__(self, reason: str, place: str = "") -> None:
        """Keep the reason and, apart from it, where in the message it applies."""
        super().__init__(f"{place}: {reason}" if place else reason)
        self.reason = reason
        self.place = place


class UnknownTypeError(DecodeError):
    """The CloudEvents `type` is none of this release: sent by a newer release, or mistyped."""


class OversizedError(DecodeError):
    """The message is larger than the topic's limit."""


class CatalogueError(SchemaError):
    """A topic of the broker is not as the catalogue wants it."""
