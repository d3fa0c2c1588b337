"""What the training process tells: one datagram a line, `step 120`, `checkpoint 100` or `milestone rendezvous`."""

from __future__ import annotations

import os
import socket
import tempfile

LONGEST = 256  # bytes
MOST_AT_ONCE = 64
WORDS = 2  # a word and its value


class ProgressSocket:
    """The datagram socket behind RELIGHT_PROGRESS; without one, progress is simply not known."""

    def __init__(self) -> None:
        self.path = ""
        self.socket: socket.socket | None = None
        try:
            path = os.path.join(tempfile.mkdtemp(prefix="relight-"), "progress")
            new = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            new.setblocking(False)  # noqa: FBT003 - the standard library's name
            new.bind(path)
        except OSError:
            return
        self.path, self.socket = path, new

    def receive(self) -> list[tuple[str, str]]:
        """What came, a bounded number at once; what is no line of the protocol is passed over."""
        found: list[tuple[str, str]] = []
        for _ in range(MOST_AT_ONCE):
            if self.socket is None:
                break
            try:
                parsed = parse(self.socket.recv(LONGEST + 1))
            except OSError:
                break
            if parsed is not None:
                found.append(parsed)
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


def parse(line: bytes) -> tuple[str, str] | None:
    """Word and value, or nothing."""
    words = line.decode("utf-8", "replace").split()
    if len(line) > LONGEST or len(words) != WORDS or words[0] not in ("step", "checkpoint", "milestone"):
        return None
    if words[0] != "milestone" and not (words[1].isascii() and words[1].isdigit()):
        return None
    return words[0], words[1]
