"""The store of the sandbox: ClickHouse's engine behind ClickHouse's HTTP interface, in a process of its own that cannot outlive its starter.

A stand-in for a server, honest in what it is: the engine, its SQL, its formats and errors are the real ones; users, rights and connections are
the front's. It can stand still (`pause`), be killed and started again on its data, and misbehave as told (`suffer`).
"""

from __future__ import annotations

import http.client
import json
import sys
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from sandbox import ports
from sandbox.clickhouse_faults import PATH, Fault
from sandbox.component import Component

ROOT: Final = Path(__file__).resolve().parents[1]


class ClickHouse(Component):
    """A store with its own folder. ``with ClickHouse(folder) as store: ... store.port``.

    Args:
        folder: where `data` and `front.log` go; made when absent, data that lies there is taken up.
        patience: how long `start` waits before it raises, and a call that tells it what to suffer.
    """

    def __init__(self, folder: Path, *, patience: timedelta = timedelta(seconds=60)) -> None:
        self._folder = folder
        (self.port,) = ports.free_ports(1)
        super().__init__(
            "the store",
            ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "sandbox.clickhouse_front",
             str(folder / "data"), "--port", str(self.port)],
            log_file=folder / "front.log",
            is_ready=self._answers,
            patience=patience,
        )  # fmt: skip

    def launch(self) -> None:
        """Start without waiting. Does nothing when it runs."""
        self._folder.mkdir(parents=True, exist_ok=True)
        super().launch()

    def pause(self) -> None:
        """Answer nothing from here on, connections stay open."""
        self.suspend()

    def _answers(self) -> bool:
        try:
            return self._asked("GET", "/ping")[0] == HTTPStatus.OK
        except OSError:
            return False

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
        _, said = self._asked(method, PATH, body)
        told: dict[str, Any] = json.loads(said)
        return told

    def _asked(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        line = http.client.HTTPConnection(ports.LOOPBACK, self.port, timeout=self._patience.total_seconds())
        try:
            line.request(method, path, body)
            answer = line.getresponse()
            return answer.status, answer.read()
        finally:
            line.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
