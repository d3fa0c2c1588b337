"""The small world of the recovery tests, played live: its facts, signals and actuators' answers go into the inbox of a real stage.

Nothing of relight runs in it. What `World` does in virtual time (mailboxes, ticks) is the pipeline's work here; what is left is a run on a few
nodes that has faults and exits, and actuators that do what a command says and answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from schemas.commands import Command, OutcomeResult, StepName
from schemas.envelope import Event, Payload, make_event
from schemas.facts import RunEnded
from schemas.ids import derive_id, node_subject, run_subject
from schemas.mailbox import CancelIncidentOrder, Order, PauseOrder, ReleaseNodeOrder, ResumeOrder
from schemas.signals import EvictionReason, FaultState
from tests.recovery.world import BROKEN, HBM, NOTICE, USER, World, always, silent

CLUSTER: Final = "torture"
NODES: Final = 5
CALM: Final = 0.6
"""Share of runs that are calm."""
BROKEN_ACTUATOR: Final = 0.2
"""Share of runs for which a step's actuator always fails or says nothing."""


@dataclass
class LiveWorld(World):
    """One run with its nodes; whatever comes from it waits in `outbox`."""

    outbox: list[Event] = field(default_factory=list)
    over: bool = False
    """The workload object reached an end."""
    calm: bool = False
    """Mostly makes progress, so that recoveries are carried through before the next thing happens."""

    def post(self, subject: str, data: Payload, *, after: timedelta = timedelta(0), **envelope: Any) -> Event:
        """Say it now; nothing is delayed, delays come from the torture."""
        del after
        self.now = datetime.now(UTC)
        event = make_event(
            data,
            id=envelope.pop("id", None) or derive_id("live", self.run, next(self._source)),
            source="/clusters/torture/live",
            subject=subject,
            time=self.now,
            cluster=CLUSTER,
            **envelope,
        )
        self.outbox.append(event)
        self.over = self.over or isinstance(data, RunEnded)
        return event

    def settle(self, most: timedelta = timedelta(0)) -> None:
        """The pipeline settles it."""

    def carry_out(self, command: Command) -> None:
        """Do what a command of the stage says, and answer."""
        self.now = datetime.now(UTC)
        self._act(command)

    def take_outbox(self) -> list[Event]:
        """What was said since the last time."""
        said, self.outbox = self.outbox, []
        return said


def new_world(run: str, dice: random.Random) -> LiveWorld:
    """A run with high availability on, with actuators that mostly work."""
    nodes = tuple(f"{run}-n{number}" for number in range(NODES))
    world = LiveWorld(nodes=nodes, run=run, calm=dice.random() < CALM)
    for step in (StepName.HEAL_CHIPS, StepName.START_PROCESSES, StepName.SUSPEND_JOB):
        if dice.random() < BROKEN_ACTUATOR:
            world.scripts[step] = dice.choice([silent, always(OutcomeResult.FAILED)])
    world.begin(
        supervised=dice.random() < 0.9,
        job_retry_num=str(dice.choice([3, 50])),
        job_unconditional_retry=dice.choice(["true", "false"]),
        hang_retry=dice.choice(["true", "false"]),
    )
    return world


# ------------------------------------------------------------------ what happens to it

Happening = Callable[[LiveWorld, str, random.Random], object]
"""Something that happens to a world, on one of the nodes its run is on."""


def _standing(world: LiveWorld, on: str, dice: random.Random) -> None:
    state = dice.choice([FaultState.ASSERTED, FaultState.CLEARED])
    world.fault(dice.choice([HBM, BROKEN]), on=on, chip=dice.randrange(2), state=state)


def _paused(world: LiveWorld, on: str, dice: random.Random) -> None:
    del on
    until = datetime.now(UTC) + timedelta(milliseconds=dice.randrange(1500))
    orders: list[Order] = [
        PauseOrder(by="sre", reason="torture", until=until),
        ResumeOrder(by="sre", reason="torture"),
        CancelIncidentOrder(by="sre", reason="torture"),
    ]
    world.post(run_subject(world.run), dice.choice(orders))


def _released(world: LiveWorld, on: str, dice: random.Random) -> None:
    """People give a node back, whether it is held or not."""
    name = dice.choice(sorted(world.held) or [on])
    world.held.discard(name)
    world.post(node_subject(name), ReleaseNodeOrder(by="sre", reason="torture"))


def _condition(world: LiveWorld, on: str, dice: random.Random) -> None:
    state = dice.choice([FaultState.ASSERTED, FaultState.CLEARED])
    world.condition(dice.choice(["not-ready", "kernel-deadlock", "memory-pressure"]), on=on, state=state)


HAPPENINGS: Final[tuple[tuple[int, Happening], ...]] = (
    (12, lambda world, _on, dice: world.step(dice.randrange(300))),
    (3, lambda world, on, dice: world.fault(HBM, on=on, chip=dice.randrange(2))),
    (2, lambda world, on, dice: world.fault(USER, on=on, chip=dice.randrange(2))),
    (1, lambda world, on, dice: world.fault(BROKEN, on=on, chip=dice.randrange(2))),
    (2, lambda world, on, _dice: world.fault(NOTICE, on=on)),
    (1, lambda world, on, _dice: world.fault("12345678", on=on)),
    (2, _standing),
    (2, lambda world, on, _dice: world.fault(HBM, on=on, placed=False)),
    (3, lambda world, on, dice: world.exit(dice.choice([1, 137, 139]), on=on)),
    (1, lambda world, on, dice: world.exit(143, on=on, ordered=dice.randrange(3))),
    (1, lambda world, on, _dice: world.stall(on=on)),
    (1, lambda world, on, dice: world.evict(dice.choice(list(EvictionReason)), on=on)),
    (1, lambda world, on, _dice: world.check(on=on)),
    (1, lambda world, on, _dice: world.notice(on=on)),
    (2, _condition),
    (2, lambda world, _on, _dice: world.stable()),
    (1, lambda world, on, dice: world.take_away(world.pod_on(on), dice.choice(["failed", "lost"]))),
    (2, lambda world, _on, _dice: world.repeat_pods()),
    (1, lambda world, _on, _dice: world.see_run()),
    (2, _paused),
    (2, _released),
)
_WEIGHTS: Final = [weight for weight, _ in HAPPENINGS]
_CALM_WEIGHTS: Final = [20 * HAPPENINGS[0][0], *_WEIGHTS[1:]]
_ACTS: Final = [act for _, act in HAPPENINGS]
GIVEN_UP: Final = 0.1
"""How likely a run without pods is deleted rather than waited for."""


def happen(world: LiveWorld, dice: random.Random) -> None:
    """Let something happen to a world."""
    if world.pods:
        on = dice.choice(sorted(pod.node for pod in world.pods.values()))
        dice.choices(_ACTS, _CALM_WEIGHTS if world.calm else _WEIGHTS)[0](world, on, dice)
    elif dice.random() < GIVEN_UP:
        world.end("deleted")
    else:
        _released(world, world.nodes[0], dice)
