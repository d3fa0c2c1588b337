"""The source behind the socket: what supervisors said, kept once, and acknowledged only when it is on the agent's disk.

Guarantees: a report is told once however often it is offered - its number in the pod's own spool is remembered in the same record as what it
told, so that an agent killed between disk and acknowledgement takes the repetition for one. Reports wait for room like faults do, and hold back
only those who send them. Steps are a level: the newest of a pod, at most one each `progress_every`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from producers.observation import Batch, Observation, SignalClass, State
from producers.own_pods import OwnPod, Terminated
from producers.supervisors.line import Exit, Loose, Refused, Report, Step, Unreadable
from producers.supervisors.reports import Peer, Translation
from producers.told_ends import is_kill
from runtime import logs

NAME: Final = "supervisors"
MOST_AT_ONCE: Final = 64
MOST_WAITING: Final = 256
"""Reports between the lines and the disk; whoever sends more waits."""
SPOOLS_OF_A_POD: Final = 16
"""Numberings remembered a pod: one a container, and some for lost volumes."""
REMEMBERED: Final = 128
"""Pods remembered after they went: their supervisors may still repeat themselves for a moment."""
LOSS_EVERY: Final = timedelta(minutes=1)
"""Between two losses told of one pod: by a pod's word alone, people look at the node."""
LOOK_FOR_ROOM: Final = 1.0
_log = logs.get(__name__)


class Line(Protocol):
    """One open line to a supervisor."""

    def acknowledge(self, seq: int) -> None:
        """This report and all below are safe; a line that is gone is no error."""
        ...

    def end(self) -> None:
        """Let the supervisor connect again."""
        ...


@dataclass(frozen=True, slots=True)
class Offered:
    """A report with the line it came by."""

    line: Line
    peer: Peer
    seq: int
    report: Report | Unreadable


@dataclass(frozen=True, slots=True)
class ContainerEnded:
    """The kubelet says that a supervised container ended; its supervisor will say nothing more."""

    pod: OwnPod
    container: str
    end: Terminated


@dataclass(slots=True)
class _Starts:
    """What is known of the starts in one pod."""

    launch: int = 0
    """The last its supervisor spoke of."""
    told: int = 0
    """The last whose exit was told."""
    container: str = ""


@dataclass(slots=True)
class _Memory:
    """Highest number kept of one spool, and how many reports it had lost."""

    seq: int = 0
    lost: int = 0


