"""find_spare: does the run fit elsewhere, now? Counted as the scheduler counts, on what the API says (design 8, findings R21, Q18).

Room is what usable nodes have left with the run's own pods taken away and those nodes left out that it is to be kept off; pending pods of
the same or a higher priority get theirs first. A dated hint, not a promise. Reads only.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from actuators.jobs.run_objects import RunArguments, RunObject, find_run, has_ended, size_of
from actuators.nodes.placement_rules import may_run
from actuators.nodes.room import Amounts, free_on, requested, take, times
from actuators.reply import Reply, done
from actuators.step import Step, arguments_of
from actuators.world import World
from runtime import paths
from runtime.kubernetes import Object
from schemas.cluster import JOB_UID_LABEL
from schemas.commands import Command
from schemas.wording import counted


@dataclass(frozen=True, slots=True)
class Room:
    """How many pods of the run fit, of how many."""

    fit: int
    wanted: int

    @property
    def is_enough(self) -> bool:
        """All of them."""
        return self.fit >= self.wanted


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same."""
    given = arguments_of(RunArguments, command)
    run = find_run(command, given, world)
    off = frozenset(node.get("name", "") for node in given.keep_off)
    room = count(run, world.api.list(paths.nodes()), world.api.list(paths.pods()), off)
    left_out = f"{counted(len(off), 'node')} left out"
    said = f"room for {room.fit} of {counted(room.wanted, 'pod')}, {left_out}, at {world.now().isoformat()}"
    return done(spare=room.is_enough, effects=(said,))


def count(run: RunObject, nodes: list[Object], pods: list[Object], off: frozenset[str]) -> Room:
    """Pure: how many pods of the run fit on these nodes beside these pods."""
    alive = [pod for pod in pods if not has_ended(pod)]
    own = [pod for pod in alive if (pod["metadata"].get("labels") or {}).get(JOB_UID_LABEL) == run.uid]
    others = [pod for pod in alive if (pod["metadata"].get("labels") or {}).get(JOB_UID_LABEL) != run.uid]
    on_node: dict[str, list[Object]] = defaultdict(list)
    for pod in others:
        on_node[pod["spec"].get("nodeName") or ""].append(pod)
    rooms = {node["metadata"]["name"]: free_on(node, on_node[node["metadata"]["name"]]) for node in nodes}
    open_to_us = [node for node in nodes if node["metadata"]["name"] not in off]
    priority = max((_priority(pod) for pod in own), default=0)
    for pod in sorted(on_node[""], key=_priority, reverse=True):
        if _priority(pod) >= priority:
            _place(pod["spec"], open_to_us, rooms)  # a node about to be isolated takes nobody
    spec = run.job["spec"]["template"]["spec"]
    wanted = requested(spec)
    fit = sum(times(rooms[node["metadata"]["name"]], wanted) for node in open_to_us if may_run(spec, node))
    return Room(fit, size_of(run))


def _place(pod_spec: Object, nodes: list[Object], rooms: dict[str, Amounts]) -> None:
    """The first node that takes it; a pod that fits nowhere takes nothing."""
    wanted = requested(pod_spec)
    for node in nodes:
        room = rooms[node["metadata"]["name"]]
        if times(room, wanted) and may_run(pod_spec, node):
            take(room, wanted)
            return


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


STEP = Step(begin=act, look=act, writes=False)
