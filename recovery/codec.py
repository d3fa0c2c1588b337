"""Cells to bytes and back: JSON with the kind of cell and a version.

Unknown fields of a newer release are ignored and absent ones take their defaults, so that a rolled-back release reads what the newer one
wrote (design review, 26). A cell above the hard cap is refused before it can reach the state log.
"""

from __future__ import annotations

import re
from typing import Any, Final, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from recovery.cells import AnyCell
from recovery.errors import CellError, CellTooLargeError
from recovery.interface import Cell

VERSION: Final = 1
MAX_CELL_BYTES: Final = 256 * 1024
"""Hard cap of one cell (design 5)."""


def _tag(cell_type: type[Any]) -> str:
    words = cell_type.__name__.removesuffix("Cell")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", words).lower()


_TYPES: Final[dict[str, TypeAdapter[Any]]] = {_tag(kind): TypeAdapter(kind) for kind in get_args(AnyCell)}
_TAGS: Final[dict[type[Any], tuple[bytes, TypeAdapter[Any]]]] = {
    kind: (f'{{"cell":"{_tag(kind)}","v":{VERSION},"data":'.encode(), _TYPES[_tag(kind)])
    for kind in get_args(AnyCell)
}


def encode_cell(cell: Cell) -> bytes:
    """Bytes of a cell; CellTooLargeError above the cap."""
    head, adapter = _TAGS[type(cell)]
    raw = head + adapter.dump_json(cell, exclude_defaults=True) + b"}"
    if len(raw) > MAX_CELL_BYTES:
        raise CellTooLargeError(
            f"a {type(cell).__name__} has {len(raw):,} bytes; the cap is {MAX_CELL_BYTES:,}"
        )
    return raw


def decode_cell(raw: bytes) -> Cell:
    """Cell from bytes; CellError when this release cannot read it."""
    try:
        wire = from_json(raw)
        adapter = _TYPES[wire["cell"]]
        if not 0 <= wire["v"] - VERSION + 1 <= 2:  # noqa: PLR2004 - one version back and one ahead
            raise CellError(f"cell version {wire['v']} is too far from {VERSION}, which this release writes")
        cell: Cell = adapter.validate_python(wire["data"])
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise CellError(f"stored cell {raw[:80]!r} cannot be read: {error}") from error
    return cell
