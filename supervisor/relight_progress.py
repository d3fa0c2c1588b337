"""Optional, one file to copy: `tell("step", 120)`; never blocks, never fails, does nothing without relight."""

from __future__ import annotations

import os
import socket


def tell(word: str, value: object) -> None:
    """Tell the supervisor `step`, `checkpoint` or `milestone`."""
    path = os.environ.get("RELIGHT_PROGRESS")
    if not path:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)  # noqa: FBT003 - the standard library's name
            out.sendto((f"{word} {value}").encode(), path)
    except OSError:
        return
