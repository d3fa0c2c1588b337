"""The watcher: informers feed one queue, one thread translates it and fills the outbox, the publisher sends.

Kinds are listed one after the other - nodes, Jobs, pods - so that a pod finds its node and its run; afterwards their watches run side by side
and what comes early waits in the translator. The queue is bounded: while the broker is away and the outbox is full nothing is read, the
server ends the watches, and the next list tells what was missed. States are repeated only while the API answers and the Lease is
ours, so that nobody repeats what may be old.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from producers.cluster.agents import lean_agent
from producers.cluster.lean import LeanSource, Trim, lean_job, lean_node, lean_own_pod, lean_pod
from producers.cluster.outbox import Outbox
from producers.cluster.settings import WatcherSettings
from producers.cluster.telling import Telling
from producers.cluster.translator import Translator
from runtime import logs, paths
from runtime.informer import Difference, Informer, Source
from schemas.cluster import JOB_UID_LABEL

_QUEUE: Final = 5_000
_TURN: Final = 0.2
_log = logs.get(__name__)


@dataclass(slots=True)
class Counted:
    """What the watcher counted; read by other threads."""

    differences: int = 0
    tellings: int = 0
    repeated: int = 0
    listed: bool = False


@dataclass(slots=True)
class _Eye:
    """One informer, and what hears it."""

    name: str
    informer: Informer
    hears: Callable[[Difference], list[Telling]]
    thread: threading.Thread | None = None


_Item = tuple[_Eye, Difference | None]


class Watcher:
    """Runs in the calling thread until `stop`; raises what broke one of its informers."""

    def __init__(
        self,
        source: Source,
        translator: Translator,
        outbox: Outbox,
        settings: WatcherSettings,
        *,
        may_repeat: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`may_repeat`: whether what we know is surely still for us to say; `clock` counts seconds and never goes back."""
        self._source = source
        self._translator = translator
        self._outbox = outbox
        self._settings = settings
        self._may_repeat = may_repeat
        self._clock = clock
        self._queue: queue.Queue[_Item] = queue.Queue(_QUEUE)
        self._stop = threading.Event()
        self._broken: BaseException | None = None
        self._started: set[str] = set()
        self._due = 0.0
        self._turned = clock()
        self.counted = Counted()
        self.eyes = self._make_eyes()

    def _make_eyes(self) -> list[_Eye]:
        watch, translator = self._settings.watch, self._translator
        eyes = [self._eye("nodes", paths.nodes(), lean_node, translator.node, watch.node_labels)]
        eyes += [
            self._eye(f"pods of {namespace}", paths.pods(namespace), lean_own_pod, translator.own_pod)
            for namespace in watch.protected_namespaces
        ]
        if watch.agents:
            eyes.append(self._eye("agents", paths.pods(), lean_agent, translator.agent, watch.agents))
        eyes.append(self._eye("jobs", paths.jobs(), lean_job, translator.job, watch.job_labels))
        eyes.append(self._eye("pods", paths.pods(), lean_pod, translator.pod, JOB_UID_LABEL))
        return eyes

    def _eye(
        self,
        name: str,
        path: str,
        trim: Trim,
        hears: Callable[[Difference], list[Telling]],
        labels: str = "",
    ) -> _Eye:
        informer = Informer(
            LeanSource(self._source, trim),
            path,
            lambda difference: self._put((eye, difference)),
            labels=labels,
            listed=lambda: self._put((eye, None)),
            relist=self._settings.watch.relist,
        )
        eye = _Eye(name, informer, hears)
        return eye

    # ------------------------------------------------------------ running

    def stop(self) -> None:
        """End `run` soon, from any thread."""
        self._stop.set()

    @property
    def silent(self) -> list[str]:
        """Kinds for which the API does not answer at present."""
        return [eye.name for eye in self.eyes if eye.informer.failing_since is not None]

    def run(self) -> None:
        """Watch until `stop`."""
        self._start(self.eyes[0])
        try:
            while not self._stop.is_set():
                self._turn()
        finally:
            self._stop.set()
            for eye in self.eyes:
                eye.informer.stop()
            for eye in self.eyes:
                if eye.thread is not None:
                    eye.thread.join()
        if self._broken is not None:
            raise self._broken

    def _turn(self) -> None:
        try:
            eye, difference = self._queue.get(timeout=_TURN)
        except queue.Empty:
            pass
        else:
            self._hear(eye, difference)
        self._repeat()
        self._wait_for_room()

    def _hear(self, eye: _Eye, difference: Difference | None) -> None:
        if difference is not None:
            self.counted.differences += 1
            self._send(eye.hears(difference))
            return
        if eye.name in self._started:
            return  # a later list: its differences were told
        self._started.add(eye.name)
        following = self.eyes.index(eye) + 1
        if following < len(self.eyes):
            self._start(self.eyes[following])
            return
        self._send(self._translator.listed())
        self.counted.listed = True
        _log.info("everything was listed", told=self.counted.tellings, known=self._translator.known)

    def _repeat(self) -> None:
        """Spread the repetition of all states evenly over its period."""
        now = self._clock()
        passed, self._turned = now - self._turned, now
        if not self.counted.listed or self.silent or not self._may_repeat():
            return
        self._due += self._translator.known * passed / self._settings.watch.repeat.total_seconds()
        count = int(self._due)
        if count:
            self._due -= count
            again = self._translator.repeat(count)
            self.counted.repeated += len(again)
            self._send(again)

    def _send(self, tellings: Sequence[Telling]) -> None:
        if tellings:
            self.counted.tellings += len(tellings)
            self._outbox.append(tellings)

    def _wait_for_room(self) -> None:
        while len(self._outbox) >= self._settings.outbox.most and not self._stop.wait(_TURN):
            self._turned = self._clock()

    # ------------------------------------------------------------ informers

    def _start(self, eye: _Eye) -> None:
        eye.thread = threading.Thread(target=self._look, args=(eye,), name=f"watch {eye.name}", daemon=True)
        eye.thread.start()

    def _look(self, eye: _Eye) -> None:
        try:
            eye.informer.run()
        except BaseException as error:  # noqa: BLE001 - a dead informer is a blind watcher: the process must end
            self._broken = error
            self._stop.set()

    def _put(self, item: _Item) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_TURN)
            except queue.Full:
                continue
            return
