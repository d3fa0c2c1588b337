"""Which jobs suspend and resume would leave waiting, and which not."""

from __future__ import annotations

from typing import Any

import pytest

from actuators.jobs.rebuild import INDEPENDENT_RANKS, why_anew
from actuators.jobs.run_objects import run_object
from runtime.kubernetes import Object
from tests.actuators.scene import job, pod


def asked(
    pods: list[Object] | None = None, *, annotations: dict[str, str] | None = None, **status: Any
) -> str:
    made = job(annotations=annotations or {})
    made["status"] = status
    return why_anew(run_object(made), pods or [])


def condition(kind: str, status: str = "True") -> Object:
    return {"type": kind, "status": status}


@pytest.mark.parametrize("kind", ["Failed", "FailureTarget"])
def test_a_job_that_has_failed_or_is_failing_is_made_anew(kind: str) -> None:
    assert "failed" in asked(conditions=[condition(kind)])
    assert asked(conditions=[condition(kind, "False")]) == ""


def test_a_rank_that_ended_makes_it_anew_unless_ranks_are_independent() -> None:
    assert "0,2" in asked(completedIndexes="0,2", succeeded=2)
    assert asked(completedIndexes="0,2", annotations={INDEPENDENT_RANKS: "true"}) == ""
    assert asked(completedIndexes="0,2", annotations={INDEPENDENT_RANKS: "yes"}) != "", "nothing is guessed"


def test_failures_that_were_counted_make_it_anew_and_so_do_those_a_policy_ignored() -> None:
    assert "10 min" in asked(failed=1)
    assert "10 min" in asked([pod(0, phase="Failed")])


def test_pods_that_the_suspension_itself_ended_are_no_failures() -> None:
    ended = pod(0, phase="Failed")
    ended["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"

    assert asked([ended, pod(1, phase="Succeeded"), pod(2)], conditions=[condition("Suspended")]) == ""
