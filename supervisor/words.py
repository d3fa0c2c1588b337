"""What people read in the container's log."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """One line to standard error; a closed one is no error."""
    try:
        sys.stderr.write("relight: " + text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return
