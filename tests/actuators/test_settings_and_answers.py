"""Settings that fit each other, time that is bounded, answers that fit on the wire."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actuators.loop import Taken, outcome_event
from actuators.offsets import Unconfirmed
from actuators.perform import reply_to_trouble
from actuators.process import Reach
from actuators.registry import STEPS
from actuators.reply import OutOfTime, Refused, Reply
from actuators.settings import ActingSettings, ActuatorSettings
from actuators.world import Budget, TimedApi, World
from runtime.errors import (
    ApiAway,
    ApiConflict,
    ApiError,
    ApiForbidden,
    ApiGone,
    ApiInvalid,
    ApiNotFound,
    ApiTooMany,
    SettingsConflict,
)
from runtime.settings import read_settings
from schemas.commands import Outcome, OutcomeResult
from schemas.envelope import Event, decode, encode, make_event
from tests.actuators.scene import EXECUTOR, Said, Scene, stop
from tests.actuators.scripted_api import NOW, ScriptedApi


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"acting": {"time_limit": "8s"}}, "stay below 10 s"),
        ({"kubernetes": {"timeout": "5s"}}, "stay below 10 s"),
        ({"kubernetes": {"timeout": "3s", "connections": 8}}, "must be at least acting.fan_out"),
        ({"acting": {"fan_out": 0}}, "ACTING__FAN_OUT"),
        ({"acting": {"no_such": 1}}, "NO_SUCH"),
    ],
)
def test_settings_that_do_not_fit_stop_the_process(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsConflict, match=named):
        read_settings(ActuatorSettings, **settings)


def test_the_defaults_fit() -> None:
    settings = read_settings(ActuatorSettings)

    assert settings.acting.time_limit + settings.kubernetes.timeout < timedelta(seconds=10)
    assert not settings.acting.dry_run


def test_after_the_time_limit_no_call_begins() -> None:
    api = ScriptedApi()
    clock = iter((0.0, 6.5, 6.5, 6.5, 6.5))
    timed = TimedApi(api, Budget(6, lambda: next(clock)))
    item = {"metadata": {"uid": "u", "resourceVersion": "1"}}

    for call in (
        lambda: timed.get("/x"),
        lambda: timed.list("/x"),
        lambda: timed.merge(item, "/x", {}),
        lambda: timed.delete(item, "/x"),
    ):
        with pytest.raises(OutOfTime):
            call()
    assert api.calls == []


@pytest.mark.slow
def test_a_call_that_hangs_is_not_waited_for_longer_than_its_own_timeout() -> None:
    let_go = threading.Event()
    budget = Budget(0.05, time.monotonic)
    with ThreadPoolExecutor(2) as executor:
        world = World(
            TimedApi(ScriptedApi(), budget), budget, lambda: NOW, executor, Said(), ActingSettings()
        )
        begun = time.monotonic()
        results = world.spread(lambda quick: quick or let_go.wait(30), [True, False, True])
        took = time.monotonic() - begun
        let_go.set()

    assert results[:2] == [True, None]
    assert took < 5


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (ApiAway("x"), OutcomeResult.UNREACHABLE),
        (ApiTooMany("x", retry_after=5000), OutcomeResult.UNREACHABLE),
        (ApiGone("x"), OutcomeResult.UNREACHABLE),
        (ApiError("x"), OutcomeResult.UNREACHABLE),
        (ApiConflict("x"), OutcomeResult.PENDING),
        (ApiForbidden("x"), OutcomeResult.BLOCKED),
        (ApiNotFound("x"), OutcomeResult.REFUSED),
        (ApiInvalid("x"), OutcomeResult.REFUSED),
    ],
)
def test_no_trouble_with_the_api_is_ever_failed(error: ApiError, result: OutcomeResult) -> None:
    outcome = reply_to_trouble(error, a_world()).to_outcome(stop())

    assert outcome.result is result


@pytest.mark.parametrize(
    ("limit", "waits"),
    [(2.0, [0.5, 1.0, 2.0, 2.0, 2.0]), (0.2, [0.2] * 5), (60.0, [0.5, 1.0, 2.0, 4.0, 8.0])],
)
def test_what_takes_its_time_is_looked_at_soon_and_then_less_often(limit: float, waits: list[float]) -> None:
    def again(looks: int) -> float:
        settings = ActingSettings(look_again=timedelta(seconds=limit))
        return replace(a_world(), settings=settings, looks=looks).again

    assert [again(looks) for looks in range(5)] == waits
    assert again(10_000) == limit


@pytest.mark.parametrize("error", [ApiAway("x"), ApiConflict("x")])
def test_a_server_in_trouble_is_not_asked_sooner_for_being_asked_first(error: ApiError) -> None:
    assert reply_to_trouble(error, a_world()).again == ActingSettings().look_again.total_seconds()


def a_world() -> World:
    budget = Budget(6, lambda: 0.0)
    return World(TimedApi(ScriptedApi(), budget), budget, lambda: NOW, EXECUTOR, Said(), ActingSettings())


@given(
    st.text(max_size=5000), st.text(max_size=5000), st.lists(st.text(max_size=3000), max_size=3).map(tuple)
)
def test_whatever_is_said_fits_on_the_wire(cause: str, detail: str, effects: tuple[str, ...]) -> None:
    reply = Reply(OutcomeResult.REFUSED, cause=cause, detail=detail, effects=effects)

    event = outcome_event(taken(), reply.to_outcome(stop()), instance="x", now=NOW)

    assert isinstance(decode(encode(event)).data, Outcome)


def taken(partition: int = 3, offset: int = 41) -> Taken:
    command = stop()
    event: Event = make_event(
        command, id="event-7", source="/x", subject=command.subject, time=NOW, cluster="c"
    )
    return Taken(event, command, partition, offset, Unconfirmed())


def test_the_same_command_answered_again_has_the_same_id_and_origin_whatever_the_answer() -> None:
    first = outcome_event(
        taken(), Reply(OutcomeResult.DONE, told=4).to_outcome(stop()), instance="a", now=NOW
    )
    later = NOW + timedelta(hours=1)
    again = outcome_event(taken(), Refused("gone").reply().to_outcome(stop()), instance="b", now=later)

    assert (first.id, first.origin) == (again.id, again.origin)
    assert first.origin == "actuators/3/41/0"
    assert first.subject == stop().subject


def test_health_goes_red_after_a_minute_of_silence_and_green_with_the_first_answer() -> None:
    now = 0.0
    reach = Reach(60, lambda: now)
    silent = Reply(OutcomeResult.UNREACHABLE).to_outcome(stop())
    answered = Reply(OutcomeResult.REFUSED).to_outcome(stop())

    reach.note(silent)
    now = 59.0
    reach.note(silent)
    assert reach.check() is None
    now = 61.0
    assert reach.check() is not None
    reach.note(answered)
    assert reach.check() is None


def test_every_step_is_told_apart_by_whether_it_harms() -> None:

    harming = {name.value for name, step in STEPS.items() if step.harms}
    assert harming == {"stop_processes", "heal_chips", "isolate_node", "suspend_job", "fail_job"}
    assert {name.value for name, step in STEPS.items() if not step.writes} == {"find_spare"}


def test_a_command_for_somebody_else_touches_nothing() -> None:
    scene = Scene().with_pods(1)

    assert scene.perform(stop(subject="partition/3")).result is OutcomeResult.REFUSED
    assert scene.api.calls == []
