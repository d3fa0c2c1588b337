"""The line to the node agent: JSON lines on a Unix stream socket, never blocking, connecting again with back-off, garbage ends the line."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

VERSION = 1
LONGEST_LINE = 65536  # bytes
LONGEST_WAIT = 30.0  # seconds between two tries


class Link:
    """At most one connection. What is not acknowledged is sent again on the next one."""

    def __init__(self, path: Path | None, hello: dict[str, Any]) -> None:
        self._path = path
        self._hello = hello
        self.socket: socket.socket | None = None
        self._in = b""
        self._out = b""
        self._again = 0.0
        self._wait = 0.25

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
        self.send(self._hello, now)
        return self.socket is not None

    def next_try(self) -> float | None:
        """When to try again."""
        return None if self._path is None or self.socket is not None else self._again

    def wants_write(self) -> bool:
        """Bytes wait for room in the socket."""
        return bool(self._out)

    def send(self, message: dict[str, Any], now: float) -> None:
        """Queue and push; a reader that never reads loses the line, not our memory."""
        if self.socket is None:
            return
        self._out += json.dumps({"v": VERSION, **message}).encode() + b"\n"
        if len(self._out) > 4 * LONGEST_LINE:
            self.drop(now)
            return
        self.flush(now)

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
            self._wait = 0.25
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
    if (
        not isinstance(message, dict)
        or message.get("v") != VERSION
        or not isinstance(message.get("type"), str)
    ):
        return None
    return message
