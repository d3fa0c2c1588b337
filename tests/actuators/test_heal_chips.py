"""heal_chips: one order a reset unit, one answer an attempt, and nothing concluded from silence."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from actuators.settings import ActingSettings
from runtime import paths
from runtime.errors import ApiAway, ApiConflict
from runtime.kubernetes import Object
from schemas.cluster import REPAIR, REPAIRED, RepairAnswer, RepairOrder, unit_key
from schemas.commands import Command, OutcomeResult, StepName
from tests.actuators.scene import Scene, command, pod, pod_path, start, stop
from tests.actuators.scripted_api import NOW, raising

NODE = paths.nodes("node-1")


def node(number: int = 1, uid: str = "") -> Object:
    return {"metadata": {"name": f"node-{number}", "uid": uid or f"node-uid-{number}", "annotations": {}}}


def chip(unit: str = "ring-0", number: int = 1, **more: Any) -> dict[str, str]:
    return {
        "node": f"node-uid-{number}",
        "node_name": f"node-{number}",
        "chip": f"chip-of-{unit}",
        "unit": unit,
        "code": "ascend/80E18005",
        "heal": "reset",
        **more,
    }


def heal(*chips: dict[str, str], **given: Any) -> Command:
    return command(StepName.HEAL_CHIPS, arguments={"chips": list(chips or (chip(),))}, **given)


def look(*chips: dict[str, str], **given: Any) -> Command:
    return heal(*chips, action="look", look=1, **given)


def a_scene(nodes: int = 1, *, now: datetime = NOW, settings: ActingSettings | None = None) -> Scene:
    scene = Scene(now=now, settings=settings or ActingSettings()).with_pods(2)
    stopped(scene)
    for number in range(1, nodes + 1):
        scene.api.put(paths.nodes(f"node-{number}"), node(number))
    return scene


def stopped(scene: Scene, attempt: int = 3, *, until: datetime = NOW + timedelta(minutes=10)) -> None:
    """The stop barrier was met: writes before the step under test are not counted."""
    assert scene.perform(stop(attempt=attempt, until=until)).told == 2
    scene.api.writes.clear()
    scene.said.words.clear()


def answer(scene: Scene, result: str, *, unit: str = "ring-0", number: int = 1, **more: Any) -> None:
    path = paths.nodes(f"node-{number}")
    item = dict(scene.api.objects[path])
    said = {"unit": unit, "incident": "incident-1", "attempt": 3, "result": result, **more}
    text = RepairAnswer.model_validate(said).to_text()
    item["metadata"] = {
        **item["metadata"],
        "annotations": {**scene.api.annotations(path), unit_key(REPAIRED, unit): text},
    }
    scene.api.put(path, item)


def order_on(scene: Scene, unit: str = "ring-0", number: int = 1) -> RepairOrder | None:
    text = scene.api.annotations(paths.nodes(f"node-{number}")).get(unit_key(REPAIR, unit))
    return None if text is None else RepairOrder.from_text(text)


def test_an_order_is_written_and_the_answer_ends_the_step() -> None:
    scene = a_scene()

    outcome = scene.perform(heal())
    assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "repairing")
    order = order_on(scene)
    assert order is not None
    assert (order.chips, order.codes, order.run) == (("chip-of-ring-0",), ("ascend:80E18005",), "job-uid-1")
    assert order.until == NOW + timedelta(seconds=60), "past the deadline the agent does not begin"

    answer(scene, "under_way")
    assert scene.perform(look()).result is OutcomeResult.PENDING
    answer(scene, "healed")
    assert scene.perform(look()).result is OutcomeResult.DONE
    assert len(scene.api.writes) == 1


def test_two_chips_of_one_unit_are_one_order_and_two_units_two() -> None:
    scene = a_scene()

    scene.perform(heal(chip(), chip(chip="second"), chip("ring-1")))

    first, second = order_on(scene), order_on(scene, "ring-1")
    assert first is not None
    assert second is not None
    assert first.chips == ("chip-of-ring-0", "second")
    assert len(scene.api.writes) == 1, "one write a node"


@pytest.mark.parametrize("cause", ["still_faulty", "failed", "no_tokens", "foreign_process"])
def test_a_failed_repair_names_its_cause_and_its_node(cause: str) -> None:
    scene = a_scene(nodes=2)
    both = (chip(), chip(number=2))
    scene.perform(heal(*both))
    answer(scene, "healed", number=1)
    answer(scene, cause, number=2)

    outcome = scene.perform(look(*both))

    assert (outcome.result, outcome.cause) == (OutcomeResult.FAILED, cause)
    assert outcome.failed_on == ("node-uid-2",), "the healed node is not to be isolated"


def test_a_foreign_process_never_covers_a_chip_that_is_still_faulty() -> None:
    scene = a_scene(nodes=2)
    both = (chip(), chip(number=2))
    scene.perform(heal(*both))
    answer(scene, "foreign_process", number=1)
    answer(scene, "still_faulty", number=2)

    outcome = scene.perform(look(*both))

    assert (outcome.cause, outcome.failed_on) == ("still_faulty", ("node-uid-2",))


def test_a_repair_that_was_not_done_is_refused_with_its_reason_and_names_no_node() -> None:
    scene = a_scene(nodes=2)
    both = (chip(), chip(number=2))
    scene.perform(heal(*both))
    answer(scene, "healed", number=1)
    answer(scene, "not_done", number=2, detail="this node has no repair command")

    outcome = scene.perform(look(*both))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "not_done")
    assert outcome.failed_on == ()
    assert "ring-0: not_done this node has no repair command" in (outcome.detail or "")


@pytest.mark.parametrize("cause", ["still_faulty", "failed", "no_tokens", "foreign_process"])
def test_a_repair_that_was_not_done_never_covers_one_that_failed_nor_is_counted_with_it(cause: str) -> None:
    scene = a_scene(nodes=2)
    both = (chip(), chip(number=2))
    scene.perform(heal(*both))
    answer(scene, "not_done", number=1)
    answer(scene, cause, number=2)

    outcome = scene.perform(look(*both))

    assert (outcome.result, outcome.cause) == (OutcomeResult.FAILED, cause)
    assert outcome.failed_on == ("node-uid-2",)


def test_a_repair_that_was_not_done_ends_nothing_while_another_is_under_way() -> None:
    scene = a_scene(nodes=2)
    both = (chip(), chip(number=2))
    scene.perform(heal(*both))
    answer(scene, "not_done", number=1)
    answer(scene, "under_way", number=2)

    assert scene.perform(look(*both)).result is OutcomeResult.PENDING, "its processes must not come back yet"

    scene.now = NOW + timedelta(seconds=55)
    outcome = scene.perform(look(*both))
    assert (outcome.result, outcome.cause) == (OutcomeResult.FAILED, "timeout")
    assert outcome.failed_on == ("node-uid-2",), "the deadline would take both"


def test_from_a_silent_node_nothing_is_concluded() -> None:
    scene = a_scene(nodes=2)
    both = (chip(), chip(number=2))
    scene.perform(heal(*both))
    answer(scene, "still_faulty", number=2)

    assert scene.perform(look(*both)).result is OutcomeResult.PENDING

    scene.now = NOW + timedelta(seconds=55)
    outcome = scene.perform(look(*both))
    assert outcome.failed_on == ("node-uid-1", "node-uid-2"), "shortly before the deadline, which takes all"


def test_a_node_that_is_only_silent_is_left_to_the_deadline() -> None:
    scene = a_scene()
    scene.perform(heal())
    scene.now = NOW + timedelta(seconds=59)

    assert scene.perform(look()).result is OutcomeResult.PENDING


@pytest.mark.parametrize("other", [{"attempt": 2}, {"incident": "incident-0"}])
def test_an_answer_to_another_attempt_says_nothing(other: dict[str, Any]) -> None:
    scene = a_scene()
    scene.perform(heal())
    answer(scene, "healed", **other)

    assert scene.perform(look()).result is OutcomeResult.PENDING


def test_a_node_made_anew_under_its_name_is_refused_and_nothing_is_written_anywhere() -> None:
    scene = a_scene(nodes=2)
    scene.api.put(paths.nodes("node-2"), node(2, uid="another-node"))

    outcome = scene.perform(heal(chip(), chip(number=2)))

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "other_node")
    assert scene.api.writes == []


def test_a_node_made_anew_between_read_and_write_is_refused() -> None:
    scene = a_scene()
    scene.api.once("PATCH", NODE, lambda: scene.api.put(NODE, node(uid="another-node")))

    assert scene.perform(heal()).cause == "other_node"
    assert order_on(scene) is None


def test_a_node_that_is_gone_is_refused() -> None:
    scene = a_scene()
    del scene.api.objects[NODE]

    assert scene.perform(heal()).cause == "node_gone"


def test_a_write_of_somebody_else_in_between_is_read_again() -> None:
    scene = a_scene()
    scene.api.once("PATCH", NODE, lambda: scene.api.touch(NODE))

    assert scene.perform(heal()).result is OutcomeResult.PENDING
    assert order_on(scene) is not None


def test_a_node_that_never_stands_still_is_pending_and_not_failed() -> None:
    scene = a_scene()
    scene.api.before = raising(ApiConflict("409"), "PATCH")

    outcome = scene.perform(heal())

    assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "conflict")


def test_a_silent_api_is_unreachable_and_never_failed() -> None:
    scene = a_scene()
    scene.api.before = raising(ApiAway("no answer"), "GET", NODE)

    assert scene.perform(heal()).result is OutcomeResult.UNREACHABLE


def another_runs(scene: Scene, unit: str, **given: Any) -> Command:
    scene.api.put(
        paths.jobs("team-b", "other"), {"metadata": {"name": "other", "namespace": "team-b", "uid": "run-b"}}
    )
    arguments = {"namespace": "team-b", "name": "other", "chips": [chip(unit)]}
    return command(
        StepName.HEAL_CHIPS, subject="run/run-b", incident="incident-b", arguments=arguments, **given
    )


def test_two_runs_on_one_node_repair_their_own_units() -> None:
    scene = a_scene()

    scene.perform(heal(chip("ring-0")))
    scene.perform(another_runs(scene, "ring-1"))

    first, second = order_on(scene, "ring-0"), order_on(scene, "ring-1")
    assert first is not None
    assert second is not None
    assert (first.incident, second.incident) == ("incident-1", "incident-b")


def test_another_runs_repair_of_the_same_unit_is_waited_for_and_not_overwritten() -> None:
    scene = a_scene()
    scene.perform(heal())

    other = another_runs(scene, "ring-0")
    outcome = scene.perform(other)
    assert (outcome.result, outcome.cause) == (OutcomeResult.PENDING, "unit_busy")
    assert order_on(scene).incident == "incident-1"  # type: ignore[union-attr]

    answer(scene, "healed")
    scene.perform(other.model_copy(update={"action": "look", "look": 1}))
    assert order_on(scene).incident == "incident-b"  # type: ignore[union-attr]


def test_an_order_nobody_answered_holds_the_unit_until_its_time_is_over_and_no_longer() -> None:
    scene = a_scene()
    scene.perform(heal())
    later = {"deadline": NOW + timedelta(minutes=3)}

    scene.now = NOW + timedelta(seconds=59)
    assert scene.perform(another_runs(scene, "ring-0", **later)).cause == "unit_busy"
    scene.now = NOW + timedelta(seconds=61)
    assert scene.perform(another_runs(scene, "ring-0", **later)).cause == "repairing"


def test_an_older_attempt_never_overwrites_a_newer_one() -> None:
    scene = Scene().with_pods(2, phase="Failed")
    scene.api.put(NODE, node())
    scene.perform(heal(attempt=4))

    assert scene.perform(heal(attempt=3)).cause == "superseded"
    assert order_on(scene).attempt == 4  # type: ignore[union-attr]


def test_cancel_takes_off_what_the_agent_has_not_begun() -> None:
    scene = a_scene()
    scene.perform(heal(chip("ring-0"), chip("ring-1")))
    answer(scene, "under_way", unit="ring-1")

    outcome = scene.perform(heal(chip("ring-0"), chip("ring-1"), action="cancel"))

    assert outcome.result is OutcomeResult.DONE
    assert order_on(scene, "ring-0") is None
    assert order_on(scene, "ring-1") is not None


def test_a_unit_with_a_name_kubernetes_does_not_take_is_repaired_as_well() -> None:
    scene = a_scene()
    unit = "0000:05:00.0/slot 3"

    scene.perform(heal(chip(unit)))

    assert order_on(scene, unit).unit == unit  # type: ignore[union-attr]


def test_a_run_at_another_epoch_is_not_repaired_for() -> None:
    scene = a_scene()

    assert scene.perform(heal(epoch=2)).cause == "other_epoch"
    assert scene.api.writes == []


def test_nothing_is_repaired_under_a_pod_that_is_not_told_to_stop_for_this_attempt() -> None:
    scene = Scene().with_pods(2)
    scene.api.put(NODE, node())
    assert scene.perform(heal()).cause == "not_stopped"

    stopped(scene, attempt=2)
    assert scene.perform(heal(attempt=3)).cause == "not_stopped", "the stop of an older attempt"
    stopped(scene, attempt=3)
    scene.api.put(pod_path(2), pod(2))
    assert scene.perform(heal()).cause == "not_stopped", "a pod that came since"
    assert order_on(scene) is None


def test_nothing_is_repaired_once_the_processes_were_started_again() -> None:
    scene = a_scene()
    scene.perform(start())

    outcome = scene.perform(heal())

    assert (outcome.result, outcome.cause) == (OutcomeResult.REFUSED, "not_stopped")


def test_a_repair_never_outlasts_the_stop_of_the_processes() -> None:
    scene = Scene().with_pods(2)
    scene.api.put(NODE, node())
    stopped(scene, until=NOW + timedelta(seconds=20))

    scene.perform(heal())
    assert order_on(scene).until == NOW + timedelta(seconds=20)  # type: ignore[union-attr]

    late = Scene().with_pods(2)
    late.api.put(NODE, node())
    stopped(late, until=NOW + timedelta(seconds=20))
    late.now = NOW + timedelta(seconds=21)
    assert late.perform(heal()).cause == "not_stopped"
    assert order_on(late) is None


def test_a_repair_under_way_is_looked_at_whatever_became_of_the_stop() -> None:
    scene = a_scene()
    scene.perform(heal())
    scene.now = NOW + timedelta(minutes=4)
    answer(scene, "healed")

    assert scene.perform(look()).result is OutcomeResult.DONE


def test_a_run_without_living_pods_has_nothing_to_stop() -> None:
    scene = Scene().with_pods(2, phase="Failed")
    scene.api.put(NODE, node())

    assert scene.perform(heal()).cause == "repairing"


def test_without_chips_nothing_is_healed() -> None:
    scene = a_scene()

    assert scene.perform(command(StepName.HEAL_CHIPS, arguments={"chips": []})).cause == "bad_arguments"


# ------------------------------------------------------------------------ a hold makes the repair longer

HELD = timedelta(minutes=10)
"""So far a hold moved the deadline on: past the end of the stop the plan began with."""


def held(**given: Any) -> Command:
    """A look after a hold: the core told again how long the processes are to stay stopped."""
    until = NOW + HELD + timedelta(minutes=2)
    found = look(deadline=NOW + HELD, not_after=NOW + HELD + timedelta(minutes=5), **given)
    return found.model_copy(update={"arguments": {**found.arguments, "until": until.isoformat()}})


def stop_ends(scene: Scene) -> list[datetime | None]:
    return [None if (stands := scene.desired(number)) is None else stands.until for number in range(2)]


def a_short_stop(seconds: float = 90) -> Scene:
    scene = Scene().with_pods(2)
    scene.api.put(NODE, node())
    stopped(scene, until=NOW + timedelta(seconds=seconds))
    return scene


def test_an_order_says_when_the_stop_ends_so_that_its_reset_is_over_by_then() -> None:
    scene = a_short_stop()

    scene.perform(heal())

    order = order_on(scene)
    assert order is not None
    assert (order.until, order.over_by) == (NOW + timedelta(seconds=60), NOW + timedelta(seconds=90))


def test_a_hold_in_the_middle_of_a_repair_renews_the_stop_and_the_order_stays_as_it_was_given() -> None:
    scene = a_short_stop()
    scene.perform(heal())
    answer(scene, "under_way")
    order = order_on(scene)

    scene.now = NOW + timedelta(seconds=70)
    assert scene.perform(held()).cause == "repairing"

    assert stop_ends(scene) == [NOW + HELD + timedelta(minutes=2)] * 2
    assert [stands.otherwise for number in range(2) if (stands := scene.desired(number))] == ["rerun"] * 2
    assert order_on(scene) == order
    writes = scene.pod_writes()
    scene.perform(held())
    assert scene.pod_writes() == writes, "once a hold, not once a look"


@pytest.mark.parametrize("seconds", [81, 90, 200])
def test_a_stop_that_ended_or_is_about_to_is_never_brought_back(seconds: int) -> None:
    scene = a_short_stop()
    scene.perform(heal())
    scene.now = NOW + timedelta(seconds=seconds)

    assert scene.perform(held()).result is OutcomeResult.PENDING, "what is under way is the agent's"
    assert stop_ends(scene) == [NOW + timedelta(seconds=90)] * 2


def test_with_a_stop_that_is_about_to_end_no_repair_is_ordered() -> None:
    scene = a_short_stop(seconds=9)

    assert scene.perform(heal()).cause == "not_stopped"
    assert order_on(scene) is None


def test_processes_that_were_started_meanwhile_are_not_stopped_by_a_look_at_the_repair() -> None:
    scene = a_short_stop()
    scene.perform(heal())
    scene.perform(start())

    scene.perform(held())

    assert stop_ends(scene) == [None, None]


def test_a_start_between_the_look_and_the_renewal_is_not_undone() -> None:
    scene = a_short_stop()
    scene.perform(heal())
    scene.api.once("PATCH", pod_path(0), lambda: scene.perform(start()))

    scene.perform(held())

    assert stop_ends(scene) == [None, None]


def test_where_not_every_pod_could_be_told_an_order_goes_by_the_old_end() -> None:
    scene = a_short_stop()
    scene.api.before = raising(ApiConflict("409"), "PATCH", pod_path(1))

    scene.perform(held())

    assert order_on(scene).over_by == NOW + timedelta(seconds=90)  # type: ignore[union-attr]
