"""A year of recoveries written by SQL, for measuring what reads them: incidents, decisions, commands, outcomes, milestones, saves.

As a fleet tells it: runs that fail again and again, three strategies, one in ten escalates, some are open, some never came back. Everything
follows from the incident's number, so that each measurement reads the same rows. One run's incidents lie a week apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_suffix(".sql")


def statements(database: str) -> list[str]:
    """Each to be run once, with the parameters `count` (incidents) and `rulebook` (a hash)."""
    text = "\n".join(
        line for line in _FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("--")
    )
    tries, *inserts = (piece.strip() for piece in text.split(";\n") if piece.strip())
    return [insert.rstrip(";").replace("{tries}", tries).replace("{db}", database) for insert in inserts]
