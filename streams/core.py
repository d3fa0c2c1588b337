"""The pure core as the stage sees it: one function, a codec for cells, a compiler for rulebooks.

A parameter of the stage, so that the stage can be tortured with a core whose right answer a test can compute in ten lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from recovery.interface import Advance, Cell, Cells, Delivery


class Core(Protocol):
    """What decides. Pure: the same arguments give the same result."""

    @property
    def empty(self) -> Any:  # noqa: ANN401 - a rulebook is the core's own business
        """Rulebook of a partition that was never switched to one: facts are kept, nothing acts."""
        ...

    def advance(self, cells: Cells, delivery: Delivery, rulebook: Any) -> Advance:  # noqa: ANN401 - as above
        """Changed cells and emits of one message."""
        ...

    def encode_cell(self, cell: Cell) -> bytes:
        """Bytes of a cell."""
        ...

    def decode_cell(self, raw: bytes) -> Cell:
        """Cell from bytes."""
        ...

    def compile_rulebook(self, content: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as above
        """Rulebook from its released content."""
        ...


class RelightCore:
    """relight's own: `recovery.advance`, its codec, the compiler of `rules`."""

    def __init__(self) -> None:
        from recovery import advance  # noqa: PLC0415 - loaded when used: tests of the shell need no rules
        from recovery.codec import decode_cell, encode_cell  # noqa: PLC0415 - as above
        from rules.compiled import EMPTY, compile_document  # noqa: PLC0415 - as above

        self.empty = EMPTY
        self.advance = advance
        self.encode_cell = encode_cell
        self.decode_cell = decode_cell
        self._compile = compile_document

    def compile_rulebook(self, content: Mapping[str, Any]) -> Any:  # noqa: ANN401 - see Core
        """Rulebook from its released content."""
        return self._compile(dict(content))
