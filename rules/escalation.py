"""The repeat rule of a code's own table: the column `escalation`, used only under the setting `escalation: table` (recovery 3).

Read is its first kind of entry, `N/Ts/LEVEL`: N times in T seconds make LEVEL of the fault. `lasting`, `release` and `recovered` are
information: what stands and what comes back is judged by classes and by the release path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Final

from rules.model import LadderClass

LEVELS: Final = {
    "NotHandleFault": LadderClass.RECORD,
    "SubHealthFault": LadderClass.RECORD,
    "RestartRequest": LadderClass.SELF_HEAL_WAIT,
    "RestartBusiness": LadderClass.SELF_HEAL_WAIT,
    "FreeRestartNPU": LadderClass.SELF_HEAL_RESET,
    "RestartNPU": LadderClass.SELF_HEAL_RESET,
    "PreSeparateNPU": LadderClass.DEFERRED,
    "SeparateNPU": LadderClass.ISOLATE,
    "ManuallySeparateNPU": LadderClass.ISOLATE,
}
"""MindCluster's levels of handling that a repeat can lead to, and their ladder class (recovery 0)."""

_REPEAT: Final = re.compile(r"(?P<times>\d+)/(?P<seconds>\d+)s/(?P<level>\w+)")


@dataclass(frozen=True, slots=True)
class Repeat:
    """So many occurrences in so long make the fault one of this class."""

    at_least: int
    within: timedelta
    ladder_class: LadderClass


@cache
def read_repeat(escalation: str) -> Repeat | None:
    """The repeat rule of a cell; None where it has none, or names a level nobody knows."""
    for part in escalation.split(";"):
        found = _REPEAT.fullmatch(part)
        if found is not None and found["level"] in LEVELS:
            return Repeat(
                at_least=int(found["times"]),
                within=timedelta(seconds=int(found["seconds"])),
                ladder_class=LEVELS[found["level"]],
            )
    return None
