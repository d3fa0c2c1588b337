"""What the training process tells, one datagram each: `step 120`, `milestone first_step`, `phase checkpoint {"edge": "begin"}`.

`WORD VALUE`, then optionally one JSON object with more fields. Steps are a level: only the newest matters, and it is sent at most once a
second. The other words are edges and are kept until acknowledged; a process that floods them loses its own words, never the report of an exit.
How far the process that runs now has come is told anew on every line (`standing`), so that an agent that was away knows it.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any, Dict, Tuple

LONGEST = 4096  # bytes of one datagram
MOST_AT_ONCE = 64
STEP_EVERY = 1.0  # seconds
BURST = 32  # edges at once
EDGES_PER_SECOND = 1.0
NAMES = {"milestone": "name", "checkpoint": "step", "phase": "name"}  # the field the value goes to
SAVE = "save"  # a checkpoint that began and has not ended, beside the phases a process names
MOST_OPEN = 16
LONGEST_NAME = 200
LARGEST_NUMBER = 18  # digits

Told = Tuple[str, Any, Dict[str, Any]]


class ProgressSocket:
    """The datagram socket behind RELIGHT_PROGRESS; without one, progress is simply not known."""

    def __init__(self) -> None:
        self.path = ""
        self.socket: socket.socket | None = None
        # Root file systems may be read-only, and a socket's path is at most 107 bytes: the first that serves.
        for base in (os.environ.get("TMPDIR"), "/tmp", "/dev/shm", os.environ.get("RELIGHT_VOLUME")):  # noqa: S108
            if base and self._made(os.path.join(base, "relight-" + os.urandom(8).hex())):
                break

    def _made(self, folder: str) -> bool:
        new = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        new.setblocking(False)  # noqa: FBT003 - the standard library's name
        try:
            os.mkdir(folder, 0o700)
            try:
                new.bind(os.path.join(folder, "progress"))
            except OSError:
                os.rmdir(folder)
                raise
        except OSError:
            new.close()
            return False
        self.path, self.socket = os.path.join(folder, "progress"), new
        return True

    def receive(self) -> list[Told]:
        """What came, a bounded number at once; what is no line of the protocol is passed over."""
        found: list[Told] = []
        for _ in range(MOST_AT_ONCE):
            if self.socket is None:
                break
            try:
                told = parse(self.socket.recv(LONGEST + 1))
            except OSError:
                break
            if told is not None:
                found.append(told)
        return found

    def close(self) -> None:
        """Remove the socket."""
        if self.socket is None:
            return
        self.socket.close()
        try:
            os.unlink(self.path)
            os.rmdir(os.path.dirname(self.path))
        except OSError:
            return


class Progress:
    """What of it is said, and when: the newest step once a second, edges within an allowance."""

    def __init__(self) -> None:
        self._step: dict[str, Any] | None = None
        self._next = 0.0
        self._allowance = float(BURST)
        self._filled = 0.0
        self._newest: int | None = None
        self._open: list[str] = []
        self._heard: float | None = None

    def begin(self) -> None:
        """A new start of the command: what the one before said is not its own, a step that still waits to be said included."""
        self._step = self._newest = self._heard = None
        self._open = []

    def standing(self, now: float) -> dict[str, Any]:
        """Newest step, phases that began and did not end, seconds since its last word; of the process that runs now."""
        silent = None if self._heard is None else max(0.0, now - self._heard)
        return {"step": self._newest, "open": list(self._open), "silent": silent}

    def hear(self, told: Told, now: float) -> dict[str, Any] | None:
        """A report to keep, or nothing: a step waits for its time."""
        word, value, fields = told
        self._heard = now
        if word == "step":
            self._newest = value
            self._step = {**fields, "type": "progress", "step": value}
            return None
        if word != "milestone":
            self._edge(SAVE if word == "checkpoint" else str(value), begins=fields.get("edge") == "begin")
        self._allowance = min(BURST, self._allowance + (now - self._filled) * EDGES_PER_SECOND)
        self._filled = now
        if self._allowance < 1:
            return None
        self._allowance -= 1
        return {**fields, "type": word, NAMES[word]: value}

    def _edge(self, name: str, *, begins: bool) -> None:
        name = name[:LONGEST_NAME]
        self._open = [one for one in self._open if one != name]
        if begins and len(self._open) < MOST_OPEN:
            self._open.append(name)

    def due(self) -> float | None:
        """When the newest step may be said; none when there is none."""
        return None if self._step is None else self._next

    def take(self, now: float) -> dict[str, Any] | None:
        """The newest step, if it is time."""
        if self._step is None or now < self._next:
            return None
        step, self._step, self._next = self._step, None, now + STEP_EVERY
        return step


def parse(line: bytes) -> Told | None:  # noqa: PLR0911 - one guard a case
    """Word, value and more fields, or nothing. Steps and checkpoints have numbers, the others have names."""
    if len(line) > LONGEST:
        return None
    word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
    value, _, more = rest.strip().partition(" ")
    if not value or (word != "step" and word not in NAMES):
        return None
    try:
        fields = json.loads(more) if more else {}
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not all(_plain(field) for field in fields.values()):
        return None
    if word not in ("step", "checkpoint"):
        return word, value, fields
    if not (value.isascii() and value.isdigit() and len(value) <= LARGEST_NUMBER):
        return None
    return word, int(value), fields


def _plain(value: object) -> bool:
    """A value that can be written down again as JSON that everyone reads."""
    if isinstance(value, list):
        return all(isinstance(one, (str, int)) for one in value)
    if isinstance(value, float):
        return abs(value) < float("inf")  # NaN is not
    return value is None or isinstance(value, (str, int))
