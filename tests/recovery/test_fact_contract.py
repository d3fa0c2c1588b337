"""The scripted publisher keeps the contract of facts, and the contract finds who does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from schemas.envelope import Payload
from schemas.facts import FACTS, NodeGone, NodeSeen, PodBound, PodEnded, RunEnded, RunSeen
from schemas.ids import node_subject
from tests.recovery.fact_contract import SCRIPTS, Facts, Happening, keeps_contract, says_what_happened
from tests.recovery.world import World, node


class ScriptedStage:
    """The world of the tests as a publisher of facts."""

    def __init__(self) -> None:
        self.world = World()

    def play(self, happenings: Sequence[Happening]) -> Facts:
        for happening in happenings:
            self._play(happening)
            self.world.settle()
        return [(event.subject, event.data) for event, _ in self.world.inbox if isinstance(event.data, FACTS)]

    def _play(self, happening: Happening) -> None:  # noqa: C901, PLR0912 - one line a happening
        world = self.world
        match happening:
            case Happening.RUN_APPEARS:
                world.see_run(job_retry_num="3")
            case Happening.PODS_BIND:
                world.place(("n1", "n2"))
            case Happening.POD_ENDS:
                world.take_away(world.pod_on("n1"))
            case Happening.NODE_NOT_READY:
                world.post(node_subject("n3"), NodeSeen(node=node("n3"), ready=False))
            case Happening.NODE_GONE:
                world.lose("n3")
            case Happening.SUSPENDED:
                for pod in list(world.pods.values()):
                    world.take_away(pod)
                world.see_run(suspended=True)
            case Happening.RESUMED:
                world.epoch += 1
                world.see_run()
                world.place(("n2", "n3"))
            case Happening.ANNOTATIONS:
                world.see_run(job_retry_num="4")
            case Happening.RESYNC:
                if not any(event.data.TYPE.endswith("run_ended.v1") for event, _ in world.inbox):
                    world.see_run()
                    world.repeat_pods()
            case Happening.RUN_ENDS:
                for pod in list(world.pods.values()):
                    world.take_away(pod, how="succeeded")
                world.end("succeeded")


@pytest.mark.parametrize("script", SCRIPTS, ids=", ".join)
def test_the_scripted_publisher_keeps_the_contract(script: tuple[Happening, ...]) -> None:
    facts = ScriptedStage().play(script)
    keeps_contract(facts)
    says_what_happened(script, facts)


def test_a_resync_repeats_and_changes_no_membership() -> None:
    stage = ScriptedStage()
    stage.play((Happening.RUN_APPEARS, Happening.PODS_BIND))
    before = dict(stage.world.cells["run/r1"])
    stage.play((Happening.RESYNC, Happening.RESYNC))
    after = stage.world.cells["run/r1"]
    assert {n: c for n, c in after.items() if n[:7] != "origin/"} == {
        n: c for n, c in before.items() if n[:7] != "origin/"
    }


def _first(facts: list[tuple[str, Payload]], kind: type[Payload]) -> int:
    return next(position for position, (_, fact) in enumerate(facts) if isinstance(fact, kind))


def _unseen(facts: list[tuple[str, Payload]]) -> None:
    del facts[_first(facts, RunSeen)]


def _one_mailbox_only(facts: list[tuple[str, Payload]]) -> None:
    del facts[_first(facts, PodBound)]


def _half_an_end(facts: list[tuple[str, Payload]]) -> None:
    del facts[_first(facts, PodEnded)]


def _end_first(facts: list[tuple[str, Payload]]) -> None:
    facts.insert(1, facts.pop(_first(facts, PodEnded)))


def _bound_again(facts: list[tuple[str, Payload]]) -> None:
    facts.append(facts[_first(facts, PodBound)])


def _without_epoch(facts: list[tuple[str, Payload]]) -> None:
    position = _first(facts, PodBound)
    subject, fact = facts[position]
    assert isinstance(fact, PodBound)
    where = fact.placement.model_copy(update={"epoch": None})
    facts[position] = (subject, fact.model_copy(update={"placement": where}))


def _wrong_mailbox(facts: list[tuple[str, Payload]]) -> None:
    facts[0] = ("run/another", facts[0][1])


def _epoch_falls(facts: list[tuple[str, Payload]]) -> None:
    subject, fact = facts[0]
    facts.insert(0, (subject, fact.model_copy(update={"epoch": 5})))


def _failed_and_seen_again(facts: list[tuple[str, Payload]]) -> None:
    subject, seen = facts[_first(facts, RunSeen)]
    assert isinstance(seen, RunSeen)
    facts.append((subject, RunEnded(run=seen.run, object_uid=seen.object_uid, how="failed")))
    facts.append((subject, seen))


def _deleted_and_made_anew(facts: list[tuple[str, Payload]]) -> None:
    subject, seen = facts[_first(facts, RunSeen)]
    assert isinstance(seen, RunSeen)
    facts.append((subject, RunEnded(run=seen.run, object_uid=seen.object_uid, how="deleted")))
    facts.append((subject, seen.model_copy(update={"object_uid": "another"})))


def _back_from_the_dead(facts: list[tuple[str, Payload]]) -> None:
    facts.append((node_subject("n1"), NodeGone(node=node("n1"))))
    facts.append((node_subject("n1"), NodeSeen(node=node("n1"), ready=True)))


@pytest.mark.parametrize(
    "spoil",
    [
        _unseen,
        _one_mailbox_only,
        _half_an_end,
        _end_first,
        _bound_again,
        _without_epoch,
        _wrong_mailbox,
        _epoch_falls,
        _back_from_the_dead,
        _failed_and_seen_again,
        _deleted_and_made_anew,
    ],
    ids=lambda spoil: spoil.__name__.strip("_").replace("_", " "),
)
def test_a_publisher_that_breaks_a_promise_is_found(
    spoil: Callable[[list[tuple[str, Payload]]], None],
) -> None:
    facts = list(ScriptedStage().play((Happening.RUN_APPEARS, Happening.PODS_BIND, Happening.POD_ENDS)))
    keeps_contract(facts)
    spoil(facts)
    with pytest.raises(AssertionError):
        keeps_contract(facts)
