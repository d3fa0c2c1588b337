"""What the world showed from outside once the play is over: API objects and writes on them, topics, files of the job, the chips themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runtime.kubernetes import Object
from sandbox.demo.stagehand import Stagehand
from sandbox.demo.world import World
from sandbox.stage.training_job import TrainingJob
from schemas import topics
from schemas.cluster import RETRIES_USED, Desired
from schemas.commands import Outcome
from schemas.records import Incident

Counts = tuple[str, str]
"""MA_SCHEDULE_CNT and MA_PROC_START_CNT, as a process had them."""
COMMANDS, OUTCOMES, DECISIONS, INCIDENTS = "commands", "outcomes", "decisions", "incident states"
KINDS: Final = (COMMANDS, OUTCOMES, DECISIONS, INCIDENTS)


@dataclass(frozen=True)
class Issue:
    """Pods of the job at one moment."""

    containers: frozenset[tuple[str, str]]
    """UID and container of each."""
    nodes: frozenset[str]

    @property
    def pods(self) -> frozenset[str]:
        """Their UIDs."""
        return frozenset(uid for uid, _ in self.containers)


@dataclass(frozen=True)
class Seen:
    """All of it, as plain values."""

    ended: str
    """`Complete` or `Failed`."""
    digests: frozenset[str]
    """Of the states the ranks finished with."""
    digest_undisturbed: str
    """Of the same training without any fault."""
    starts: Mapping[Counts, tuple[int, ...]]
    """Ranks that started, by the counters their processes had."""
    resumed: Mapping[Counts, frozenset[int]]
    """Steps they went on from."""
    save_every: int
    retries_used: str
    """The budget's mirror on the Job."""
    incidents: tuple[tuple[str, str, str, int], ...]
    """Id, strategy, result and attempt of each recovery, in order."""
    faulty: tuple[str, ...]
    """Node on which each fault showed; empty: on none."""
    issues: tuple[Issue, ...]
    """Pods before each fault, and at the end."""
    pods: Mapping[str, str]
    """Node of every pod the job ever had, by UID."""
    orders: frozenset[tuple[str, int, str]]
    """Desired states written on pods: UID, attempt, state."""
    suspensions: tuple[bool, ...]
    resets: Mapping[str, int]
    """Resets the chips of a node saw."""
    tainted: Mapping[str, int]
    """How often relight's taint appeared on a node."""
    isolated: frozenset[str]
    """Nodes that carry it at the end."""
    ids: Mapping[str, frozenset[str]]
    """Ids of the events in the topics, by kind."""
    dead_letters: tuple[str, ...]


def look(world: World, stagehand: Stagehand, ended: str) -> Seen:
    """Collect it, once the job has ended."""
    stage, job = world.stage, world.job
    stage.records.refresh()
    last = stage.records.incidents(world.run)
    pods = stage.effects.pods(world.run)
    starts = job.starts()
    orders = {uid: [Desired.from_text(text) for text in stage.effects.orders(uid)] for uid in pods}
    return Seen(
        ended=ended,
        digests=frozenset(job.results()),
        digest_undisturbed=job.expected_result(),
        starts=_ranks(job),
        resumed={
            counts: frozenset(
                each.step for each in starts if (each.schedule_count, each.start_count) == counts
            )
            for counts in _ranks(job)
        },
        save_every=job.save_every,
        retries_used=stage.job_object(job)["metadata"].get("annotations", {}).get(RETRIES_USED, ""),
        incidents=tuple((one.incident, one.strategy or "", one.result or "", one.attempt) for one in last),
        faulty=tuple(fault.node for fault in stagehand.injected),
        issues=(*(issue_of(fault.pods) for fault in stagehand.injected), issue_of(stage.pods(job))),
        pods={uid: str(pod["spec"].get("nodeName", "")) for uid, pod in pods.items()},
        orders=frozenset((uid, one.attempt, one.state.value) for uid, told in orders.items() for one in told),
        suspensions=tuple(stage.effects.suspensions(world.run)),
        resets={name: len(node.resets()) for name, node in stage.nodes.items()},
        tainted={name: sum(stage.effects.isolations(node.uid)) for name, node in stage.nodes.items()},
        isolated=frozenset(stage.isolated()),
        ids=_ids(world),
        dead_letters=tuple(reason for reason, _ in stage.records.dead_letters),
    )


def issue_of(pods: Sequence[Object]) -> Issue:
    """Pods as they stand."""
    return Issue(
        containers=frozenset(
            (pod["metadata"]["uid"], status.get("containerID", ""))
            for pod in pods
            for status in pod.get("status", {}).get("containerStatuses") or [{}]
        ),
        nodes=frozenset(str(pod["spec"].get("nodeName", "")) for pod in pods),
    )


def _ranks(job: TrainingJob) -> dict[Counts, tuple[int, ...]]:
    found: dict[Counts, list[int]] = defaultdict(list)
    for start in job.starts():
        found[start.schedule_count, start.start_count].append(start.rank)
    return {counts: tuple(sorted(ranks)) for counts, ranks in found.items()}


def _ids(world: World) -> dict[str, frozenset[str]]:
    """Of what the record keeps one row for each."""
    events = world.stage.records.events
    return {
        COMMANDS: frozenset(event.id for event in events(topics.COMMANDS)),
        DECISIONS: frozenset(event.id for event in events(topics.DECISIONS)),
        OUTCOMES: frozenset(event.id for event in events(topics.INBOX) if isinstance(event.data, Outcome)),
        INCIDENTS: frozenset(
            event.id for event in events(topics.INCIDENTS) if isinstance(event.data, Incident)
        ),
    }
