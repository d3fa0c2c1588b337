"""One file to copy beside a training script, optional: `tell("step", 120)`.

Never fails and does nothing without relight. A step never waits; the rare other words wait up to 0.1 s if the supervisor has to catch up.
"""

from __future__ import annotations

import json
import os
import socket


def tell(word: str, value: object, **fields: object) -> None:
    """Tell the supervisor a `step`, `checkpoint`, `milestone` or `phase`, with more fields as the docs list them."""
    path = os.environ.get("RELIGHT_PROGRESS")
    if not path:
        return
    try:
        line = f"{word} {value}" + (" " + json.dumps(fields) if fields else "")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.settimeout(0.0 if word == "step" else 0.1)
            out.sendto(line.encode(), path)
    except (OSError, TypeError, ValueError):
        return
