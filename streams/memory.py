"""One inbox partition in memory: what is decided and told; its state is written, or being written (see `streams.state_writer`).

Cells of its subjects, position, clock, due times, halted subjects, the last orders to resume, active rulebook: rebuilt from the state log by
`restore`, moved on by `commit` when a group's emits are confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from recovery.interface import Cell
from streams.core import Core
from streams.due_times import Due, DueTimes
from streams.group import Group
from streams.ports import StateRecord
from streams.state_records import (
    CELL,
    HALTED,
    POSITION_KEY,
    RESUMES_KEY,
    RULEBOOK_KEY,
    ActiveRulebook,
    Halt,
    Position,
    Resumes,
    SeenOrder,
    SubjectKey,
    read_key,
)

NO_CELLS: Final[Mapping[str, Cell]] = {}
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_ERROR_TEXT: Final = 1000


@dataclass(frozen=True, slots=True)
class UnreadableCell:
    """A cell this release cannot read: its subject is halted at its next message, and nothing of it is lost until then."""

    error: str
    due: datetime | None = None


class Memory:
    """State of one inbox partition."""

    def __init__(self, core: Core) -> None:
        self.position: int | None = None
        """Offset of the next message; None: the state log knows none."""
        self.now = _EPOCH
        """Highest append time seen."""
        self.due = DueTimes()
        self.halted: dict[SubjectKey, Halt] = {}
        self.resumes: tuple[SeenOrder, ...] = ()
        """Orders to resume that came last: each acts once."""
        self.unreadable: dict[SubjectKey, str] = {}
        """Subjects with a cell this release cannot read, and why."""
        self.rulebook: Any = core.empty
        self.rulebook_needed: str | None = None
        """Hash of the active rulebook while its content is missing."""
        self.cell_count = 0
        self._subjects: dict[SubjectKey, dict[str, Cell]] = {}
        self._core = core

    def restore(self, records: Iterable[StateRecord]) -> None:
        """Rebuild everything from the state log, oldest record first."""
        last: dict[bytes, bytes] = {}
        for key, value in records:
            if value is None:
                last.pop(key, None)
            else:
                last[key] = value
        for key, value in last.items():
            self._restore_one(key, value)

    def cells_of(self, subject: SubjectKey) -> Mapping[str, Cell]:
        """Cells of a subject."""
        return self._subjects.get(subject, NO_CELLS)

    def subjects(self) -> Iterator[SubjectKey]:
        """Subjects that have cells."""
        return iter(self._subjects)

    def use_rulebook(self, rulebook: Any) -> None:  # noqa: ANN401 - see Core
        """Decide by this one; with it the content of the active rulebook is here."""
        self.rulebook = rulebook
        self.rulebook_needed = None

    def commit(self, group: Group, *, wall: datetime) -> None:
        """The group is confirmed: from now on it is what was. `wall` is the time by which ticks are sent."""
        self.position, self.now = group.next, group.now
        for subject, cells in group.subjects.items():
            self._keep_cells(subject, cells)
        for subject, halt in group.halted.items():
            self._keep_halt(subject, halt)
        if group.resumes is not None:
            self.resumes = group.resumes
        if group.rulebook is not None:
            self.use_rulebook(group.rulebook)
        if group.due is not None:
            self.due = group.due
        for entry in group.armed:
            self.due.arm(entry)
        for entry, wait in group.early:
            self.due.arm(entry._replace(at=wall + wait))

    def _keep_cells(self, subject: SubjectKey, cells: dict[str, Cell]) -> None:
        self.cell_count += len(cells) - len(self.cells_of(subject))
        if cells:
            self._subjects[subject] = cells
        else:
            self._subjects.pop(subject, None)

    def _keep_halt(self, subject: SubjectKey, halt: Halt | None) -> None:
        if halt is not None:
            self.halted[subject] = halt
            return
        self.halted.pop(subject, None)
        self.unreadable.pop(subject, None)

    def _restore_one(self, key: bytes, value: bytes) -> None:
        if key == POSITION_KEY:
            stored = Position.model_validate_json(value)
            self.position, self.now = stored.next, stored.now
            return
        if key == RULEBOOK_KEY:
            self.rulebook_needed = ActiveRulebook.model_validate_json(value).rulebook
            return
        if key == RESUMES_KEY:
            self.resumes = Resumes.model_validate_json(value).seen
            return
        match read_key(key):
            case [kind, cluster, subject, name] if kind == CELL:
                self._restore_cell((cluster, subject), name, value)
            case [kind, cluster, subject] if kind == HALTED:
                self.halted[cluster, subject] = Halt.model_validate_json(value)
            case _:
                pass

    def _restore_cell(self, subject: SubjectKey, name: str, value: bytes) -> None:
        cell: Cell
        try:
            cell = self._core.decode_cell(value)
        except Exception as error:  # noqa: BLE001 - whatever it raises, the other subjects are well
            cell = UnreadableCell(str(error)[:_ERROR_TEXT])
            self.unreadable[subject] = f"cell {name!r} cannot be read: {cell.error}"
        self._subjects.setdefault(subject, {})[name] = cell
        self.cell_count += 1
        if cell.due is not None:
            self.due.arm(Due(cell.due, cell.due, subject, name))
