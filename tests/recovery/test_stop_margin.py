"""How long an ordered stop lasts when nobody is left to end it: the plan's own deadlines, and a margin that is a setting (design 8)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from schemas.commands import StepName
from tests.recovery.rulebooks import with_settings
from tests.recovery.world import HBM, World

IN_PLACE_DEADLINES = timedelta(seconds=60 + 180 + 60)  # stop, heal, start of the default rulebook


@pytest.mark.parametrize(("text", "margin"), [("60s", timedelta(seconds=60)), ("5s", timedelta(seconds=5))])
def test_a_stop_ends_by_itself_so_long_after_the_plans_deadlines(text: str, margin: timedelta) -> None:
    running = World(rulebook=with_settings(stop_margin=text)).begin(job_retry_num="3")
    running.fault(HBM)
    (stop,) = [command for command in running.commands if command.step is StepName.STOP_PROCESSES]

    begun = stop.deadline - timedelta(seconds=60)
    assert datetime.fromisoformat(stop.arguments["until"]) == begun + IN_PLACE_DEADLINES + margin
    assert stop.arguments["otherwise"] == "rerun"
