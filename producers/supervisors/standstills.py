"""Which pods stand still: their processes told a step, and then nothing for longer than their run allows (recovery 6). Pure but for its clocks.

Any word of a training process is a sign of life, a step told twice included: only silence is evidence, since a healthy job that is restarted is
worse than a hang that is found late. Silence counts only while somebody listens and a step is due. So nothing is told of a process that told no
step yet, that is in a phase long by nature, that is stopped, ordered to stop, let go or not started, whose pod holds no device, ends or is
gone, or whose line is down or waits for its turn; after all of these, and after the agent itself was away, the time begins anew. What an
agent that starts has to know (a step was told, a phase is open) the supervisor says on every new line.

Only edges are told, once each: which stalls were told is the state that outlives the agent. `moving` ends a stall by the same process;
a process that was started anew ends it without a word. One exception: what was told right before nobody looked any more may have been on its way
for as long, and whoever decides does not act on what is old; if the pod still stands still, it is told again after as much silence as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from producers.observation import State
from producers.own_pods import OwnPod
from producers.settings import HangSettings
from producers.supervisors import line as words
from producers.supervisors.reports import Peer
from producers.supervisors.source import Line
from schemas.cluster import ProcessOrder
from schemas.signals import LongPhase

AWAY: Final = 60.0
"""Seconds without a look after which the agent was away itself: suspended, or held up. Its own absence is no silence of others."""
ON_ITS_WAY: Final = 60.0
"""Seconds for which what was told may wait before it shows that nothing gets through (`agent_process.BROKER_AWAY`, and a look)."""
TOLD_AT_MOST: Final = 128
SAVE: Final = "save"
"""A checkpoint that began and has not ended, beside the phases a process names."""
RUNNING: Final = "running"
_ENDS: Final = ("end", "broken")
_PHASES: Final = {SAVE: LongPhase.CHECKPOINT, **{phase.value: phase for phase in LongPhase}}


@dataclass(frozen=True, slots=True)
class Edge:
    """A pod's processes stand still, or move again."""

    peer: Peer
    state: Literal["stalled", "moving"]
    launch: int
    last_progress: datetime


@dataclass(frozen=True, slots=True)
class _Stall:
    """What is known of a stall that was told."""

    launch: int
    step: int
    told: float | None = field(default=None, compare=False)
    """When this agent told it, or took it over from the one before, on the monotonic clock."""
    unheard: bool = field(default=False, compare=False)
    """It may not have come through while it was news."""


@dataclass(slots=True)
class _Watch:
    """One line, and the processes behind it."""

    peer: Peer
    after: float | None
    """Seconds of silence that are too many; None: not looked at."""
    launch: int
    runs: bool
    step: int | None
    open: Counter[str]
    """Phases that began, by how many processes of the pod are in them. One whose name is not known may last for ever."""
    reported: int
    since: float
    """From when on silence counts, on the monotonic clock."""
    last: datetime
    """Of the last word, on the node's clock."""
    held_up_since: float | None = None
    """Something was said that is not read yet."""
    overdue: bool = False
    """Silent for too long at the last look: it is told by the next, so that what came meanwhile is read first."""

    @property
    def stall(self) -> _Stall:
        return _Stall(self.launch, self.step or 0)

    def passes(self, edge: words.Phase | words.Saved) -> None:
        """It is over when as many ended as began: too many begins only hide a hang."""
        name = SAVE if isinstance(edge, words.Saved) else edge.name.value
        if edge.edge == "begin":
            self.open[name] += 1
        elif edge.edge in _ENDS and self.open[name] > 0:
            self.open -= Counter([name])

    def begins_anew(self, now: float) -> None:
        self.since, self.overdue = now, False


