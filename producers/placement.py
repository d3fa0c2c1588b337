"""What ran on a chip at a time: stamped on a signal where it is seen, since later nobody knows for sure (finding R13).

The port, and an implementation that reads intervals from a file written by whoever starts pods (a script, a test, later the node agent's own watch).
Guarantees: an answer is given only when it is certain - one placement on that chip at that time; two jobs on a chip, or none, give None, and the
node's history decides. Bounded in entries and age; a file that cannot be read leaves the last good one in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from producers.errors import PlacementError
from runtime import logs
from schemas.signals import ChipRef, Name, Placement

INTERVALS_KEPT: Final = 4096
KEPT_FOR: Final = timedelta(hours=24)
"""Ended intervals are remembered as long as the longest window (design 5)."""

LARGEST_FILE: Final = 8 * 1024 * 1024

_log = logs.get(__name__)


class Placements(Protocol):
    """Knows what runs where on this node."""

    def on_chip(self, chip: ChipRef, at: datetime) -> Placement | None:
        """What ran on the chip at that time, if that is certain. Answers from memory, at once."""
        ...


class Interval(BaseModel):
    """One container on one chip. The chip is named by its id, or by `bus:<bus>` or `index:<n>` where that is all that is known."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    chip: Name
    placement: Placement
    begin: AwareDatetime = Field(alias="from")
    end: Annotated[AwareDatetime | None, Field(alias="until")] = None

    def covers(self, at: datetime) -> bool:
        """Whether it ran at that time."""
        return self.begin <= at and (self.end is None or at < self.end)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    intervals: list[Interval]


class NoPlacements:
    """Knows nothing: signals go out unplaced."""

    def on_chip(self, chip: ChipRef, at: datetime) -> Placement | None:
        """None, always."""
        del chip, at


class KnownPlacements:
    """Answers from a given list of intervals."""

    def __init__(self, intervals: Iterable[Interval]) -> None:
        self._by_chip: dict[str, list[Interval]] = {}
        for interval in sorted(intervals, key=lambda each: each.begin)[-INTERVALS_KEPT:]:
            self._by_chip.setdefault(interval.chip, []).append(interval)

    def on_chip(self, chip: ChipRef, at: datetime) -> Placement | None:
        """What ran there, or None when nothing, several things, or nobody knows."""
        names = [chip.id]
        names += [f"bus:{chip.bus}"] if chip.bus else []
        names += [f"index:{chip.index}"] if chip.index is not None else []
        found: list[Placement] = []
        for name in dict.fromkeys(names):
            found += [
                interval.placement
                for interval in self._by_chip.get(name, ())
                if interval.covers(at) and interval.placement not in found
            ]
        return found[0] if len(found) == 1 else None


class PlacementFile:
    """Answers from a JSON file, read again when it changes: {"intervals": [{"chip", "placement", "from", "until"}]}."""

    def __init__(self, path: Path, now: Callable[[], datetime]) -> None:
        self._path = path
        self._now = now
        self._read: tuple[int, int, int] | None = None
        self._known = KnownPlacements(())

    def on_chip(self, chip: ChipRef, at: datetime) -> Placement | None:
        """See `KnownPlacements`."""
        self._refresh()
        return self._known.on_chip(chip, at)

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
        except OSError:
            return
        seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if seen == self._read:
            return
        self._read = seen
        try:
            intervals = read_placements(self._path)
        except PlacementError as error:
            _log.warning("the placement file was not taken; the last good one stays", error=str(error))
            return
        oldest = self._now() - KEPT_FOR
        self._known = KnownPlacements(each for each in intervals if each.end is None or each.end >= oldest)


def read_placements(path: Path) -> list[Interval]:
    """Read a placement file. Raises PlacementError with the place of the first fault."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise PlacementError(f"{path} is larger than {LARGEST_FILE:,} bytes")
        return _File.model_validate_json(raw).intervals
    except OSError as error:
        raise PlacementError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"])) or "the file"
        raise PlacementError(f"{path}: {place}: {fault['msg']} (got {fault['input']!r:.100})") from None
