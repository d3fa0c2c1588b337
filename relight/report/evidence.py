"""What began an incident, in a few words: its fault code, or where it has none, how a process ended or what else was seen. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from schemas.wording import agreeing, counted

RANKS_NAMED: Final = 8


def cause_of(code: str, trigger: str, seen: Sequence[Mapping[str, Any]], acted: datetime | None) -> str:
    """The code where there is one; else what the first evidence says.

    Where a process ended, the others of its run mostly end with it, and whose report came first says nothing: all ends are told, the rarest
    first, up to when relight began to act.

    Args:
        code: of the incident; empty where no fault has one.
        trigger: id of its first evidence.
        seen: event_id, at, kind, exit_code, exit_signal, oom, rank, name and state of all its evidence the record still has.
        acted: when the first step was ordered; None before.
    """
    if code:
        return code
    first = next((one for one in seen if one["event_id"] == trigger), None)
    if first is None:
        return "no fault code"
    if first["kind"] == "process_exit":
        ended = [
            one for one in seen if one["kind"] == "process_exit" and (acted is None or one["at"] <= acted)
        ]
        return _ends(ended or [first])
    words = [str(first["kind"]).replace("_", " "), str(first["name"] or first["state"]).replace("_", " ")]
    return ": ".join(word for word in words if word)


def _ends(ended: Sequence[Mapping[str, Any]]) -> str:
    """Such as `exit code 1 (rank 1), exit code 71 (ranks 0, 2)`."""
    groups: dict[str, set[int]] = {}
    for one in ended:
        groups.setdefault(_exit(one), set()).add(one["rank"])
    told = sorted(groups.items(), key=lambda group: (len(group[1]), group[0]))
    return ", ".join(f"{how}{_ranks(sorted(ranks))}" for how, ranks in told)


def _ranks(ranks: Sequence[int]) -> str:
    known = [rank for rank in ranks if rank >= 0]
    if not known:
        return ""
    if len(known) > RANKS_NAMED:
        return f" ({counted(len(known), 'rank')})"
    return f" ({agreeing(len(known), 'rank', 'ranks')} {', '.join(map(str, known))})"


def _exit(seen: Mapping[str, Any]) -> str:
    if seen["oom"]:
        return "out of memory"
    if seen["exit_signal"]:
        return f"killed by signal {seen['exit_signal']}{_name(seen['exit_signal'])}"
    return f"exit code {seen['exit_code']}"


def _name(number: int) -> str:
    try:
        return f", {signal.Signals(number).name}"
    except ValueError:  # a real-time signal has none
        return ""
