"""What the training process tells, one datagram each: `step 120`, `milestone first_step`, `phase checkpoint {"edge": "begin"}`.

`WORD VALUE`, then optionally one JSON object with more fields. Steps are a level: only the newest matters, and it is sent at most once a
second. The other words are edges and are kept until acknowledged; a process that floods them loses its own words, never the report of an exit.
How far the process that runs now has come is told anew on every line (`standing`), so that an agent that was away knows it.

Silence may end a job, so whatever comes is a sign of life: what cannot be read costs its fields, or is passed on as the newest step said again.
Every step line says which phases are open, and each edge is followed by one: it tells of edges that were lost, or that the agent cannot read.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from typing import Any, Callable, Dict, Tuple

LONGEST = 4096  # bytes of a word's fields that are kept
LONGEST_READ = 65536  # bytes of one datagram
MOST_AT_ONCE = 64
STEP_EVERY = 1.0  # seconds
BURST = 32  # edges at once
EDGES_PER_SECOND = 0.5  # a step line each second and this are what an agent takes from one pod
NAMES = {"milestone": "name", "checkpoint": "step", "phase": "name"}  # the field the value goes to
SAVE = "save"  # a checkpoint that began and has not ended, beside the phases a process names
ENDS = {"checkpoint": (None, "end", "broken"), "phase": ("end",)}  # edges by which what began is over
MOST_OPEN = 8  # names that are told apart
MORE = "more"  # some phase beyond these began; that it ended is never known
MOST_SAID = 16  # open phases in one message: each of a pod's processes may be in one
LONGEST_NAME = 64
MOST_FIELDS = 64
MOST_REPLACED = 4  # sockets still read after they were removed: who is connected to one learns of no next
LARGEST_NUMBER = 18  # digits
LOOK_EVERY = 60.0  # seconds between two looks whether the socket is still there

Told = Tuple[str, Any, Dict[str, Any]]
LIFE: Told = ("", None, {})
"""Something was said that says nothing we know."""


class ProgressSocket:
    """The datagram socket behind RELIGHT_PROGRESS; without one, progress is simply not known."""

    def __init__(self) -> None:
        self.path = ""
        self.socket: socket.socket | None = None
        self.deaf = False  # it went, and cannot be made again: silence says nothing
        self._replaced: list[socket.socket] = []
        self._look_at = 0.0
        self._looking: threading.Thread | None = None
        self._stands = True
        self._seen = False
        # Root file systems may be read-only, and a socket's path is at most 107 bytes: the first that serves.
        for base in (os.environ.get("TMPDIR"), "/tmp", "/dev/shm", os.environ.get("RELIGHT_VOLUME")):  # noqa: S108
            if base and self._made(os.path.join(base, "relight-" + os.urandom(8).hex())):
                break

    def _made(self, folder: str) -> bool:
        try:
            os.mkdir(folder, 0o700)
            try:
                self._bind(os.path.join(folder, "progress"))
            except OSError:
                os.rmdir(folder)
                raise
        except OSError:
            return False
        return True

    def _bind(self, path: str) -> None:
        new = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        new.setblocking(False)  # noqa: FBT003 - the standard library's name
        try:
            new.bind(path)
        except OSError:
            new.close()
            raise
        self.path, self.socket = path, new

    @property
    def sockets(self) -> list[socket.socket]:
        """All that is read: the one at the path, and those that were there before."""
        return [*self._replaced, *([] if self.socket is None else [self.socket])]

    def look(self, now: float, wake: Callable[[], object] = lambda: None) -> bool:
        """Now and then: is it still there, after an `rm -rf /tmp/*`? If not it is made again at its path; true when `deaf` changed.

        What was seen is known at the next call; `wake` is called when it is time for that.
        """
        if self._looking is None:
            if self.path and now >= self._look_at:
                self._look_at = now + LOOK_EVERY
                # Beside the work: a file system whose server is gone answers nobody, for ever.
                self._begin_to_look(wake)
            return False
        if not self._seen:
            return False
        self._looking, self._seen = None, False
        before, self.deaf = self.deaf, not (self._stands or self._made_again())
        return before != self.deaf

    def _begin_to_look(self, wake: Callable[[], object]) -> None:
        looking = threading.Thread(target=self._see, args=(wake,), daemon=True)
        try:
            looking.start()
        except RuntimeError:  # the container has no room for one more thread
            return
        self._looking = looking

    def _see(self, wake: Callable[[], object]) -> None:
        try:
            self._stands = self.socket is not None and stat.S_ISSOCK(os.stat(self.path).st_mode)
        except OSError:
            self._stands = False
        self._seen = True
        wake()

    def _made_again(self) -> bool:
        if self.socket is not None:
            if len(self._replaced) < MOST_REPLACED:
                self._replaced.append(self.socket)
            else:
                self.socket.close()
            self.socket = None
        try:
            if not os.path.isdir(os.path.dirname(self.path)):
                os.mkdir(os.path.dirname(self.path), 0o700)
            self._bind(self.path)
        except OSError:
            return False
        return True

    def receive(self) -> list[Told]:
        """What came, a bounded number at once."""
        found: list[Told] = []
        for one in self.sockets:
            for _ in range(MOST_AT_ONCE):
                try:
                    found.append(parse(one.recv(LONGEST_READ)))
                except OSError:
                    break
        return found

    def close(self) -> None:
        """Remove the socket."""
        for one in self.sockets:
            one.close()
        if self.socket is None:
            return
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
        self._open: dict[str, int] = {}
        self._more = False
        self._heard: float | None = None

    def begin(self) -> None:
        """A new start of the command: what the one before said is not its own, a step that still waits to be said included."""
        self._step = self._newest = self._heard = None
        self._open, self._more = {}, False

    def standing(self, now: float) -> dict[str, Any]:
        """Newest step, phases that began and did not end, seconds since its last word; of the process that runs now."""
        silent = None if self._heard is None else max(0.0, now - self._heard)
        return {"step": self._newest, "open": self._said_open(), "silent": silent}

    def hear(self, told: Told, now: float) -> dict[str, Any] | None:
        """A report to keep, or nothing: a step waits for its time."""
        word, value, fields = told
        self._heard = now
        if word == "step":
            self._newest = value
            self._step = {**fields, "type": "progress", "step": value}
            return None
        if self._step is None and self._newest is not None:
            self._step = {"type": "progress", "step": self._newest}
        if not word:
            return None
        if word in ENDS:
            self._edge(SAVE if word == "checkpoint" else str(value), fields.get("edge"), ENDS[word])
        self._allowance = min(BURST, self._allowance + (now - self._filled) * EDGES_PER_SECOND)
        self._filled = now
        if self._allowance < 1:
            return None
        self._allowance -= 1
        return {**fields, "type": word, NAMES[word]: value}

    def _edge(self, name: str, edge: object, ends: tuple[str | None, ...]) -> None:
        """Several processes may be in one phase: it is over when as many ended as began."""
        if edge == "begin" and (name in self._open or len(self._open) < MOST_OPEN):
            self._open[name] = self._open.get(name, 0) + 1
        elif edge == "begin":
            self._more = True
        elif edge in ends and name in self._open:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

    def _said_open(self) -> list[str]:
        """Each name, then the others of the same name as far as there is room: the next edge says again what had none."""
        names = [*self._open, *([MORE] if self._more else [])]
        again = [name for name, count in self._open.items() for _ in range(min(count, MOST_SAID) - 1)]
        return (names + again)[:MOST_SAID]

    def due(self) -> float | None:
        """When the newest step may be said; none when there is none."""
        return None if self._step is None else self._next

    def take(self, now: float) -> dict[str, Any] | None:
        """The newest step, if it is time."""
        if self._step is None or now < self._next:
            return None
        step, self._step, self._next = self._step, None, now + STEP_EVERY
        return {**step, "open": self._said_open()}


def parse(line: bytes) -> Told:
    """Word, value and more fields. Steps and checkpoints have numbers, the others have names; what is no word is still a sign of life."""
    word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
    value, _, more = rest.strip().partition(" ")
    if not value or (word != "step" and word not in NAMES):
        return LIFE
    fields = _fields(more)
    if fields is None:
        if word != "step":
            return LIFE  # the edge may have been among them
        fields = {}
    if word not in ("step", "checkpoint"):
        return word, value[:LONGEST_NAME], fields
    if not (value.isascii() and value.isdigit() and len(value) <= LARGEST_NUMBER):
        return LIFE
    return word, int(value), fields


def _fields(more: str) -> dict[str, Any] | None:
    """Those that are fit to be passed on, short ones first as far as there is room; nothing when it is no JSON object."""
    try:
        found = json.loads(more) if more else {}
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    given = [name for name in list(found)[:MOST_FIELDS] if name != "seq"]  # that is the number of a report
    fit = [name for name in given if _plain(found[name])]
    sizes = sorted((len(json.dumps({name: found[name]})), name) for name in fit)
    kept, left = {}, LONGEST
    for size, name in sizes:
        left -= size
        if left >= 0:
            kept[name] = found[name]
    return kept


def _plain(value: object) -> bool:
    """A value that can be written down again as JSON that everyone reads."""
    if isinstance(value, list):
        return all(isinstance(one, (str, int)) for one in value)
    if isinstance(value, float):
        return abs(value) < float("inf")  # NaN is not
    return value is None or isinstance(value, (str, int))
