"""What an incident of the report began with: a code where a fault has one, else how the process ended or what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from relight.report.evidence import cause_of


def seen(kind: str = "process_exit", **more: Any) -> dict[str, Any]:
    nothing = {"exit_code": -1, "exit_signal": 0, "oom": False, "rank": -1, "name": "", "state": ""}
    return {"kind": kind, **nothing, **more}


@pytest.mark.parametrize(
    ("code", "evidence", "said"),
    [
        ("xid/62", seen(exit_code=1), "xid/62"),
        ("", seen(exit_code=1, rank=0), "rank 0 ended with code 1"),
        ("", seen(exit_code=0, exit_signal=9, rank=2), "rank 2 was killed by signal 9 (SIGKILL)"),
        ("", seen(exit_code=0, exit_signal=40), "a process was killed by signal 40"),
        ("", seen(exit_code=137, oom=True), "a process ran out of memory"),
        ("", seen("eviction", name="preempted_by_queue"), "eviction: preempted by queue"),
        ("", seen("hang", state="stalled"), "hang: stalled"),
        ("", None, "no fault code"),
    ],
)
def test_the_cause_is_said(code: str, evidence: dict[str, Any] | None, said: str) -> None:
    assert cause_of(code, evidence) == said
