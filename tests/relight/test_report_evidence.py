"""What an incident of the report began with: a code where a fault has one, else how processes ended or what was seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from relight.report.evidence import cause_of
from tests.audit.story import START


def seen(kind: str = "process_exit", **more: Any) -> dict[str, Any]:
    nothing = {"exit_code": -1, "exit_signal": 0, "oom": False, "rank": -1, "name": "", "state": ""}
    return {"event_id": "first", "at": START, "kind": kind, **nothing, **more}


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (seen(exit_code=1, rank=0), "exit code 1 (rank 0)"),
        (seen(exit_code=0, exit_signal=9, rank=2), "killed by signal 9, SIGKILL (rank 2)"),
        (seen(exit_code=0, exit_signal=40), "killed by signal 40"),
        (seen(exit_code=137, oom=True), "out of memory"),
        (seen("eviction", name="preempted_by_queue"), "eviction: preempted by queue"),
        (seen("hang", state="stalled"), "hang: stalled"),
    ],
)
def test_what_has_no_code_is_said_in_words(evidence: dict[str, Any], said: str) -> None:
    assert cause_of("", "first", [evidence], None) == said
    assert cause_of("xid/62", "first", [evidence], None) == "xid/62"


def test_of_ranks_that_end_together_the_one_unlike_the_others_comes_first_and_none_is_left_out() -> None:
    ends = [
        seen(exit_code=71, rank=0),
        seen(event_id="b", exit_code=71, rank=2),
        seen(event_id="c", exit_code=1, rank=1),
    ]

    assert cause_of("", "first", ends, START) == "exit code 1 (rank 1), exit code 71 (ranks 0, 2)"


def test_ends_that_relight_brought_about_are_no_cause() -> None:
    own = seen(event_id="b", at=START + timedelta(seconds=3), exit_signal=15, rank=1)

    said = cause_of("", "first", [seen(exit_code=1, rank=0), own], START + timedelta(seconds=2))

    assert said == "exit code 1 (rank 0)"


def test_of_many_ranks_the_number_is_said() -> None:
    ends = [seen(exit_code=71, rank=rank) for rank in range(1000)]

    assert cause_of("", "first", ends, None) == "exit code 71 (1,000 ranks)"


def test_evidence_the_record_has_no_more_is_no_code() -> None:
    assert cause_of("", "first", [], None) == "no fault code"
