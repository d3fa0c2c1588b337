"""The line to the node agent: JSON lines on a Unix stream socket, never blocking, connecting again with back-off.

Guarantees: an agent that is gone, paused, or never reads costs bounded memory and no time; anything that is not a message of this
version ends the line, not the command. What must arrive is kept elsewhere (`volume.py`) and offered again on the next line.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1
LONGEST_LINE = 65536  # bytes
MOST_WAITING = 65536  # bytes that wait for room in the socket
FIRST_WAIT = 0.25  # seconds between the first two tries; doubled up to
LONGEST_WAIT = 30.0


class Link:
    """At most one connection."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.socket: socket.socket | None = None
        self._in = b""
        self._out = b""
        self._again = 0.0
        self._wait = FIRST_WAIT

    def connect(self, now: float) -> bool:
        """Try if it is time; true when a line is new."""
        if self._path is None or self.socket is not None or now < self._again:
            return False
        new = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        new.setblocking(False)  # noqa: FBT003 - the standard library's name
        try:
            new.connect(str(self._path))
        except OSError:
            new.close()
            self._later(now)
            return False
        self.socket, self._in, self._out = new, b"", b""
        return True

    def next_try(self) -> float | None:
        """When to try again."""
        return None if self._path is None or self.socket is not None else self._again

    def wants_write(self) -> bool:
        """Bytes wait for room in the socket."""
        return bool(self._out)

    def has_room(self) -> bool:
        """There is a line, and the agent reads what it is told."""
        return self.socket is not None and len(self._out) < MOST_WAITING

    def send(self, message: dict[str, Any], now: float) -> bool:
        """Queue and push; false when there is no line or no room for it."""
        if not self.has_room():
            return False
        self._out += json.dumps({**message, "v": VERSION}).encode() + b"\n"
        self.flush(now)
        return self.socket is not None

    def flush(self, now: float) -> None:
        """Push what fits."""
        if self.socket is None or not self._out:
            return
        try:
            sent = self.socket.send(self._out)
        except BlockingIOError:
            return
        except OSError:
            self.drop(now)
            return
        self._out = self._out[sent:]

    def receive(self, now: float) -> list[dict[str, Any]]:
        """Whole messages that came; anything that is not one ends the line."""
        if self.socket is None:
            return []
        try:
            chunk = self.socket.recv(LONGEST_LINE)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        if not chunk:
            self.drop(now)
            return []
        *lines, self._in = (self._in + chunk).split(b"\n")
        found: list[dict[str, Any]] = []
        for line in lines:
            message = parse(line)
            if message is None:
                self.drop(now)
                return found
            found.append(message)
        if len(self._in) > LONGEST_LINE:
            self.drop(now)
        elif found:
            self._wait = FIRST_WAIT
        return found

    def drop(self, now: float) -> None:
        """End the line; the next try is later."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self._in, self._out = None, b"", b""
        self._later(now)

    def _later(self, now: float) -> None:
        self._again = now + self._wait
        self._wait = min(self._wait * 2, LONGEST_WAIT)


def parse(line: bytes) -> dict[str, Any] | None:
    """One message of this version, or nothing."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("v") != VERSION:
        return None
    return message if isinstance(message.get("type"), str) else None
