"""The thin part: waits for signals, agent, progress and time, asks the machine, does what it says. It decides nothing.

One thread, nothing blocks but `select`; the pre-check alone has a thread of its own, since a name server or a dead mount may not answer.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from supervisor import machine, precheck
from supervisor.link import Link
from supervisor.orders import order_of
from supervisor.processes import FORWARDED, Child, adopt_orphans, end_like, oom_kills
from supervisor.progress import Progress, ProgressSocket
from supervisor.settings import Settings, environment_of_start
from supervisor.volume import Volume
from supervisor.words import say

LOOK = 0.05  # seconds between two looks for living processes while they are being ended
IDLE = 60.0  # seconds between two turns when nothing happens
LEAVING = (machine.STOPPING, machine.ENDING, machine.HELD)


class Supervisor:
    """One container's entry."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._settings = settings = Settings.read(os.environ)
        self._volume = volume = Volume(settings.volume)
        self._child = Child(adopts=adopt_orphans())
        self._progress_socket = ProgressSocket()
        self._progress = Progress()
        self._link = Link(settings.agent_socket)
        self._said = 0  # number of the last report said on this line
        epoch = settings.epoch(os.environ)
        self._state = machine.State(
            high_availability=settings.high_availability,
            verdict_wait=settings.verdict_wait,
            check_wait=settings.check_wait,
            pod_grace=settings.pod_grace,
            last=max(volume.last or (0, 0, 0), (epoch, -1, 0)),
        )
        self._ooms = oom_kills(settings.memory_events)
        self._results: list[precheck.Result] = []
        self._checked: bool | None = None
        self._mailed: list[int] = []
        self._bell, self._wake = socket.socketpair()
        self._bell.setblocking(False)  # noqa: FBT003 - the standard library's name
        self._wake.setblocking(False)  # noqa: FBT003 - the standard library's name
        self._launched = False
        if settings.mark is not None:
            settings.mark.touch()  # from here on the command must not be started by anyone else

    def supervise(self) -> bool:
        """Until the command's end, which ends this process; false when we broke before the command was started.

        A fault of ours after that ends as the command does, without us deciding anything.
        """
        try:
            self._begin()
            while True:
                self._turn()
        except Exception as error:  # noqa: BLE001 - fails open
            say(f"the supervisor broke ({error!r}): it only waits for the command now")
            with suppress(OSError):
                self._link.drop(time.monotonic())  # a line that is up and says nothing is taken for a hang
            with suppress(OSError):
                self._progress_socket.close()  # nobody reads it: who sends there must not wait
        return self._launched and self._only_wait()

    def _begin(self) -> None:
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for signum in (signal.SIGTERM, signal.SIGCHLD, *FORWARDED):
            signal.signal(signum, self._note)
        new = self._volume.launches == 0
        self._state, actions = machine.begin(self._state, time.monotonic(), check=new, wait=not new)
        if self._state.phase == machine.CHECKING:
            self._tell_agent()  # before the check can end: the answer may be that this start must wait
            threading.Thread(target=self._check, daemon=True).start()
        self._do(actions)

    def _note(self, signum: int, _frame: object) -> None:
        self._mailed.append(signum)

    def _check(self) -> None:
        results = precheck.check(os.environ, self._results.append)
        self._checked = all(result.result != precheck.FAILED for result in results)
        self._ring()

    def _ring(self) -> None:
        """Have a turn. From any thread."""
        try:
            self._wake.send(b"\0")
        except OSError:
            return

    def _turn(self) -> None:
        self._wait()
        self._signals()
        self._precheck()
        self._reap()
        self._hear_agent()
        self._hear_progress()
        self._keep_hearing()
        if self._state.phase in LEAVING and self._state.alive and self._child.gone():
            self._decide(machine.GroupGone())
        self._decide(machine.Tick())
        self._volume.obey(self._state.last)
        self._tell_agent()

    def _wait(self) -> None:
        now = time.monotonic()
        times = [now + IDLE, machine.next_time(self._state), self._link.next_try()]
        if self._state.alive and self._state.phase in LEAVING:
            times.append(now + LOOK)
        line = self._link.socket
        if line is not None and self._link.has_room():
            times.append(self._progress.due())
        read = [self._bell, *self._progress_socket.sockets, *([] if line is None else [line])]
        write = [line] if line is not None and self._link.wants_write() else []
        until = min(at for at in times if at is not None)
        ready = select.select(read, write, [], max(0.0, until - now))[0]
        if self._bell in ready:
            self._bell.recv(4096)

    def _signals(self) -> None:
        while self._mailed:
            signum = self._mailed.pop(0)
            if signum == signal.SIGTERM:
                self._decide(machine.Terminate(signum))
            elif signum in FORWARDED:
                self._child.forward(signum)

    def _precheck(self) -> None:
        while self._results:
            self._report("precheck", **asdict(self._results.pop(0)))
        if self._checked is not None:
            passed, self._checked = self._checked, None
            self._decide(machine.Checked(passed))

    def _reap(self) -> None:
        code = self._child.reap()
        if code is None:
            return
        ooms = oom_kills(self._settings.memory_events)
        oom = None if ooms is None or self._ooms is None else ooms > self._ooms
        self._ooms = ooms
        ordered = self._state.phase == machine.STOPPING
        self._report("exit", code=max(code, 0), signal=max(-code, 0), oom=oom, ordered=ordered)
        self._decide(machine.ChildExit(code))

    def _hear_agent(self) -> None:
        now = time.monotonic()
        self._link.flush(now)
        for message in self._link.receive(now):
            if message["type"] == "ack":
                if type(message.get("seq")) is int:
                    self._volume.acknowledge(min(message["seq"], self._said))
                continue
            if message.get("pod") != self._settings.pod_uid:
                self._refuse("not this pod")
                continue
            event = order_of(message, time.monotonic() - time.time())
            if event is None:
                self._refuse("not an order")
            else:
                self._decide(event)

    def _hear_progress(self) -> None:
        now = time.monotonic()
        for told in self._progress_socket.receive():
            report = self._progress.hear(told, now)
            if report is not None:
                self._volume.add(self._stamped(report))

    def _keep_hearing(self) -> None:
        """A process that cannot be heard must not be taken for a silent one: a new line says so."""
        now = time.monotonic()
        if self._progress_socket.look(now, self._ring):
            path, deaf = self._progress_socket.path, self._progress_socket.deaf
            say(
                f"{path} {'is gone' if deaf else 'is there again'}: whether this job hangs is {'not ' * deaf}seen"
            )
            self._link.drop(now)

    def _tell_agent(self) -> None:
        now = time.monotonic()
        if self._link.connect(now):
            self._said = 0
            spool = {
                "spool": self._volume.spool,
                "lost": self._volume.lost,
                "ha": self._state.high_availability,
            }
            hangs = {
                "hang_minutes": 0.0 if self._progress_socket.deaf else self._settings.hang_minutes,
                "progress": {**self._progress.standing(now), "reported": self._volume.sequence},
            }
            self._say(
                {"type": "hello", "state": self._state.phase, "code": self._state.code, **spool, **hangs}
            )
            if self._settings.word_wait > 0:
                self._decide(machine.Asked(now + self._settings.word_wait))
        while self._link.has_room():
            report = self._volume.after(self._said)
            if report is None or not self._link.send(report, now):
                break
            self._said = report["seq"]
        if self._link.has_room():
            step = self._progress.take(now)
            if step is not None:
                self._say(step)

    def _decide(self, event: machine.Event) -> None:
        self._state, actions = machine.decide(self._state, event, time.monotonic())
        self._do(actions)

    def _do(self, actions: list[machine.Action]) -> None:
        for action in actions:
            if action.do == "start":
                self._start(reset=bool(action.value))
            elif action.do == "signal":
                self._child.signal(action.value)
            elif action.do == "exit":
                self._end(action.value)
            elif action.do == "refuse":
                self._refuse(action.text)
            else:
                self._report("state", state=self._state.phase, code=self._state.code)

    def _start(self, *, reset: bool) -> None:
        self._volume.obey(self._state.last)
        self._hear_progress()  # the last words of the start before
        self._progress.begin()
        starts = self._volume.count_start(reset=reset)
        epoch, attempt = self._rank()
        environment = environment_of_start(
            os.environ,
            self._settings,
            starts=starts,
            epoch=epoch,
            attempt=attempt,
            progress=self._progress_socket.path,
        )
        failed = self._child.start(self._command, environment)
        self._launched = True
        if failed is None:
            self._report("started")
            return
        say(f"cannot run {self._command[0]!r}: code {failed}")
        self._report("exit", code=failed, signal=0, oom=None, ordered=False)
        self._decide(machine.ChildExit(failed))

    def _rank(self) -> tuple[int, int]:
        """Epoch and attempt: the last order's, or the pod's own if its template has gone on since."""
        epoch, attempt, _ = self._state.last or (0, 0, 0)
        own = self._settings.epoch(os.environ)
        return (own, 0) if own > epoch else (epoch, max(attempt, 0))

    def _stamped(self, message: dict[str, Any]) -> dict[str, Any]:
        epoch, attempt = self._rank()
        return {
            **message,
            "pod": self._settings.pod_uid,
            "run": self._settings.run,
            "epoch": epoch,
            "attempt": attempt,
            "starts": self._volume.starts,
            "launch": self._volume.launches,
            "at": time.time(),
        }

    def _report(self, type: str, **fields: object) -> None:  # noqa: A002 - the word on the wire
        """Kept until the agent acknowledges it."""
        self._volume.add(self._stamped({"type": type, **fields}))

    def _refuse(self, reason: str) -> None:
        self._say({"type": "refused", "reason": reason, "state": self._state.phase})

    def _say(self, message: dict[str, Any]) -> None:
        """Said once, to whoever listens now."""
        self._link.send(self._stamped(message), time.monotonic())

    def _end(self, code: int) -> None:
        self._volume.obey(self._state.last)
        self._tell_agent()
        self._child.signal(signal.SIGKILL)
        self._progress_socket.close()
        end_like(code)

    def _only_wait(self) -> bool:
        if self._child.pid is None:
            end_like(-signal.SIGKILL if self._state.code is None else self._state.code)
        while True:
            time.sleep(LOOK)
            while self._mailed:
                signum = self._mailed.pop(0)
                if signum != signal.SIGCHLD:
                    self._child.forward(signum)
            code = self._child.reap()
            if code is not None:
                end_like(code)
