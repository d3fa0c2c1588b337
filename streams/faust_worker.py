"""The process that runs a stage: Faust's worker, ended in good order or, when that takes too long, at once.

A stop never needs the broker: with it gone, Faust did not end within four minutes of SIGTERM (measured). What is not confirmed is handled
again by the next owner, so an abrupt end loses nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta

import faust

from runtime import logs
from streams.faust_shell import FaustShell

EXIT_OVERDUE = 1

_log = logs.get(__name__)


class StageWorker(faust.Worker):
    """Runs one shell until SIGTERM or SIGINT."""

    def __init__(self, shell: FaustShell, *, stop_grace: timedelta) -> None:
        super().__init__(shell.app, quiet=True, override_logging=False, redirect_stdouts=False)
        self.spinner = None  # it writes to the terminal
        self._shell = shell
        self._stop_grace = stop_grace

    async def _stop_on_signal(self, signal: signal.Signals) -> None:
        _end_after(self._stop_grace)
        _log.info("stopping", signal=signal.name)
        await self._shell.stop()
        await super()._stop_on_signal(signal)


def _end_after(grace: timedelta) -> None:
    timer = threading.Timer(grace.total_seconds(), _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    _log.error("did not end in time, ending at once")
    os._exit(EXIT_OVERDUE)
