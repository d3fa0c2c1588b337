"""What was done about repair orders, on disk before it is done: one small file, replaced whole.

An agent that is killed at any moment finds here whether a chip may have been touched for an order, what was answered, and how often each chip
was reset lately. A file that cannot be read is kept beside and begun anew; orders under way then are only looked at (see `orders`).
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from actuators.node_agent.orders import Ending, Key, Stage
from runtime import logs

MOST_KEPT: Final = 256
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Record:
    """One order."""

    stage: Stage
    at: datetime
    ending: Ending | None = None
    told: bool = False
    """The signal is in the spool."""


class Journal:
    """The file. Raises OSError when it cannot be written: then nothing may be done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[Key, Record] = {}
        self._resets: list[tuple[datetime, tuple[str, ...]]] = []
        self._read()

    @property
    def resets(self) -> list[tuple[datetime, tuple[str, ...]]]:
        """Times and chips of the resets that were begun, oldest first."""
        return list(self._resets)

    def find(self, key: Key) -> Record | None:
        """What is known of an order."""
        return self._records.get(key)

    def claim(self, key: Key, now: datetime) -> None:
        """It is ours to do; the chip is untouched."""
        self._put(key, Record(Stage.CLAIMED, now))

    def begin(self, key: Key, chips: tuple[str, ...], now: datetime) -> None:
        """From here on the chip may have been reset for it."""
        self._resets = [*self._resets, (now, chips)][-MOST_KEPT:]
        self._put(key, Record(Stage.BEGUN, now))

    def end(self, key: Key, ending: Ending, now: datetime) -> None:
        """What became of it."""
        self._put(key, Record(Stage.DONE, now, ending))

    def told(self, key: Key) -> None:
        """Its signal is in the spool."""
        self._put(key, replace(self._records[key], told=True))

    def _put(self, key: Key, record: Record) -> None:
        records = {one: kept for one, kept in self._records.items() if one != key}
        while len(records) >= MOST_KEPT:
            del records[next(iter(records))]
        records[key] = record
        self._write(records)
        self._records = records

    def _write(self, records: dict[Key, Record]) -> None:
        said = {
            "orders": [[*key, _record(record)] for key, record in records.items()],
            "resets": [[at.isoformat(), list(chips)] for at, chips in self._resets],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            json.dump(said, file, separators=(",", ":"))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _read(self) -> None:
        try:
            said = json.loads(self._path.read_bytes())
            self._records = {
                (str(unit), str(incident), int(attempt)): _read_record(record)
                for unit, incident, attempt, record in said["orders"]
            }
            self._resets = [(datetime.fromisoformat(at), tuple(chips)) for at, chips in said["resets"]]
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            kept = self._path.with_suffix(".unreadable")
            self._path.replace(kept)
            self._records, self._resets = {}, []
            _log.error(
                "the journal of repairs cannot be read, it begins anew", kept=str(kept), error=str(error)
            )


def _record(record: Record) -> dict[str, Any]:
    said: dict[str, Any] = {"stage": record.stage.value, "at": record.at.isoformat(), "told": record.told}
    if record.ending is not None:
        said["ending"] = [record.ending.result, record.ending.detail, list(record.ending.codes_left)]
    return said


def _read_record(said: dict[str, Any]) -> Record:
    ending = None
    if said.get("ending") is not None:
        result, detail, left = said["ending"]
        ending = Ending(result, str(detail), tuple(left))
    return Record(Stage(said["stage"]), datetime.fromisoformat(said["at"]), ending, bool(said["told"]))
