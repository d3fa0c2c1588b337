"""The Unix socket supervisors connect to: who speaks is the kernel's word, how much is bounded, what is wanted of a pod is told on every line.

A process that is in no pod, or in one the API does not give this node within `known_within`, is refused. Lines are bounded in number, in all
and a pod; each in the size of a line, in what may be said, and in what waits to be read by it. Orders are levels: told when a line begins and
whenever the pod's object says something new, so that neither side needs to remember what the other has heard.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from producers.errors import LineBroken, PeerUnknown
from producers.own_pods import OwnPod
from producers.settings import SupervisorSettings
from producers.supervisors import line as words
from producers.supervisors.allowance import Allowance
from producers.supervisors.ends import ContainerEnds
from producers.supervisors.peers import PeerPod, PodResolver, identify
from producers.supervisors.reports import CHECKING, HELD, WAITING, Peer
from producers.supervisors.source import Offered, SupervisorReports
from producers.supervisors.standstills import Standstills
from runtime import logs
from schemas.cluster import Desired

BACKLOG: Final = 128
ACCEPTED_AT_ONCE: Final = 64
"""Connections taken before everybody else has a turn."""
CONNECT_TOKENS: Final = 5.0
REPORT_TOKENS: Final = 4.0
"""What a report that is kept costs beside its line: one a second in the long run, where five lines may be said."""
LOOK_AT_QUEUE: Final = 1.0
"""Seconds between two looks whether anybody waits to be accepted (see `peers`)."""
_log = logs.get(__name__)

FindPod = Callable[[str], OwnPod | None]
MustWait = Callable[[OwnPod], Awaitable[bool]]


async def nobody_waits(_: OwnPod) -> bool:
    """Where nothing is known of other pods, each may start."""
    return False


class SupervisorLine:
    """One accepted connection."""

    def __init__(self, pod: PeerPod, writer: asyncio.StreamWriter, most_waiting: int) -> None:
        self.pod_uid = pod.uid
        self.container_id = pod.container_id
        self.container = pod.container
        self.peer: Peer | None = None
        self.phase = ""
        self.phase_since = 0.0
        self.told: Desired | None = None
        self.starts_first = False
        """Its pod has started nothing yet: it waits by one word, which is not repeated."""
        self._writer = writer
        self._most_waiting = most_waiting

    def acknowledge(self, seq: int) -> None:
        """See `source.Line`."""
        self.say(words.ack(seq))

    def end(self) -> None:
        """See `source.Line`."""
        self._writer.transport.abort()

    def say(self, message: bytes) -> None:
        """Queue; a supervisor that never reads loses the line, not our memory."""
        transport = self._writer.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() + len(message) > self._most_waiting:
            _log.warning("a supervisor does not read, its line ends", pod=self.pod_uid)
            transport.abort()
            return
        self._writer.write(message)

    def stands(self, phase: str) -> None:
        """Its supervisor says where it stands."""
        if phase != self.phase:
            self.phase, self.phase_since = phase, time.monotonic()


class SupervisorServer:
    """Listens, reads, tells. Everything happens on one event loop."""

    def __init__(
        self,
        settings: SupervisorSettings,
        resolver: PodResolver,
        find: FindPod,
        source: SupervisorReports,
        standstills: Standstills,
        *,
        may_promise: Callable[[], bool] = lambda: False,
        must_wait: MustWait = nobody_waits,
    ) -> None:
        """`may_promise`: whether what a pod reports reaches whoever decides, and the decision could reach us.

        `must_wait`: whether a pod that has started nothing is to wait for an order first (see `first_start`).
        """
        self._settings = settings
        self._resolver = resolver
        self._find = find
        self._source = source
        self._standstills = standstills
        self._may_promise = may_promise
        self._must_wait = must_wait
        self._allowance = Allowance(
            rate=settings.lines_per_second,
            burst=settings.burst,
            total_rate=settings.total_per_second,
            total_burst=settings.total_burst,
            clock=time.monotonic,
        )
        self._lines: set[SupervisorLine] = set()
        self._ends = ContainerEnds(source, self._has_line, settings.exit_told_within)
        self._serving: dict[asyncio.Task[None], str] = {}
        self._changed = asyncio.Event()
        self._listener: socket.socket | None = None
        self._quiet_at = 0.0
        self.counted: Counter[str] = Counter()

    @property
    def lines(self) -> int:
        """Lines that are up."""
        return len(self._lines)

    async def run(self) -> None:
        """Listen until cancelled. Raises OSError when the socket cannot be made."""
        loop = asyncio.get_running_loop()
        self._listener = listener = _listen(self._settings.socket, self._settings.mode)
        loop.add_reader(listener, self._accept_waiting)
        promising = loop.create_task(self._promise())
        try:
            while True:
                self._accept_waiting()
                await asyncio.sleep(LOOK_AT_QUEUE)
        finally:
            loop.remove_reader(listener)
            promising.cancel()
            self._ends.close()
            tasks = [promising, *self._serving]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            listener.close()
            with suppress(OSError):
                self._settings.socket.unlink()

    def pod_changed(self, pod: OwnPod) -> None:
        """The API says something new of a pod; on the event loop."""
        self._changed.set()
        self._changed = asyncio.Event()
        for line in [one for one in self._lines if one.pod_uid == pod.uid and one.peer is not None]:
            if not pod.gone:
                self._tell(line, pod)
                placement = pod.placement(line.container_id, line.container)
                if placement is not None and placement.container:
                    self._source.names(pod.uid, placement.container)
        self._ends.heard(pod)

    def _has_line(self, pod_uid: str) -> bool:
        return any(line.pod_uid == pod_uid and line.peer is not None for line in self._lines)

    # ------------------------------------------------------------ accepting

    def _accept_waiting(self) -> None:
        assert self._listener is not None  # noqa: S101 - only called while listening
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                peer, _ = self._listener.accept()
            except BlockingIOError:
                self._quiet_at = time.clock_gettime(time.CLOCK_BOOTTIME)
                return
            except OSError as error:  # descriptors run out, or the peer is gone already
                self.counted["not_accepted"] += 1
                _log.warning("a supervisor could not be accepted", error=str(error))
                return
            peer.setblocking(False)  # noqa: FBT003 - the standard library's name
            try:
                pod = self._admit(peer)
            except PeerUnknown as error:
                self.counted["refused"] += 1
                _log.info("refused", reason=str(error))
                peer.close()
            else:
                task = asyncio.get_running_loop().create_task(self._serve(peer, pod))
                self._serving[task] = pod.uid
                task.add_done_callback(self._serving.pop)

    def _admit(self, peer: socket.socket) -> PeerPod:
        pod = identify(peer, self._resolver, quiet_at=self._quiet_at)
        if len(self._serving) >= self._settings.lines:
            raise PeerUnknown(f"{len(self._serving)} lines are up, no more are held")
        if list(self._serving.values()).count(pod.uid) >= self._settings.lines_of_a_pod:
            raise PeerUnknown(f"pod {pod.uid} has {self._settings.lines_of_a_pod} lines up already")
        if self._allowance.own(pod.uid, CONNECT_TOKENS) > 0:
            raise PeerUnknown(f"pod {pod.uid} has spent its allowance")
        return pod

    async def _serve(self, accepted: socket.socket, pod: PeerPod) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=words.LONGEST_LINE)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        line = SupervisorLine(pod, writer, self._settings.most_waiting)
        self._lines.add(line)
        try:
            await self._talk(line, reader)
        except (LineBroken, PeerUnknown) as error:
            self.counted["broken" if isinstance(error, LineBroken) else "refused"] += 1
            _log.warning("a line ended", pod=pod.uid, reason=str(error))
        except (OSError, TimeoutError):
            self.counted["lost"] += 1
        except Exception:  # noqa: BLE001 - one line must not take the others with it
            self.counted["failed"] += 1
            _log.exception("a line failed by an error of ours", pod=pod.uid)
        finally:
            self._source.closed(line)
            self._standstills.closed(line)
            self._lines.discard(line)
            writer.transport.abort()

    # ------------------------------------------------------------ a line

    async def _talk(self, line: SupervisorLine, reader: asyncio.StreamReader) -> None:
        async with asyncio.timeout(self._settings.known_within.total_seconds()):
            hello = words.parse(await self._read(line, reader))
            if not isinstance(hello, words.Hello):
                raise LineBroken(f"the first line is no hello: {hello!r:.100}")
            self._is_own(line, hello)
            pod = await self._known(line)
        line.peer = self._peer(line, pod, hello.spool)
        line.stands(hello.state)
        self._source.opened(line, line.peer, hello.lost, hello.launch)
        self._standstills.opened(line, line.peer, hello)
        self._tell(line, pod)
        line.starts_first = hello.launch == 0
        if hello.ha and hello.launch == 0 and hello.state in (CHECKING, WAITING):
            await self._let_start(line, pod)
        while raw := await self._read(line, reader):
            await self._heard(line, words.parse(raw), hello.spool)

    async def _heard(self, line: SupervisorLine, message: words.Message, spool: str) -> None:
        if message.seq is not None and not isinstance(message, words.Loose):
            await self._in_turn(line, REPORT_TOKENS)
        pod = self._find(line.pod_uid)
        if pod is not None:  # a pod that went may still say how it ended
            line.peer = self._peer(line, pod, spool)
        assert line.peer is not None  # noqa: S101 - a line speaks after its hello
        if isinstance(message, words.Unreadable):
            self.counted["unreadable"] += 1
            self._standstills.heard(line, line.peer, message)
            if message.seq is not None:
                await self._source.offer(Offered(line, line.peer, message.seq, message))
            return
        self._is_own(line, message)
        self._standstills.heard(line, line.peer, message)
        if isinstance(message, words.Step | words.Refused):
            self._source.hear(line.peer, message)
        elif isinstance(message, words.Hello) or message.seq is None:
            raise LineBroken(f"{message.type} without a number, or in the middle of a line")
        else:
            if isinstance(message, words.State):
                line.stands(message.state)
            elif isinstance(message, words.Started):
                line.stands("running")
            await self._source.offer(Offered(line, line.peer, message.seq, message))

    async def _read(self, line: SupervisorLine, reader: asyncio.StreamReader) -> bytes:
        """One line once its turn has come; empty at the end."""
        self._standstills.listens(line, listens=True)
        try:
            raw = await reader.readuntil()
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError as error:
            raise LineBroken(f"a line of more than {words.LONGEST_LINE:,} bytes") from error
        self._standstills.listens(line, listens=False)
        await self._in_turn(line, 1 + len(raw) / self._settings.bytes_a_token)
        return raw[:-1] or b" "

    async def _in_turn(self, line: SupervisorLine, tokens: float) -> None:
        if (wait := self._allowance.own(line.pod_uid, tokens)) > 0:
            self.counted["slowed"] += 1
            await asyncio.sleep(wait)
        if (wait := self._allowance.common(tokens)) > 0:
            await asyncio.sleep(wait)

    def _is_own(self, line: SupervisorLine, said: words.Said) -> None:
        if said.pod and said.pod != line.pod_uid:
            raise LineBroken(f"it speaks for pod {said.pod:.100}, and is in {line.pod_uid}")

    async def _known(self, line: SupervisorLine) -> OwnPod:
        """The pod's object, waiting for the watch to bring it. Raises PeerUnknown, TimeoutError."""
        while (pod := self._find(line.pod_uid)) is None:
            await self._changed.wait()
        if pod.run is None:
            raise PeerUnknown(f"pod {pod.namespace}/{pod.name} is of no run")
        return pod

    def _peer(self, line: SupervisorLine, pod: OwnPod, spool: str) -> Peer:
        placement = pod.placement(line.container_id, line.container)
        if placement is None:
            raise PeerUnknown(f"pod {pod.namespace}/{pod.name} is of no run any more")
        return Peer(pod, placement, spool)

    # ------------------------------------------------------------ telling

    def _tell(self, line: SupervisorLine, pod: OwnPod) -> None:
        if pod.desired is not None and pod.desired != line.told:
            line.told = pod.desired
            line.say(words.desired(pod.uid, pod.desired))

    async def _let_start(self, line: SupervisorLine, pod: OwnPod) -> None:
        """Say until when the first start waits: now, for most. An order that stands is the answer itself."""
        waits = self._may_promise() and not _is_told(line, pod) and await self._must_wait(pod)
        if waits and not _is_told(line, pod):
            self.counted["first_start_held"] += 1
            _log.warning("a pod replaces one of its epoch, its start waits", pod=pod.uid, run=pod.run)
            line.say(words.extend(pod.uid, time.time() + self._settings.replacement_waits.total_seconds()))
        else:
            line.say(words.extend(pod.uid, time.time()))

    async def _promise(self) -> None:
        """While a verdict is due and could reach us, say so; each word lasts a little longer than until the next."""
        settings = self._settings
        every = settings.promise_every.total_seconds()
        while True:
            await asyncio.sleep(every)
            if not self._may_promise():
                continue
            for line in list(self._lines):
                since = time.monotonic() - line.phase_since
                if line.peer is None or line.phase not in (HELD, WAITING):
                    continue
                if line.phase == WAITING and line.starts_first:
                    continue
                if since < settings.promise_at_most.total_seconds():
                    line.say(words.extend(line.pod_uid, time.time() + settings.promise_lasts.total_seconds()))


def _is_told(line: SupervisorLine, pod: OwnPod) -> bool:
    """An order of the pod's epoch was told on this line."""
    return line.told is not None and line.told.epoch >= pod.epoch


def _listen(path: Path, mode: int) -> socket.socket:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()  # an agent's before us; two live ones are kept apart by the spool's lock
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        listener.bind(str(path))
        os.chmod(path, mode)  # noqa: PTH101 - the path is a socket by now
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
