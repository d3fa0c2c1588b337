"""What must outlive a container within its pod, on the pod-scoped volume; a volume that cannot be written costs memory only, never the job.

Two files, each replaced whole: `kept` (launches, the counter the process sees, rank of the last order obeyed) and `reports` (what the agent
has not acknowledged, behind a line that says how far numbers have gone). A number is never used twice within one spool, and the spool has a
name, so that (spool, seq) tells a report from its repetition for good, a lost volume included.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Tuple

from supervisor.words import say

MOST_REPORTS = 256
LAST_TO_GO = ("exit", "started")
Rank = Tuple[int, int, int]


class Volume:
    """The pod-scoped folder."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._broken = False
        kept = _record(self._read("kept"))
        self.launches = _count(kept.get("launches"))
        self.starts = _count(kept.get("starts"))
        self.last = _rank(kept.get("last"))
        head, *lines = self._read("reports").splitlines() or [""]
        header = _record(head)
        self._reports = _reports(lines)
        self.sequence = max([_count(header.get("seq")), *(report["seq"] for report in self._reports)])
        self.lost = _count(header.get("lost"))
        name = header.get("spool")
        self.spool = name if isinstance(name, str) and name else os.urandom(8).hex()

    def count_start(self, *, reset: bool = False) -> int:
        """One more start, written down before it happens; what the process will see as its counter."""
        self.launches += 1
        self.starts = 1 if reset else self.starts + 1
        self._keep()
        return self.starts

    def obey(self, last: Rank | None) -> None:
        """Remember the rank of the last order, so that a new container of this pod takes nothing older."""
        if last != self.last:
            self.last = last
            self._keep()

    def add(self, report: dict[str, Any]) -> None:
        """Keep a report until it is acknowledged; exits and starts are the last to go when there are too many."""
        self.sequence += 1
        self._reports.append({**report, "seq": self.sequence})
        while len(self._reports) > MOST_REPORTS:
            at = next((i for i, one in enumerate(self._reports) if one["type"] not in LAST_TO_GO), 0)
            del self._reports[at]
            self.lost += 1
        self._save()

    def acknowledge(self, sequence: int) -> None:
        """Forget what the agent has: this number and all below."""
        kept = [report for report in self._reports if report["seq"] > sequence]
        if len(kept) != len(self._reports):
            self._reports = kept
            self._save()

    def after(self, sequence: int) -> dict[str, Any] | None:
        """The first report above this number that is not acknowledged."""
        return next((report for report in self._reports if report["seq"] > sequence), None)

    def _keep(self) -> None:
        kept = {"launches": self.launches, "starts": self.starts, "last": self.last}
        self._write("kept", json.dumps(kept) + "\n")

    def _save(self) -> None:
        header = {"spool": self.spool, "seq": self.sequence, "lost": self.lost}
        self._write("reports", "".join(json.dumps(line) + "\n" for line in (header, *self._reports)))

    def _write(self, name: str, text: str) -> None:
        if self._folder is None:
            return
        try:
            new = self._folder / (name + ".new")
            new.write_text(text, encoding="utf-8")
            os.replace(str(new), str(self._folder / name))
            self._broken = False
        except OSError as error:  # read-only or full: memory has it
            if not self._broken:
                say(
                    f"{self._folder} cannot be written ({error}): counters and reports live as long as this container"
                )
            self._broken = True

    def _read(self, name: str) -> str:
        if self._folder is None:
            return ""
        try:
            return (self._folder / name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""


def _record(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _reports(lines: list[str]) -> list[dict[str, Any]]:
    records = (_record(line) for line in lines[-MOST_REPORTS:])
    return [one for one in records if type(one.get("seq")) is int and isinstance(one.get("type"), str)]


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 1 << 53 else 0


def _rank(value: object) -> Rank | None:
    if not isinstance(value, list) or [type(one) for one in value] != [int, int, int]:
        return None
    return (value[0], value[1], value[2])
