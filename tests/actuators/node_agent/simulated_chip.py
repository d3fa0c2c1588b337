"""Chips that are files: `python simulated_chip.py STATE codes UNIT` and `... STATE reset UNIT`, as an operator's commands would be run.

STATE is JSON: `{"UNIT": {"codes": ["ascend:80E01801"], "on_reset": "heal", "resets": 0}}`. What a reset does is in `on_reset`: `heal` clears
the codes, `leave` does not, `refuse` ends with 1, `slow` takes `seconds` and heals. Resets that began are counted, at the target.
"""

from __future__ import annotations

import fcntl
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NO_SUCH_UNIT = 3


@contextmanager
def changing(path: Path) -> Iterator[dict[str, Any]]:
    """The state, written back whole; one at a time."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state: dict[str, Any] = json.loads(path.read_bytes())
        yield state
        new = path.with_suffix(".new")
        new.write_text(json.dumps(state), encoding="utf-8")
        new.replace(path)


def codes(path: Path, unit: str) -> int:
    """Print what stands."""
    with changing(path) as state:
        if unit not in state:
            return NO_SUCH_UNIT
        for code in state[unit]["codes"]:
            sys.stdout.write(code + "\n")
    return 0


def reset(path: Path, unit: str) -> int:
    """Do what the state says a reset does."""
    with changing(path) as state:
        if unit not in state:
            return NO_SUCH_UNIT
        state[unit]["resets"] = state[unit].get("resets", 0) + 1
        how, seconds = state[unit].get("on_reset", "heal"), state[unit].get("seconds", 0.0)
    if how == "slow":
        time.sleep(seconds)
    if how == "refuse":
        sys.stderr.write("the device does not answer\n")
        return 1
    if how in ("heal", "slow"):
        with changing(path) as state:
            state[unit]["codes"] = []
    return 0


def main() -> int:
    """`STATE codes|reset UNIT`."""
    path, what, unit = sys.argv[1:4]
    return codes(Path(path), unit) if what == "codes" else reset(Path(path), unit)


if __name__ == "__main__":
    sys.exit(main())