class SupervisorReports:
    """Source of everything supervisors say."""

    name = NAME

    def __init__(
        self,
        translation: Translation,
        now: Callable[[], datetime],
        *,
        progress_every: timedelta,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """`has_room`: whether pods may still take room of the spool that faults might need."""
        self._translation = translation
        self._now = now
        self._progress_every = progress_every
        self._has_room = has_room
        self._memory: dict[str, dict[str, _Memory]] = {}
        self._starts: dict[str, _Starts] = {}
        self._reports: asyncio.Queue[Offered | ContainerEnded] = asyncio.Queue(MOST_WAITING)
        self._loose: dict[tuple[str, type[Loose]], tuple[Peer, Loose]] = {}
        self._loose_told: dict[str, datetime] = {}
        self._losses: list[Observation] = []
        self._loss_told: dict[str, datetime] = {}
        self._news = asyncio.Event()
        self._given: dict[Line, int] = {}
        self._lines: set[Line] = set()
        self._counted: dict[str, int] = {}
        self.works = True

    # ------------------------------------------------------------ from the lines

    def opened(self, line: Line, peer: Peer, lost: int, launch: int = 0) -> None:
        """A line is up; its supervisor says how many reports it ever lost, and which start was its last."""
        self._lines.add(line)
        memory = self._of(peer)
        self._starts_of(peer, launch)
        now = self._now()
        told = self._loss_told.get(peer.pod.uid)
        if lost <= memory.lost or (told is not None and abs(now - told) < LOSS_EVERY):
            return  # said with the next line
        self._losses.append(self._translation.of_loss(peer, lost, memory.lost, now))
        memory.lost = lost
        recent = {uid: at for uid, at in self._loss_told.items() if abs(now - at) < LOSS_EVERY}
        self._loss_told = {**recent, peer.pod.uid: now}
        self._news.set()

    def closed(self, line: Line) -> None:
        """A line is down."""
        self._lines.discard(line)
        self._given.pop(line, None)

    def supervised(self, pod_uid: str) -> str | None:
        """Name of the container whose supervisor was heard; None: none was."""
        starts = self._starts.get(pod_uid)
        return None if starts is None else starts.container

    def names(self, pod_uid: str, container: str) -> None:
        """The container of a supervisor whose line is up: its name may be known only after its first words."""
        starts = self._starts.get(pod_uid)
        if starts is not None:
            starts.container = container

    async def offer(self, offered: Offered | ContainerEnded) -> None:
        """Take a report, or the kubelet's word; waits while there are too many."""
        await self._reports.put(offered)
        self._news.set()

    def hear(self, peer: Peer, said: Loose) -> None:
        """Take what is said once: the newest of its kind and pod replaces the one before.

        A step that is only said again, as a sign of life, does not take the duration from what was said of it first.
        """
        _, before = self._loose.get((peer.key, type(said)), (peer, None))
        if isinstance(said, Step) and isinstance(before, Step) and said.step == before.step:
            said = said.model_copy(update={"step_seconds": said.step_seconds or before.step_seconds})
        self._loose[peer.key, type(said)] = (peer, said)
        self._news.set()

    # ------------------------------------------------------------ Source

    def restore(self, state: State | None) -> None:
        """Go on behind this state. Lines end: what was taken from them and not kept is offered again."""
        self._memory = {
            pod: {spool: _Memory(int(seq), int(lost)) for spool, (seq, lost) in spools.items()}
            for pod, spools in (state or {}).get("pods", {}).items()
        }
        self._starts = {
            pod: _Starts(int(launch), int(told), str(container))
            for pod, (launch, told, container) in (state or {}).get("starts", {}).items()
        }
        self._given.clear()
        self._losses.clear()
        while not self._reports.empty():
            self._reports.get_nowait()
        for line in tuple(self._lines):
            line.end()

    def counts(self) -> dict[str, int]:
        """Reports told, repeated, unreadable."""
        counted, self._counted = self._counted, {}
        return counted

    async def next(self) -> Batch:
        """Acknowledge what was given last, since being asked again means that it is on disk; then wait for more."""
        given, self._given = self._given, {}
        for line, seq in given.items():
            line.acknowledge(seq)
        while True:
            if (self._reports.qsize() or self._losses) and self._has_room():
                return self._batch()
            if observations := self._steps():
                return Batch(SignalClass.METRIC, observations)
            await self._wait()

    async def _wait(self) -> None:
        self._news.clear()
        timeout = LOOK_FOR_ROOM if self._reports.qsize() or self._losses else self._next_step()
        try:
            await asyncio.wait_for(self._news.wait(), timeout)
        except TimeoutError:
            return

    def _batch(self) -> Batch:
        now = self._now()
        observations, self._losses = self._losses, []
        for _ in range(min(MOST_AT_ONCE, self._reports.qsize())):
            observations += self._take(self._reports.get_nowait(), now)
        return Batch(SignalClass.EXIT, tuple(observations), self._state())

    def _take(self, offered: Offered | ContainerEnded, now: datetime) -> tuple[Observation, ...]:
        if isinstance(offered, ContainerEnded):
            return self._bury(offered, now)
        memory = self._of(offered.peer)
        if offered.line in self._lines:
            self._given[offered.line] = max(offered.seq, self._given.get(offered.line, 0))
        if offered.seq <= memory.seq:
            self._count("supervisor_repeats")
            return ()
        memory.seq = offered.seq
        if isinstance(offered.report, Unreadable):
            self._count("supervisor_unreadable")
            _log.info("a report says nothing we know", pod=offered.peer.pod.uid, why=offered.report.why)
            return ()
        self._count("supervisor_reports")
        starts = self._starts_of(offered.peer, offered.report.launch)
        if isinstance(offered.report, Exit):
            starts.told = max(starts.told, offered.report.launch, 1)
        return self._translation.of_report(offered.peer, offered.report, offered.seq, now)

    def _bury(self, ended: ContainerEnded, now: datetime) -> tuple[Observation, ...]:
        """Told where its supervisor did not live to tell it, else nothing."""
        starts = self._starts.get(ended.pod.uid)
        if starts is None or max(1, starts.launch) <= starts.told:
            return ()
        if starts.launch == 0 and not is_kill(ended.end.exit_code, oom=ended.end.oom):
            return ()  # its pre-check failed, which was told
        start = max(1, starts.launch)
        starts.told = start
        self._count("supervisor_killed")
        return (self._translation.of_end(ended.pod, ended.container, ended.end, start, now),)

    def _steps(self) -> tuple[Observation, ...]:
        now = self._now()
        due = [
            key
            for key, (peer, said) in self._loose.items()
            if isinstance(said, Refused) or self._is_due(peer, now)
        ]
        found = []
        for key in due[:MOST_AT_ONCE]:
            peer, said = self._loose.pop(key)
            if not isinstance(said, Refused):
                self._loose_told[peer.key] = now
            found.append(self._translation.of_loose(peer, said, now))
        if len(self._loose_told) > REMEMBERED:
            oldest = now - self._progress_every
            self._loose_told = {key: at for key, at in self._loose_told.items() if at > oldest}
        return tuple(found)

    def _is_due(self, peer: Peer, now: datetime) -> bool:
        told = self._loose_told.get(peer.key)
        # A clock that was set back must not silence a pod until it has caught up.
        return told is None or abs(now - told) >= self._progress_every

    def _next_step(self) -> float | None:
        if not self._loose:
            return None
        now = self._now()
        waits = [
            self._progress_every - abs(now - self._loose_told.get(peer.key, now - self._progress_every))
            for peer, _ in self._loose.values()
        ]
        return max(0.01, min(waits).total_seconds())

    # ------------------------------------------------------------ memory

    def _of(self, peer: Peer) -> _Memory:
        spools = self._memory.pop(peer.pod.uid, {})
        self._memory[peer.pod.uid] = spools  # the pods heard last stand last
        memory = spools.pop(peer.spool, None) or _Memory()
        spools[peer.spool] = memory
        while len(spools) > SPOOLS_OF_A_POD:
            del spools[next(iter(spools))]
        while len(self._memory) > REMEMBERED:
            del self._memory[next(iter(self._memory))]
        return memory

    def _starts_of(self, peer: Peer, launch: int) -> _Starts:
        starts = self._starts.pop(peer.pod.uid, None) or _Starts()
        self._starts[peer.pod.uid] = starts  # the pods heard last stand last
        starts.launch = max(starts.launch, launch)
        starts.container = peer.placement.container or starts.container
        while len(self._starts) > REMEMBERED:
            del self._starts[next(iter(self._starts))]
        return starts

    def _state(self) -> dict[str, Any]:
        pods = {
            pod: {spool: [memory.seq, memory.lost] for spool, memory in spools.items()}
            for pod, spools in self._memory.items()
        }
        starts = {pod: [one.launch, one.told, one.container] for pod, one in self._starts.items()}
        return {"pods": pods, "starts": starts}

    def _count(self, name: str) -> None:
        self._counted[name] = self._counted.get(name, 0) + 1
