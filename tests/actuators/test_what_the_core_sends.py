"""Arguments as the core sends them, carried out: what it means arrives where it is meant for."""

from __future__ import annotations

from datetime import timedelta

import pytest

from actuators.nodes.heal_chips import HealArguments
from actuators.pods.desired_state import order_of
from runtime import paths
from schemas.cluster import EPOCH, RUN
from schemas.commands import Command, OutcomeResult, StepName
from schemas.ids import subject_name
from tests.actuators.scene import RUN as OBJECT
from tests.actuators.scene import Scene, job, pod
from tests.recovery.rulebooks import with_pod_reschedule
from tests.recovery.test_settings_matter import MINUTE, world
from tests.recovery.world import BROKEN, HBM, always


def scene_of(command: Command) -> Scene:
    """The job the command names, as the cluster would have it."""
    scene = Scene(now=command.deadline - timedelta(seconds=30))
    namespace, name = command.arguments["namespace"], command.arguments["name"]
    annotations = {RUN: subject_name(command.subject), EPOCH: str(command.epoch or 1)}
    made = job(uid=OBJECT, name=name, namespace=namespace, annotations=annotations)
    scene.api.put(paths.jobs(namespace, name), made)
    for number in range(made["spec"]["completions"]):
        one = pod(number, epoch=command.epoch or 1)
        one["metadata"]["namespace"] = namespace
        scene.api.put(paths.pods(namespace, one["metadata"]["name"]), one)
    return scene


def counters_told(scene: Scene) -> set[str]:
    found = [order_of(item) for path, item in scene.api.objects.items() if "/pods/" in path]
    return {order.counter for order in found if order is not None}


@pytest.mark.parametrize("choice", ["continue", "reset"])
def test_the_counter_of_retained_pods_reaches_their_supervisors(choice: str) -> None:
    running = world(with_pod_reschedule(retained_pod_counter=choice), pod_retry_num="2")
    running.scripts[StepName.DELETE_PODS] = always(OutcomeResult.DONE)
    running.fault(BROKEN)
    running.settle(2 * MINUTE)
    (start,) = [c for c in running.commands if c.step is StepName.START_PROCESSES and c.action == "begin"]
    scene = scene_of(start)

    assert scene.perform(start).result is OutcomeResult.DONE
    assert counters_told(scene) == {choice}


def test_a_restart_in_place_goes_on_counting() -> None:
    running = world(with_pod_reschedule(retained_pod_counter="reset"))
    running.fault(HBM)
    running.settle(2 * MINUTE)
    start = next(c for c in running.commands if c.step is StepName.START_PROCESSES)
    scene = scene_of(start)

    scene.perform(start)
    assert counters_told(scene) == {"continue"}


def test_a_repair_is_told_how_long_the_processes_stay_stopped_and_a_hold_moves_that_on() -> None:
    running = world(with_pod_reschedule())
    running.scripts[StepName.HEAL_CHIPS] = always(OutcomeResult.PENDING)
    running.fault(HBM)
    running.settle(MINUTE)
    heals = [c for c in running.commands if c.step is StepName.HEAL_CHIPS]
    untils = [HealArguments.model_validate(heal.arguments).until for heal in heals]

    assert len(heals) > 1
    for heal, until in zip(heals, untils, strict=True):
        assert until is not None
        assert until - heal.deadline == timedelta(seconds=60 + 60), "the start's time, and the margin"
