"""The watcher keeps the contract of whoever publishes facts: with watches that work, cut in between, and with a successor at each step."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import pytest

from runtime.kubernetes import Object
from schemas.facts import FACTS
from streams.route import mailboxes
from tests.producers.cluster.objects import (
    START,
    FakeCluster,
    make_job,
    make_node,
    make_pod,
    stamp,
    terminated,
)
from tests.recovery.fact_contract import SCRIPTS, Facts, Happening, keeps_contract, says_what_happened


class Trouble(StrEnum):
    """What goes wrong at each step."""

    NONE = "watches work"
    CUT = "watches are cut, a list follows each step"
    SUCCESSOR = "another watcher takes over after each step"


class WatcherStage:
    """A cluster of objects before the real translator; the router's own function names the mailboxes."""

    def __init__(self, trouble: Trouble = Trouble.NONE) -> None:
        self.trouble = trouble
        self.cluster = FakeCluster()
        self.job = make_job("train", "job-1")
        self.cluster.put(*(make_node(f"n{number}", f"node-{number}") for number in (1, 2, 3)))

    def play(self, happenings: Sequence[Happening]) -> Facts:
        for happening in happenings:
            self.cluster.deaf = self.trouble is Trouble.CUT
            self._play(happening)
            self.cluster.deaf = False
            self.cluster.hear()
            if self.trouble is Trouble.SUCCESSOR:
                self.cluster.restart()
            self.cluster.pass_time(5)
        return [
            (subject, telling.payload)
            for telling in self.cluster.told
            if isinstance(telling.payload, FACTS)
            for subject in mailboxes(telling.payload)
        ]

    def _play(self, happening: Happening) -> None:  # noqa: C901 - one line a happening
        cluster = self.cluster
        match happening:
            case Happening.RUN_APPEARS:
                cluster.put(self.job)
            case Happening.PODS_BIND:
                self._bind("a", ("n1", "n2"))
            case Happening.POD_ENDS:
                cluster.change("a-0", _fail)
            case Happening.NODE_NOT_READY:
                at = stamp(cluster.now)
                cluster.change(
                    "node-3",
                    lambda node: node["status"]["conditions"][0].update(
                        status="Unknown", lastTransitionTime=at
                    ),
                )
            case Happening.NODE_GONE:
                cluster.remove("node-3")
            case Happening.SUSPENDED:
                cluster.change("job-1", lambda job: job["spec"].update(suspend=True))
                cluster.remove(*list(cluster.pods))
            case Happening.RESUMED:
                cluster.change("job-1", _resume)
                self._bind("b", ("n2", "n3"), epoch="2")
            case Happening.ANNOTATIONS:
                cluster.change(
                    "job-1",
                    lambda job: job["metadata"]["annotations"].update({"fault-tolerance/job-retry-num": "4"}),
                )
            case Happening.RESYNC:
                cluster.told += cluster.translator.repeat_all()
            case Happening.RUN_ENDS:
                for uid in list(cluster.pods):
                    cluster.change(uid, _succeed)
                cluster.change("job-1", _complete)

    def _bind(self, prefix: str, names: tuple[str, ...], epoch: str = "") -> None:
        at = self.cluster.now
        pods = [
            make_pod(self.job, f"{prefix}-{rank}", node=name, rank=rank, epoch=epoch, at=at)
            for rank, name in enumerate(names)
        ]
        self.cluster.put(*pods)


def _fail(pod: Object) -> None:
    pod["status"].update(phase="Failed", containerStatuses=[terminated(1)])


def _succeed(pod: Object) -> None:
    pod["status"].update(phase="Succeeded", containerStatuses=[terminated(0, reason="Completed")])


def _resume(job: Object) -> None:
    job["spec"]["suspend"] = False
    job["metadata"]["annotations"]["relight.dev/epoch"] = "2"


def _complete(job: Object) -> None:
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}], "completionTime": stamp(START)}


@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("script", SCRIPTS, ids=", ".join)
def test_the_watcher_keeps_the_contract(script: tuple[Happening, ...], trouble: Trouble) -> None:
    facts = WatcherStage(trouble).play(script)
    keeps_contract(facts)
    says_what_happened(script, facts)
