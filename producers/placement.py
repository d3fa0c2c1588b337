"""What ran on a chip or node when a signal was seen there (finding R13).

A port: the agent asks `at(chip, time)`. Here: nobody knows, and a file of intervals, for sites and drills that write it themselves.
Intervals are of one history, bounded in time and number, so that a fault told late is still stamped with what ran when it happened.

The file is JSON lines, one interval a line, the last line about a chip at a time wins:
`{"chip": "GPU-...", "since": "2026-03-01T00:00:00Z", "until": null, "placement": {"run": "...", "pod_uid": "..."}}`. Without `chip` the
interval is of all chips of the node. It is read again when it changed; while it is wrong, what was read last stays, and the fault is logged.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from producers.errors import PlacementError
from runtime import logs
from schemas.signals import ChipFault, Name, Placement, Signal

HISTORY: Final = timedelta(hours=24)
"""How far back an interval that ended is of use: the longest window of the rules."""

INTERVALS_KEPT: Final = 4096
LARGEST_FILE: Final = 4 * 1024 * 1024

_log = logs.get(__name__)


class Placements(Protocol):
    """Knows what ran where."""

    def at(self, chip: str | None, time: datetime) -> Placement | None:
        """What ran on this chip at this time (None: on the node as a whole); None when nothing did, or nobody knows."""
        ...


class NobodyKnows:
    """No placements: signals go to the node's mailbox, which has a history of its own (design 5)."""

    def at(self, chip: str | None, time: datetime) -> Placement | None:
        """Nothing."""
        del chip, time
        return None


class Interval(BaseModel):
    """Something ran there from `since` until before `until`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chip: Name | None = None
    since: AwareDatetime
    until: AwareDatetime | None = None
    placement: Placement

    def holds(self, chip: str | None, time: datetime) -> bool:
        """Whether it speaks of this chip at this time."""
        if self.chip is not None and self.chip != chip:
            return False
        return self.since <= time and (self.until is None or time < self.until)


def read_intervals(path: Path) -> list[Interval]:
    """Read a whole file. Raises PlacementError with the line that is wrong."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise PlacementError(
                f"{path}: larger than {LARGEST_FILE:,} bytes; right would be 24 h of intervals"
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PlacementError(f"{path} cannot be read: {error}") from error
    found: list[Interval] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append(Interval.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "line"
            raise PlacementError(
                f"{path}:{number}: {place}: {first['msg']} (got {first['input']!r:.100})"
            ) from None
    return found


class PlacementFile:
    """Placements from a file."""

    def __init__(self, path: Path, now: Callable[[], datetime]) -> None:
        self._path = path
        self._now = now
        self._read_at: tuple[int, int, int] | None = None
        self._intervals: list[Interval] = []

    def at(self, chip: str | None, time: datetime) -> Placement | None:
        """The last interval of the file that holds; reads the file again when it changed."""
        self._refresh()
        for interval in reversed(self._intervals):
            if interval.holds(chip, time):
                return interval.placement
        return None

    def _refresh(self) -> None:
        try:
            status = self._path.stat()
        except OSError:
            return  # what was read last stays
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        if version == self._read_at:
            return
        self._read_at = version
        try:
            intervals = read_intervals(self._path)
        except PlacementError as error:
            _log.warning("placements not read, the last ones stay", error=str(error))
            return
        oldest = self._now() - HISTORY
        recent = [one for one in intervals if one.until is None or one.until >= oldest]
        self._intervals = recent[-INTERVALS_KEPT:]


def placed(signal: Signal, placements: Placements, time: datetime) -> Signal:
    """The signal with what ran there. Only chip faults are about a chip; what speaks of the node as a whole stays the node's."""
    if signal.placement is not None or not isinstance(signal, ChipFault):
        return signal
    found = placements.at(signal.chip.id, time)
    if found is None and signal.chip.index is not None:
        found = placements.at(f"index:{signal.chip.index}", time)
    return signal if found is None else signal.model_copy(update={"placement": found})
