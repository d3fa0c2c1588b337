"""Events in plain words: once a key, and never in the way of a step."""

from actuators.announcing import Announcer, event_of
from actuators.world import Words
from runtime.errors import ApiAway, ApiForbidden
from tests.actuators.scene import job
from tests.actuators.scripted_api import NOW, ScriptedApi, raising

EVENTS = "/api/v1/namespaces/team-a/events"


def words(key: str = "command-1", text: str = "Stopping the processes of 4 pods") -> Words:
    return Words(job(), "StoppingProcesses", text, key=key)


def test_an_event_stands_on_the_job_where_kubectl_describe_shows_it() -> None:
    event = event_of(words(), NOW)

    assert event["involvedObject"]["uid"] == "job-uid-1"
    assert event["involvedObject"]["kind"] == "Job"
    assert (event["type"], event["reason"]) == ("Normal", "StoppingProcesses")
    assert event["metadata"]["namespace"] == "team-a"
    assert event["firstTimestamp"] == "2026-03-01T12:00:00Z"


def test_the_same_key_is_said_once() -> None:
    api = ScriptedApi()
    announcer = Announcer(api, lambda: NOW)

    for _ in range(3):
        announcer.write(words())
    announcer.write(words(key="command-2"))

    assert (announcer.said, announcer.lost) == (2, 0)
    assert len(api.writes) == 2


def test_words_about_a_node_stand_in_the_default_namespace() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "u"}}

    event = event_of(Words(node, "Isolated", "why", key="k", warning=True), NOW)

    assert event["metadata"]["namespace"] == "default"
    assert event["type"] == "Warning"


def test_long_names_and_texts_are_cut_to_what_kubernetes_takes() -> None:
    about = job(name="j" * 253)

    event = event_of(Words(about, "Why", "t" * 5000, key="k"), NOW)

    assert len(event["metadata"]["name"]) <= 253
    assert len(event["message"]) <= 1024


def test_an_event_that_cannot_be_written_is_counted_and_forgotten() -> None:
    api = ScriptedApi()
    announcer = Announcer(api, lambda: NOW)
    for error in (ApiAway("away"), ApiForbidden("no"), RuntimeError("bug")):
        api.before = raising(error, "POST")
        announcer.write(words())

    assert (announcer.said, announcer.lost) == (0, 3)


def test_a_full_queue_loses_words_and_holds_nobody_up() -> None:
    announcer = Announcer(ScriptedApi(), lambda: NOW, room=2)

    for number in range(5):
        announcer.say(words(key=str(number)))

    assert announcer.lost == 3


def test_what_is_queued_is_written_before_the_end() -> None:
    api = ScriptedApi()
    announcer = Announcer(api, lambda: NOW)
    announcer.start()
    for number in range(5):
        announcer.say(words(key=str(number)))
    announcer.stop(10)

    assert announcer.said == 5
