"""The store of the sandbox: ClickHouse's engine behind ClickHouse's HTTP interface, in a process of its own that cannot outlive its starter.

A stand-in for a server, honest in what it is: the engine, its SQL, its formats and errors are the real ones; users, rights and connections are
the front's. It can stand still (`pause`), be killed and started again on its data, and misbehave as told (`suffer`).
"""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from sandbox import ports, tied_process
from sandbox.clickhouse_faults import PATH, Fault
from sandbox.errors import NotRunning, StartFailed

LOOK_SECONDS: Final = 0.05


class ClickHouse:
    """A store with its own folder. ``with ClickHouse(folder) as store: ... store.port``."""

    def __init__(self, folder: Path, *, patience: timedelta = timedelta(seconds=60)) -> None:
        self._folder = folder
        self._patience = patience.total_seconds()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        """Port on loopback; the same for all starts."""

    def start(self) -> Self:
        """Start and wait until it answers. Raises StartFailed with what it said."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.port = self.port or ports.free_ports(1)[0]
        log = self._folder / "front.log"
        command = [sys.executable, "-m", "sandbox.clickhouse_front", str(self._folder / "data")]
        with log.open("ab") as out:
            self._process = tied_process.start(
                [*command, "--port", str(self.port)],
                cwd=Path(__file__).resolve().parents[1],
                stdout=out,
                stderr=out,
            )
        deadline = time.monotonic() + self._patience
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise StartFailed(f"the store did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(LOOK_SECONDS)
        return self

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{ports.LOOPBACK}:{self.port}/ping", timeout=1) as answer:
                return bool(answer.status == 200)  # noqa: PLR2004 - HTTP's OK
        except (urllib.error.URLError, OSError):
            return False

    def pause(self) -> None:
        """Answer nothing from here on, connections stay open."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Answer again."""
        self._running().send_signal(signal.SIGCONT)

    def suffer(self, fault: Fault) -> None:
        """From here on (see `sandbox.clickhouse_faults`); a store that is started again suffers nothing."""
        self._told("POST", fault.to_json())

    def recover(self) -> None:
        """No more faults."""
        self._told("DELETE")

    def suffered(self) -> int:
        """How often a fault struck since the last start."""
        return int(self._told("GET")["struck"])

    def _told(self, method: str, body: bytes | None = None) -> dict[str, Any]:
        self._running()
        line = http.client.HTTPConnection(ports.LOOPBACK, self.port, timeout=self._patience)
        try:
            line.request(method, PATH, body)
            told: dict[str, Any] = json.loads(line.getresponse().read())
            return told
        finally:
            line.close()

    def kill(self) -> None:
        """End it at once, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End it in good order."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise NotRunning("the store does not run")
        return self._process

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
