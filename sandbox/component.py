"""One program of the sandbox: started tied to this process, stopped, killed, frozen, started again with the same arguments.

Guarantees: it answers its readiness check when `start` returns; it never outlives the process that started it. Not safe to drive
from several threads at once.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

from sandbox import tied_process
from sandbox.errors import NotRunning, StartFailed

LOOK_EVERY: Final = timedelta(milliseconds=50)
LOG_END: Final = 4000  # characters of a log that an error shows


class Component:
    """A program with its arguments and its log.

    Args:
        name: what messages call it.
        command: program and arguments, the same at every start.
        log_file: what it says, kept over restarts.
        is_ready: asked again and again while it starts.
        patience: how long `wait_until_ready` and `stop` wait before they give up (the one raises, the other kills).
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_file: Path,
        is_ready: Callable[[], bool],
        patience: timedelta,
    ) -> None:
        self.name = name
        self.log_file = log_file
        self._command = list(command)
        self._is_ready = is_ready
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running program."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start without waiting: for those that wait for each other. Does nothing when it runs."""
        if self.is_running:
            return
        with self.log_file.open("ab") as log:
            self._process = tied_process.start(self._command, stdout=log, stderr=log)

    def wait_until_ready(self) -> None:
        """Return when it serves.

        Raises:
            NotRunning: it was not launched.
            StartFailed: it ended or did not serve in time; the message holds the end of its log.
        """
        process = self._running_or_ended()
        deadline = time.monotonic() + self._patience.total_seconds()
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise StartFailed(f"{self.name} ended with {process.returncode}:\n{self._end_of_log()}")
            if self._is_ready():
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_EVERY.total_seconds())
        raise StartFailed(f"{self.name} did not serve within {self._patience}:\n{self._end_of_log()}")

    def start(self) -> Self:
        """Launch and wait until it serves. Does nothing when it runs.

        Raises:
            StartFailed: it ended or did not serve in time; it is not left running.
        """
        if self.is_running:
            return self
        self.launch()
        try:
            self.wait_until_ready()
        except StartFailed:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Stop in good order (SIGTERM); kill it after `patience`. Does nothing when it is down."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGCONT)  # a frozen process would not hear SIGTERM
        process.terminate()
        try:
            process.wait(self._patience.total_seconds())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does. Does nothing when it is down."""
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait()
        self._process = None

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def suspend(self) -> None:
        """Freeze it (SIGSTOP): connections stay open and nothing answers."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise NotRunning(f"{self.name} is not running")
        return self._process

    def _running_or_ended(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise NotRunning(f"{self.name} was not started")
        return self._process

    def _end_of_log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")[-LOG_END:]
