"""notify: an Event on the run's object or on the node; nobody fails for a sentence."""

import pytest

from actuators.metrics import ActuatorMetrics
from actuators.notify import NO_OBJECT
from actuators.settings import ActingSettings
from runtime import paths
from runtime.errors import ApiForbidden
from schemas.commands import Command, OutcomeResult, StepName
from tests.actuators.scene import RUN, Scene, command
from tests.actuators.scripted_api import raising

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "node-1"}, "spec": {}}


def notice(**given: object) -> Command:
    arguments = {"about": "no_spare", **given.pop("arguments", {})}  # type: ignore[dict-item] # as commands are
    return command(StepName.NOTIFY, arguments=arguments, epoch=0, reason="no spare node: wait", **given)


def unnamed(order: Command) -> Command:
    return order.model_copy(update={"arguments": {"about": "no_spare"}})


@pytest.mark.parametrize("order", [notice(), unnamed(notice())])
def test_a_notice_about_a_run_stands_on_its_job_in_plain_words(order: Command) -> None:
    scene = Scene().with_pods(1)

    assert scene.perform(order).result is OutcomeResult.DONE

    (words,) = scene.said.words
    assert words.about["metadata"]["uid"] == RUN
    assert words.text == "no spare node: wait [no_spare]"
    assert scene.api.writes == []


@pytest.mark.parametrize("named", [True, False])
def test_a_notice_about_a_node_stands_on_the_node_of_that_uid(named: bool) -> None:
    scene = Scene()
    scene.api.put(paths.nodes("n1"), NODE)
    order = notice(subject="node/node-1", arguments={"name": "n1"})

    assert scene.perform(order if named else unnamed(order)).result is OutcomeResult.DONE

    (words,) = scene.said.words
    assert (words.about["kind"], words.about["metadata"]["uid"]) == ("Node", "node-1")


@pytest.mark.parametrize(
    "order",
    [
        notice(),
        unnamed(notice()),
        notice(subject="node/another", arguments={"name": "n1"}),
        unnamed(notice(subject="node/another")),
        notice(subject="partition/3"),
    ],
)
def test_where_there_is_no_object_the_notice_is_logged_and_counted_and_nothing_fails(order: Command) -> None:
    scene, metrics = Scene(), ActuatorMetrics()
    scene.api.put(paths.nodes("n1"), NODE)

    outcome = scene.perform(order)
    metrics.count(order, outcome, 0.1)

    assert (outcome.result, outcome.cause) == (OutcomeResult.DONE, NO_OBJECT)
    assert scene.said.words == []
    assert metrics.registry.get_sample_value("relight_actuators_notices_without_object_total") == 1


def test_the_same_notice_again_has_the_same_key_and_another_one_another() -> None:
    scene = Scene().with_pods(1)
    other = notice().model_copy(update={"command": "another"})

    for order in (notice(), notice(action="look", look=1), other):
        scene.perform(order)

    assert [words.key for words in scene.said.words] == ["command-notify", "command-notify", "another"]


def test_a_pause_forbids_no_sentence_and_a_dry_run_writes_none() -> None:
    scene = Scene().with_pods(1)
    scene.settings = ActingSettings(paused=True)
    assert scene.perform(notice()).result is OutcomeResult.DONE

    scene.settings = ActingSettings(dry_run=True)
    assert scene.perform(notice()).result is OutcomeResult.BLOCKED
    assert len(scene.said.words) == 1


def test_missing_rights_are_said_so() -> None:
    scene = Scene().with_pods(1)
    scene.api.before = raising(ApiForbidden("no"))

    assert scene.perform(notice()).cause == "rights"
