"""The demo without a terminal: one line a happening, as logs of CI have it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.text import Text

from sandbox.demo.acts import Act
from sandbox.demo.happening import Happening
from sandbox.demo.watching import Watching


class Lines:
    """See `performance.Show`."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def tell(self, happening: Happening) -> None:
        """One line; text of others is shown as it is, without markup."""
        line = f"{happening.at:%H:%M:%S.%f}"[:-3] + f"  {happening.kind.value:<9} {happening.text}"
        self._console.print(Text(line), soft_wrap=True)

    def act(self, number: int, of: int, act: Act) -> None:
        """A headline."""
        self._console.print(Text(f"--- act {number} of {of}: {act.title}: {act.watch}"), soft_wrap=True)

    def on(self, watching: Watching) -> AbstractContextManager[object]:
        """Nothing else."""
        del watching
        return nullcontext()
