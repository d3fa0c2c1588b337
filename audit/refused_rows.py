"""A batch with rows in it that the store does not take: the others are written, and those become dead letters.

The batch is halved until the rows are found. A half has the token of its batch and its place in it, so that the same batch after a restart is
halved into the same blocks. A dead letter has the place of its message and its bytes, so that nothing is lost and a gap is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from audit.batches import Batch
from audit.errors import RowsRefused
from audit.rows import KEPT_OF_UNREADABLE

_PLACE: Final = ("arrived", "topic", "partition", "offset")
_DEAD_LETTERS: Final = "dead_letters"


class Insert(Protocol):
    """What writing needs of the store."""

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, token: str
    ) -> None:
        """Insert one block. Raises StoreAway, StoreRefused, RowsRefused."""
        ...


def insert_batch(store: Insert, batch: Batch) -> int:
    """Write a batch; how many of its rows became dead letters. Raises StoreAway, StoreRefused, and RowsRefused for a dead letter."""
    try:
        store.insert(batch.table, batch.columns, batch.rows, token=batch.token)
    except RowsRefused as error:
        if batch.table == _DEAD_LETTERS and len(batch.rows) == 1:
            raise
        if len(batch.rows) == 1:
            letter = _dead_letter(batch, str(error))
            store.insert(letter.table, letter.columns, letter.rows, token=letter.token)
            return 1
        middle = len(batch.rows) // 2
        halves = (batch.rows[:middle], "a"), (batch.rows[middle:], "b")
        return sum(
            insert_batch(store, replace(batch, rows=rows, token=batch.token + half)) for rows, half in halves
        )
    return 0


def _dead_letter(batch: Batch, why: str) -> Batch:
    row = dict(zip(batch.columns, batch.rows[0], strict=True))
    original = str(row.get("payload") or {name: value for name, value in row.items() if name not in _PLACE})
    letter = {
        "stage": "audit",
        "reason": "refused_by_store",
        "detail": _text(why)[:2000],
        "from_topic": row["topic"],
        "from_partition": row["partition"],
        "from_offset": row["offset"],
        "bytes": len(_text(original).encode()),
        "original": _text(original)[:KEPT_OF_UNREADABLE],
        **{name: row[name] for name in _PLACE},
    }
    return Batch(_DEAD_LETTERS, tuple(letter), (tuple(letter.values()),), batch.token + "dead")


def _text(value: str) -> str:
    """As UTF-8 can hold it: half a surrogate pair may be what was refused."""
    return value.encode("utf-8", "backslashreplace").decode()
