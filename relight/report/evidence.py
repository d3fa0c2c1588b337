"""What began an incident, in a few words: its fault code, or where it has none, how a process ended or what else was seen. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any


def cause_of(code: str, seen: Mapping[str, Any] | None) -> str:
    """The code where there is one; else what the first evidence says.

    Args:
        code: of the incident; empty where no fault has one.
        seen: kind, exit_code, exit_signal, oom, rank, name and state of the first evidence; None where the record has it no more.
    """
    if code:
        return code
    if seen is None:
        return "no fault code"
    if seen["kind"] == "process_exit":
        rank = f"rank {seen['rank']} " if seen["rank"] >= 0 else "a process "
        return f"{rank}{_exit(seen)}"
    words = [str(seen["kind"]).replace("_", " "), str(seen["name"] or seen["state"]).replace("_", " ")]
    return ": ".join(word for word in words if word)


def _exit(seen: Mapping[str, Any]) -> str:
    if seen["oom"]:
        return "ran out of memory"
    if seen["exit_signal"]:
        return f"was killed by signal {seen['exit_signal']}{_name(seen['exit_signal'])}"
    return f"ended with code {seen['exit_code']}"


def _name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:  # a real-time signal has none
        return ""
