"""What one group of messages changes: gathered while they are handled, its emits confirmed as a whole, merged into memory only then.

A group can be confirmed again and again, byte for byte, until the broker takes it: nothing is computed twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from recovery.interface import Cell
from streams.due_times import Due, DueTimes
from streams.ports import Send
from streams.state_records import Halt, SeenOrder, SubjectKey


@dataclass(slots=True)
class Group:
    """Outcome of the messages from `first` up to, not including, `next`."""

    first: int
    next: int
    now: datetime
    """Highest append time, the group's messages included."""
    due: DueTimes | None
    """With `clock: event`: the heap as the group leaves it. Otherwise None, and `armed` is what it adds."""
    taken: int = 0
    subjects: dict[SubjectKey, dict[str, Cell]] = field(default_factory=dict)
    """All cells of each subject that changed."""
    records: dict[bytes, bytes | None] = field(default_factory=dict)
    """Encoded, the last value of each key only."""
    sends: list[Send] = field(default_factory=list)
    armed: list[Due] = field(default_factory=list)
    early: list[tuple[Due, timedelta]] = field(default_factory=list)
    """Ticks that came before their time, and how long to wait before the next try."""
    halted: dict[SubjectKey, Halt | None] = field(default_factory=dict)
    """Halted by this group, or with None taken up again."""
    resumes: tuple[SeenOrder, ...] | None = None
    """Orders to resume that came last, as the group leaves them; None: it had none."""
    rulebook: Any = None
    """Switched to by this group; None: no switch."""
    needs: str | None = None
    """Hash of the rulebook that the next message switches to; the group ends before it."""
    counts: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    """Dead letters by reason."""

    @property
    def must_be_told(self) -> bool:
        """Whether a replay would be seen from outside, so that the position has to be written with it."""
        return bool(self.records or self.sends)

    def arm(self, entry: Due) -> None:
        """A cell has a new due time."""
        if self.due is None:
            self.armed.append(entry)
        else:
            self.due.arm(entry)
