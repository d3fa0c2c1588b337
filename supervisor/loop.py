"""The thin part: waits for signals, agent, progress and time, asks the machine, does what it says. It decides nothing."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from dataclasses import asdict
from typing import Any

from supervisor import machine, precheck
from supervisor.link import Link
from supervisor.processes import FORWARDED, Child, adopt_orphans, end_like, oom_kills
from supervisor.progress import ProgressSocket
from supervisor.settings import Settings, environment_of_start
from supervisor.volume import Volume

LOOK = 0.05  # seconds between two looks for living processes while they are being ended
IDLE = 60.0


class Supervisor:
    """One container's entry."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._settings = settings = Settings.read(os.environ)
        self._volume = Volume(settings.volume)
        self._child = Child()
        self._progress = ProgressSocket()
        self._link = Link(
            settings.agent_socket, {"type": "hello", "pod": settings.pod_uid, "run": settings.run}
        )
        self._state = machine.State(
            high_availability=settings.high_availability,
            verdict_wait=settings.verdict_wait,
            pod_grace=settings.pod_grace,
        )
        self._results: list[precheck.Result] = []
        self._ooms = oom_kills()
        self._checked: bool | None = None
        self._mailed: list[int] = []
        self._bell, self._wake = socket.socketpair()
        self._bell.setblocking(False)  # noqa: FBT003 - the standard library's name
        self._wake.setblocking(False)  # noqa: FBT003 - the standard library's name
        adopt_orphans()
        if settings.mark is not None:
            settings.mark.touch()  # from here on the command must not be started by anyone else

    def supervise(self) -> None:
        """Until the command's end; a fault of ours after the start ends as the command does, without us deciding anything."""
        try:
            self._begin()
            while True:
                self._turn()
        except Exception as error:  # noqa: BLE001 - fails open
            precheck.say(f"the supervisor broke ({error!r}): it only waits for the command now")
            self._only_wait()

    def _begin(self) -> None:
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for signum in (signal.SIGTERM, signal.SIGCHLD, *FORWARDED):
            signal.signal(signum, self._note)
        new = self._volume.starts == 0
        self._state, actions = machine.begin(self._state, time.monotonic(), check=new, wait=not new)
        if self._state.phase == machine.CHECKING:
            threading.Thread(target=self._check, daemon=True).start()
        self._do(actions)

    def _note(self, signum: int, _frame: object) -> None:
        self._mailed.append(signum)

    def _check(self) -> None:
        results = precheck.check(os.environ)
        self._results = results
        self._checked = all(result.result != precheck.FAILED for result in results)
        try:
            self._wake.send(b"\0")
        except OSError:
            return

    def _turn(self) -> None:
        now = time.monotonic()
        if self._link.connect(now):
            for report in self._volume.unsent():
                self._link.send(report, now)
        self._wait(now)
        self._signals()
        if self._checked is not None:
            passed, self._checked = self._checked, None
            for result in self._results:
                self._report("precheck", **asdict(result))
            self._decide(machine.Checked(passed))
        self._reap()
        now = time.monotonic()
        self._link.flush(now)
        for message in self._link.receive(now):
            self._message(message)
        self._tell_progress()
        if (
            self._state.phase in (machine.STOPPING, machine.ENDING, machine.HELD)
            and self._state.alive
            and self._child.gone()
        ):
            self._decide(machine.GroupGone())
        self._decide(machine.Tick())

    def _wait(self, now: float) -> None:
        times = [now + IDLE, machine.next_time(self._state), self._link.next_try()]
        if self._state.alive and self._state.phase in (machine.STOPPING, machine.ENDING, machine.HELD):
            times.append(now + LOOK)
        read: list[socket.socket] = [self._bell]
        if self._progress.socket is not None:
            read.append(self._progress.socket)
        line = self._link.socket
        if line is not None:
            read.append(line)
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
                self._child.signal(signum)

    def _reap(self) -> None:
        code = self._child.reap()
        if code is not None:
            ooms = oom_kills()
            oom = None if ooms is None or self._ooms is None else ooms > self._ooms
            self._ooms = ooms
            self._report(
                "exit",
                code=max(code, 0),
                signal=max(-code, 0),
                oom=oom,
                ordered=self._state.phase == machine.STOPPING,
            )
            self._decide(machine.ChildExit(code))

    def _message(self, message: dict[str, Any]) -> None:
        if message["type"] == "ack" and type(message.get("seq")) is int:
            self._volume.acknowledge(message["seq"])
            return
        if message.get("pod") != self._settings.pod_uid:
            self._send({"type": "refused", "reason": "not this pod", "pod": self._settings.pod_uid})
            return
        event = order_of(message, time.monotonic() - time.time())
        if event is None:
            self._send({"type": "refused", "reason": "not an order", "pod": self._settings.pod_uid})
            return
        self._decide(event)

    def _tell_progress(self) -> None:
        for word, value in self._progress.receive():
            if word == "milestone":
                self._report("milestone", name=value)
            else:
                self._send(
                    {
                        "type": "progress",
                        "pod": self._settings.pod_uid,
                        "run": self._settings.run,
                        word: int(value),
                    }
                )

    def _decide(self, event: machine.Event) -> None:
        self._state, actions = machine.decide(self._state, event, time.monotonic())
        self._do(actions)

    def _do(self, actions: list[machine.Action]) -> None:
        for action in actions:
            if action.do == "start":
                self._start()
            elif action.do == "signal":
                self._child.signal(action.value)
            elif action.do == "exit":
                self._end(action.value)
            else:
                self._answer(action)

    def _start(self) -> None:
        starts = self._volume.count_start()
        order = self._state.last
        environment = environment_of_start(
            self._settings, starts=starts, order=order, progress=self._progress.path
        )
        failed = self._child.start(self._command, environment)
        if failed is None:
            self._report("started", starts=starts)
            return
        precheck.say(f"cannot run {self._command[0]!r}: code {failed}")
        self._report("exit", code=failed, signal=0, oom=None, ordered=False)
        self._decide(machine.ChildExit(failed))

    def _answer(self, action: machine.Action) -> None:
        last = self._state.last
        said = {
            "epoch": last[0] if last else 0,
            "attempt": last[1] if last else 0,
            "state": self._state.phase,
        }
        if action.do == "refuse":
            self._send({"type": "refused", "reason": action.text, "pod": self._settings.pod_uid, **said})
            return
        self._report("state", code=self._state.code, **said)

    def _report(self, kind: str, **fields: object) -> None:
        report = {
            "type": kind,
            "pod": self._settings.pod_uid,
            "run": self._settings.run,
            "at": time.time(),
            **fields,
        }
        self._link.send(self._volume.add(report), time.monotonic())

    def _send(self, message: dict[str, Any]) -> None:
        self._link.send(message, time.monotonic())

    def _end(self, code: int) -> None:
        self._child.signal(signal.SIGKILL)
        self._progress.close()
        end_like(code)

    def _only_wait(self) -> None:
        if self._child.pid is None:
            end_like(1 if self._state.code is None else self._state.code)
        while True:
            time.sleep(LOOK)
            for signum in self._mailed[:]:
                self._mailed.remove(signum)
                if signum != signal.SIGCHLD:
                    self._child.signal(signum)
            code = self._child.reap()
            if code is not None:
                end_like(code)


def order_of(message: dict[str, Any], offset: float) -> machine.Event | None:
    """An order or an extension from the agent's words; `offset` takes wall-clock seconds to the machine's clock."""
    try:
        if message["type"] == "extend":
            return machine.Extend(_finite(message["until"]) + offset)
        if message["type"] != "desired" or message["state"] not in (
            machine.STOP,
            machine.RUN,
            machine.RELEASE,
        ):
            return None
        if type(message["epoch"]) is not int or type(message["attempt"]) is not int:
            return None
        otherwise = message.get("otherwise", machine.EXIT)
        return machine.Order(
            epoch=message["epoch"],
            attempt=message["attempt"],
            state=message["state"],
            until=_finite(message.get("until", 0.0)) + offset,
            otherwise=otherwise if otherwise == machine.RERUN else machine.EXIT,
            grace=min(max(_finite(message.get("grace", 30.0)), 0.0), 600.0),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(value)
    number = float(value)
    if not abs(number) < 1e12:  # noqa: PLR2004 - also keeps out NaN
        raise ValueError(number)
    return number
