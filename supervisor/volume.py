"""What must outlive a container within its pod: the count of starts and reports not yet acknowledged. Unwritable = kept in memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

MOST_REPORTS = 256
MOST_DIGITS = 9


class Volume:
    """The pod-scoped folder; each write is a rename, a failed one is no error."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.starts = self._number()
        self._reports: list[dict[str, Any]] = self._spooled()
        self.sequence = max((report["seq"] for report in self._reports), default=0)
        self.lost = 0

    def count_start(self) -> int:
        """One more start, written down before it happens."""
        self.starts += 1
        self._write("starts", str(self.starts))
        return self.starts

    def add(self, report: dict[str, Any]) -> dict[str, Any]:
        """Keep a report until it is acknowledged; the oldest go when there are too many, and are counted."""
        self.sequence += 1
        numbered = {**report, "seq": self.sequence}
        self._reports.append(numbered)
        while len(self._reports) > MOST_REPORTS:
            self._reports.pop(0)
            self.lost += 1
        self._save()
        return numbered

    def acknowledge(self, sequence: int) -> None:
        """Forget what the agent has."""
        kept = [report for report in self._reports if report["seq"] > sequence]
        if len(kept) != len(self._reports):
            self._reports = kept
            self._save()

    def unsent(self) -> list[dict[str, Any]]:
        """All that is not acknowledged, oldest first."""
        return list(self._reports)

    def _save(self) -> None:
        self._write("reports", "".join(json.dumps(report) + "\n" for report in self._reports))

    def _write(self, name: str, text: str) -> None:
        if self._folder is None:
            return
        try:
            new = self._folder / (name + ".new")
            new.write_text(text, encoding="utf-8")
            os.replace(str(new), str(self._folder / name))
        except OSError:
            return  # read-only or full: memory has it

    def _read(self, name: str) -> str:
        if self._folder is None:
            return ""
        try:
            return (self._folder / name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    def _number(self) -> int:
        text = self._read("starts").strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else 0

    def _spooled(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for line in self._read("reports").splitlines()[-MOST_REPORTS:]:
            try:
                report = json.loads(line)
            except ValueError:
                continue
            if isinstance(report, dict) and type(report.get("seq")) is int:
                found.append(report)
        return found