@dataclass(slots=True)
class Standstills:
    """Listens to all lines of the node; `look` says what changed. On the event loop."""

    settings: HangSettings
    find: Callable[[str], OwnPod | None]
    clock: Callable[[], float]
    """Monotonic seconds: a clock that is set makes nobody silent."""
    now: Callable[[], datetime]
    _watches: dict[Line, _Watch] = field(default_factory=dict)
    _told: dict[str, _Stall] = field(default_factory=dict)
    _moved: list[Edge] = field(default_factory=list)
    _looked: float | None = None

    # ------------------------------------------------------------ what lines say

    def opened(self, line: Line, peer: Peer, hello: words.Hello) -> None:
        """A line is up. It takes the place of one that was: silence on that is no silence of the pod."""
        standing = hello.progress
        silent = timedelta(seconds=min(standing.silent or 0.0, timedelta(days=7).total_seconds()))
        watch = _Watch(
            peer=peer,
            after=self._after(hello),
            launch=hello.launch,
            runs=hello.state == RUNNING,
            step=standing.step,
            open=Counter(standing.open),
            reported=standing.reported,
            since=self.clock(),
            last=max(self.now() - silent, min(peer.pod.started, self.now())),
        )
        kept = {one: other for one, other in self._watches.items() if other.peer.key != peer.key}
        self._watches = {**kept, line: watch}
        told = self._told.get(peer.key)
        if told is not None and told != watch.stall:
            self._forget(watch, moved=told.launch == watch.launch and watch.step is not None)

    def closed(self, line: Line) -> None:
        """A line is down: nothing is known of its pod until it is up again."""
        self._watches.pop(line, None)

    def listens(self, line: Line, *, listens: bool) -> None:
        """Whether what this line says is read at once, or waits behind something that has no room or no turn."""
        watch = self._watches.get(line)
        if watch is None:
            return
        if not listens:
            watch.held_up_since = self.clock()
        elif watch.held_up_since is not None:
            if self.clock() - watch.held_up_since > AWAY:
                watch.begins_anew(self.clock())
            watch.held_up_since = None

    def heard(self, line: Line, peer: Peer, message: words.Message) -> None:
        """Whatever a line says after its hello."""
        watch = self._watches.get(line)
        if watch is None or isinstance(message, words.Hello) or _is_older(message, watch):
            return
        watch.peer = peer
        if not isinstance(message, words.Unreadable) and message.launch > watch.launch:
            watch.launch, watch.step, watch.open = message.launch, None, Counter()
            watch.begins_anew(self.clock())
            self._forget(watch, moved=False)
        match message:
            case words.Exit():
                watch.runs = False
            case words.State():
                watch.runs = message.state == RUNNING
            case words.Started():
                watch.runs = True
            case words.PreCheck() | words.Refused():
                return
            case words.Step():
                watch.step = message.step
                if message.open is not None:
                    watch.open = Counter(message.open)
                self._lives(watch)
            case words.Phase() | words.Saved():
                watch.passes(message)
                self._lives(watch)
            case _:
                self._lives(watch)

    def _lives(self, watch: _Watch) -> None:
        watch.begins_anew(self.clock())
        watch.last = self.now()
        if watch.peer.key in self._told:
            self._forget(watch, moved=True)

    def _forget(self, watch: _Watch, *, moved: bool) -> None:
        """A stall that was told is over."""
        if self._told.pop(watch.peer.key, None) is not None and moved:
            self._moved.append(Edge(watch.peer, "moving", watch.launch, watch.last))

    # ------------------------------------------------------------ looking

    def look(self) -> tuple[Edge, ...]:
        """Edges since the last look."""
        now = self.clock()
        if self._looked is not None and now - self._looked > AWAY:
            for watch in self._watches.values():
                watch.begins_anew(now)
            self._doubts_what_was_told_since(self._looked - ON_ITS_WAY)
        self._looked = now
        moved, self._moved = self._moved, []
        return (*moved, *self._stalled(now))

    def _stalled(self, now: float) -> Iterator[Edge]:
        for watch in self._watches.values():
            key = watch.peer.key
            told = self._told.get(key)
            if (told is not None and not told.unheard) or watch.held_up_since is not None:
                continue
            if not watch.runs or not self._is_expected(watch):
                watch.begins_anew(now)
                continue
            allowed = self._allowed(watch)
            if allowed is None or now - watch.since < allowed:
                watch.overdue = False
            elif not watch.overdue:
                watch.overdue = True
            elif told is not None or self._can_remember():
                self._told[key] = replace(watch.stall, told=now)
                yield Edge(watch.peer, "stalled", watch.launch, watch.last)

    def _doubts_what_was_told_since(self, began: float) -> None:
        for key, stall in self._told.items():
            if stall.told is not None and stall.told >= began:
                self._told[key] = replace(stall, unheard=True)

    def _can_remember(self) -> bool:
        """Room for one more stall: what could not be remembered would be told again and again. Pods without a line go first."""
        if len(self._told) >= TOLD_AT_MOST:
            heard = {watch.peer.key for watch in self._watches.values()}
            self._told = {key: stall for key, stall in self._told.items() if key in heard}
        return len(self._told) < TOLD_AT_MOST

    def _is_expected(self, watch: _Watch) -> bool:
        """The pod is there to train: nobody wants its processes to stop, and it holds devices (seed 001: hangs are of GPU and NPU jobs)."""
        pod = self.find(watch.peer.pod.uid)
        if pod is None or pod.gone or pod.leaving or pod.over:
            return False
        order = pod.desired
        if order is not None and order.epoch >= pod.epoch and order.state is not ProcessOrder.RUN:
            return False
        return bool(pod.resources or pod.chips)

    def _allowed(self, watch: _Watch) -> float | None:
        """Seconds of silence that are not too many; None: any number."""
        if watch.after is None:
            return None
        if not watch.open:
            return None if watch.step is None else watch.after
        known = [_PHASES[name] for name in watch.open if name in _PHASES]
        named = [
            self.settings.phases[phase].total_seconds() for phase in known if phase in self.settings.phases
        ]
        return max(watch.after, *named) if len(named) == len(watch.open) else None

    def _after(self, hello: words.Hello) -> float | None:
        if not self.settings.enabled or not hello.ha or hello.hang_minutes == 0:
            return None
        if hello.hang_minutes is None:
            return self.settings.after.total_seconds()
        return hello.hang_minutes * 60

    # ------------------------------------------------------------ what outlives the agent, what others see

    def state(self) -> State:
        """Stalls that were told."""
        return {"told": {key: [stall.launch, stall.step] for key, stall in self._told.items()}}

    def restore(self, state: State | None) -> None:
        """Go on behind this state: a stall that is not in it was not kept, and is told again if it lasts.

        When an agent before this one told it is not known: where nobody can be told from now on, it may not have come through either.
        """
        now = self.clock()
        if self._looked is None:
            self._looked = now
        told = (state or {}).get("told", {})
        standing = {watch.peer.key: watch.stall for watch in self._watches.values()}
        stalls = {key: _Stall(int(launch), int(step), told=now) for key, (launch, step) in told.items()}
        ours = {key: self._told[key] for key, stall in stalls.items() if self._told.get(key) == stall}
        kept = {key: stall for key, stall in stalls.items() if standing.get(key, stall) == stall}
        self._told = {key: ours.get(key, stall) for key, stall in kept.items()}
        self._moved.clear()

    @property
    def standing(self) -> int:
        """Pods that were told to stand still, and have not moved."""
        return sum(watch.peer.key in self._told for watch in list(self._watches.values()))

    def silences(self) -> list[tuple[OwnPod, float]]:
        """Seconds since the last word, of pods that run and told a step."""
        now = self.now()
        return [
            (watch.peer.pod, max(0.0, (now - watch.last).total_seconds()))
            for watch in list(self._watches.values())
            if watch.runs and watch.step is not None
        ]


def _is_older(message: words.Message, watch: _Watch) -> bool:
    """Said before the hello, which says it already, or by a start before this one."""
    numbered = not isinstance(message, words.Loose)  # what is said once has no number of its own
    if numbered and message.seq is not None and message.seq <= watch.reported:
        return True
    return not isinstance(message, words.Unreadable) and message.launch < watch.launch
