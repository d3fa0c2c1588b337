"""Errors of this room.

RecoveryError        root
├── CellError        stored state cannot be read: bug, or written by a release two steps away
└── CellTooLargeError a cell passed its hard cap: bug in a bound; the stage halts the subject, alone
"""

from __future__ import annotations


class RecoveryError(Exception):
    """Root of everything this room raises."""


class CellError(RecoveryError):
    """A stored cell cannot be read by this release."""


class CellTooLargeError(RecoveryError):
    """A cell passed the cap of 256 KiB (design 5)."""
