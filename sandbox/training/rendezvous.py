"""How the ranks of one start find each other: rank 0 listens, the others connect and say who they are; all begin together or none.

The address comes from MASTER_ADDR and MASTER_PORT or, where pods have no names for each other, from a file in a shared folder. That file may
be an old one: a rank reads it again before each try. Peers of another job, epoch or size are turned away, so that a process of an old epoch that
still lives never meets a new one. A rank that comes twice was started again: its later connection counts.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from sandbox.training.errors import NoRendezvous, PeerLost
from sandbox.training.wire import Line

AGAIN = 0.05  # seconds between two tries
GREETING = 5.0  # seconds a connection may take to say who it is


@dataclass(frozen=True)
class Place:
    """Where to meet: a fixed address, or a folder in which rank 0 writes its own."""

    host: str
    port: int
    folder: Path | None

    @property
    def file(self) -> Path | None:
        """Where rank 0's address stands."""
        return None if self.folder is None else self.folder / "rendezvous"

    def address(self) -> tuple[str, int] | None:
        """Rank 0's address as known now."""
        if self.file is None:
            return self.host, self.port
        try:
            host, port = self.file.read_text(encoding="ascii").split()
            return host, int(port)
        except (OSError, ValueError):
            return None


@dataclass(frozen=True)
class Member:
    """Who one is; all but the rank must be the same for all."""

    job: str
    epoch: int
    world: int
    rank: int

    def hello(self) -> dict[str, object]:
        """As said on the wire."""
        return {"job": self.job, "epoch": self.epoch, "world": self.world, "rank": self.rank}


def gather(place: Place, me: Member, *, patience: float, silence: float) -> list[Line]:
    """Rank 0's part: lines to ranks 1, 2, ... in this order, once all are there.

    Raises:
        NoRendezvous: not all came within `patience` seconds.
    """
    deadline = time.monotonic() + patience
    with socket.create_server((place.host, place.port)) as server, selectors.DefaultSelector() as waiting:
        if place.file is not None:
            _publish(place.file, *server.getsockname()[:2])
        waiting.register(server, selectors.EVENT_READ)
        lines: dict[int, Line] = {}
        while not _complete(lines, me.world):
            left = deadline - time.monotonic()
            if left <= 0:
                missing = sorted(set(range(1, me.world)) - set(lines))
                raise NoRendezvous(f"ranks {missing} did not come within {patience} s")
            if waiting.select(min(left, AGAIN)):
                _welcome(server, me, lines, silence)
    for line in _in_order(lines):
        line.say({"welcome": True})
    return _in_order(lines)


def join(place: Place, me: Member, *, patience: float, silence: float) -> Line:
    """The other ranks' part: a line to rank 0, once all are there.

    Raises:
        NoRendezvous: rank 0 was not found, or turned us away until `patience` seconds had passed.
    """
    deadline = time.monotonic() + patience
    why = "its address is not known"
    while time.monotonic() < deadline:
        address = place.address()
        if address is not None:
            line = None
            try:
                line = Line(socket.create_connection(address, GREETING), GREETING)
                line.say(me.hello())
                if _welcomed(line, place, address, deadline):
                    line.connection.settimeout(silence)
                    return line
                why = f"{address} turned us away"
            except (OSError, PeerLost) as error:
                why = f"{address}: {error}"
            if line is not None:
                line.close()
        time.sleep(AGAIN)
    raise NoRendezvous(f"rank 0 was not found within {patience} s: {why}")


def _welcomed(line: Line, place: Place, address: tuple[str, int], deadline: float) -> bool:
    """Wait for the answer, which comes when all are there; given up when rank 0 turns out to be elsewhere (a stopped one answers nobody)."""
    while time.monotonic() < deadline and place.address() == address:
        if select.select([line.connection], [], [], AGAIN)[0]:
            return line.hear().get("welcome") is True
    return False


def _welcome(server: socket.socket, me: Member, lines: dict[int, Line], silence: float) -> None:
    connection, _ = server.accept()
    line = Line(connection, GREETING)
    try:
        said = line.hear()
        rank = said.get("rank")
        if said != {**me.hello(), "rank": rank} or not isinstance(rank, int) or not 0 < rank < me.world:
            line.say({"welcome": False})
            line.close()
            return
    except PeerLost:
        line.close()
        return
    connection.settimeout(silence)
    earlier = lines.pop(rank, None)
    if earlier is not None:
        earlier.close()
    lines[rank] = line


def _complete(lines: dict[int, Line], world: int) -> bool:
    """All are there and none has left again while it waited for the others."""
    for rank, line in list(lines.items()):
        timeout = line.connection.gettimeout()
        line.connection.setblocking(False)  # noqa: FBT003 - the standard library's name
        try:
            left = line.connection.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            left = False
        except OSError:
            left = True
        line.connection.settimeout(timeout)
        if left:
            line.close()
            del lines[rank]
    return len(lines) == world - 1


def _in_order(lines: dict[int, Line]) -> list[Line]:
    return [lines[rank] for rank in sorted(lines)]


def _publish(file: Path, host: str, port: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text(f"{host} {port}", encoding="ascii")
    new.replace(file)
