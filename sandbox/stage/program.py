"""One process of relight's, started through its command line with an environment of its own, as a service manager would."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from sandbox.component import Component

ROOT: Final = Path(__file__).resolve().parents[2]
PATIENCE: Final = timedelta(seconds=60)


def bare_environment(home: Path) -> dict[str, str]:
    """What any process of relight's needs, and nothing that is set where this runs."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT)}


class Program(Component):
    """`relight ARGUMENTS`; ready when its log says so.

    Args:
        name: what messages call it.
        arguments: of the command line.
        folder: where its log goes.
        environment: all it gets besides PATH and HOME; settings of whoever runs this do not leak in.
        says: what its log says once it works, and how often; nothing: ready as soon as it runs.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        says: tuple[str, int] = ("", 0),
    ) -> None:
        given = {**bare_environment(folder), **environment}
        variables = [f"{key}={value}" for key, value in given.items()]
        super().__init__(
            name,
            ["env", "-i", *variables, sys.executable, "-m", "relight.cli", *arguments],
            log_file=folder / f"{name}.log",
            is_ready=self._said_so,
            patience=PATIENCE,
        )
        self._says, self._times = says
        self._begins_at = 0

    def launch(self) -> None:
        """Start without waiting; what an earlier start said does not make this one ready."""
        if not self.is_running:
            self._begins_at = self.log_file.stat().st_size if self.log_file.exists() else 0
        super().launch()

    def said(self) -> str:
        """What it said since its last start."""
        with self.log_file.open("rb") as log:
            log.seek(self._begins_at)
            return log.read().decode("utf-8", "replace")

    @property
    def works(self) -> bool:
        """It runs, and has said that it works."""
        return self.is_running and self._said_so()

    def _said_so(self) -> bool:
        return self.said().count(self._says) >= self._times
