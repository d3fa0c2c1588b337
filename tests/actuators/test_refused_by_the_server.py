"""A server that refuses some of what a step writes: what was written before is said, or it would never be taken back."""

from __future__ import annotations

import pytest

from runtime.errors import ApiError, ApiForbidden, ApiInvalid
from schemas.commands import OutcomeResult
from tests.actuators.scene import Scene, pod_path, stop
from tests.actuators.scripted_api import raising

SAID = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not this one"


@pytest.mark.parametrize(
    ("error", "result", "cause"),
    [
        (ApiForbidden(SAID), OutcomeResult.BLOCKED, "rights"),
        (ApiInvalid(SAID), OutcomeResult.REFUSED, "not_admitted"),
    ],
)
def test_where_one_pod_is_refused_the_outcome_says_that_others_were_told(
    error: ApiError, result: OutcomeResult, cause: str
) -> None:
    scene = Scene().with_pods(4)
    scene.api.before = raising(error, "PATCH", pod_path(2))

    outcome = scene.perform(stop())

    assert (outcome.result, outcome.cause) == (result, cause)
    assert SAID in (outcome.detail or "")
    assert outcome.effects == ("3 pods told before",)
    assert scene.pod_writes() == 3, "the refused one was asked for once"


@pytest.mark.parametrize("error", [ApiForbidden(SAID), ApiInvalid(SAID)])
def test_where_all_are_refused_nothing_was_done(error: ApiError) -> None:
    scene = Scene().with_pods(4)
    scene.api.before = raising(error, "PATCH")

    outcome = scene.perform(stop())

    assert outcome.result in {OutcomeResult.BLOCKED, OutcomeResult.REFUSED}
    assert outcome.effects == ()
    assert scene.pod_writes() == 0
