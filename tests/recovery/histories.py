"""Random histories of the small world: what happens to a cluster, late and repeated messages and words of old attempts included."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from recovery import encode_cell
from schemas.commands import Outcome, OutcomeResult, StepName
from schemas.envelope import Trust
from schemas.facts import PodEnded
from schemas.ids import node_subject, run_subject
from schemas.mailbox import (
    CancelIncidentOrder,
    HoldAnswer,
    PartitionGap,
    PauseOrder,
    ReleaseNodeOrder,
    ResumeOrder,
    Tick,
)
from schemas.signals import EvictionReason, FaultState, Placement, ProcessExit, ProcessState, ProcessStateName
from tests.recovery.world import BROKEN, HBM, NOTICE, USER, World, always, node, silent

TOO_LATE = always(OutcomeResult.REFUSED, cause="too_late")
Happening = Callable[[World], None]
NODES = ("n1", "n2", "n3")


def _on_pod(act: Callable[[World, str], None]) -> Callable[[str], Happening]:
    """Something that needs a pod on the node: nothing happens where there is none."""

    def on(name: str) -> Happening:
        def happen(world: World) -> None:
            if any(pod.node == name for pod in world.pods.values()):
                act(world, name)

        return happen

    return on


def _scripted(step: StepName, result: OutcomeResult | None) -> Happening:
    def happen(world: World) -> None:
        world.scripts[step] = silent if result is None else always(result)

    return happen


def order(world: World, said: PauseOrder | ResumeOrder | CancelIncidentOrder) -> None:
    """An operator's order to the run."""
    world.post(run_subject(world.run), said)
    world.settle()


def _late_outcome(number: int, result: OutcomeResult, seconds: int) -> Happening:
    """An actuator's word on some command that was sent before, whatever became of it since."""

    def happen(world: World) -> None:
        if not world.commands:
            return
        old = world.commands[number % len(world.commands)]
        said = Outcome(
            command=old.command,
            incident=old.incident,
            attempt=old.attempt,
            step=old.step,
            result=result,
            told=1,
            spare=False,
        )
        world.post(old.subject, said, after=timedelta(seconds=seconds))

    return happen


def _told_again(number: int, seconds: int) -> Happening:
    """A source sends something again that it sent before: the same event, later, as a message of its own."""

    def happen(world: World) -> None:
        told = [event for event, _ in world.inbox if not isinstance(event.data, Tick)]
        if told:
            old = told[number % len(told)]
            world.post(
                old.subject,
                old.data,
                id=old.id,
                time=old.time,
                trust=old.trust,
                after=timedelta(seconds=seconds),
            )

    return happen


def _old_words(attempt: int, epoch: int, on: str, seconds: int) -> Happening:
    """Supervisors, nodes and the watcher speak of attempts, processes and pods that were replaced."""

    def happen(world: World) -> None:
        pod = next((uid for uid, pod in world.pods.items() if pod.node == on), "pod-1")
        where = Placement(run=world.run, pod_uid=pod, rank=0, epoch=epoch)
        late = timedelta(seconds=seconds)
        run = run_subject(world.run)
        for state in ProcessStateName:
            said = ProcessState(placement=where, epoch=epoch, attempt=attempt, state=state, start=1)
            world.post(run, said, after=late)
        world.post(run, ProcessExit(node=node(on), placement=where, start=1, exit_code=1), after=late)
        gone = Placement(run=world.run, pod_uid="pod-1", rank=0, epoch=epoch)
        world.post(run, PodEnded(node=node(on), placement=gone, how="deleted"), after=late)
        incident = world.incident
        if incident is not None:
            held = HoldAnswer(node=node(on), incident=incident.id, attempt=attempt, answer="held")
            world.post(run, held, after=late)

    return happen


def _late_fault(code: str, on: str, ago: int, seconds: int) -> Happening:
    def happen(world: World) -> None:
        past = world.now - timedelta(seconds=ago)
        world.fault(code, on=on, time=past, after=timedelta(seconds=seconds), settle=False)

    return happen


names = st.sampled_from(NODES)
moments = st.sampled_from([0, 1, 12, 90, 700])
codes = st.sampled_from([HBM, USER, BROKEN, NOTICE, "80E01801", "80C98009", "12345678"])

happenings: st.SearchStrategy[Happening] = st.one_of(
    st.builds(
        lambda code, on, chip: lambda w: w.fault(code, on=on, chip=chip) and None,
        codes,
        names,
        st.integers(0, 1),
    ),
    st.builds(
        lambda code, on, state: lambda w: w.fault(code, on=on, state=state) and None,
        codes,
        names,
        st.sampled_from([FaultState.ASSERTED, FaultState.CLEARED]),
    ),
    st.builds(lambda on: lambda w: w.fault(BROKEN, on=on, trust=Trust.EXTERNAL) and None, names),
    st.builds(lambda on: lambda w: w.fault(HBM, on=on, placed=False) and None, names),
    st.builds(
        lambda condition, on, state: lambda w: w.condition(condition, on=on, state=state),
        st.sampled_from(["not-ready", "kernel-deadlock", "memory-pressure"]),
        names,
        st.sampled_from([FaultState.ASSERTED, FaultState.CLEARED]),
    ),
    names.map(_on_pod(lambda w, on: w.exit(1, on=on))),
    names.map(_on_pod(lambda w, on: w.exit(143, on=on, ordered=1))),
    names.map(_on_pod(lambda w, on: w.stall(on=on))),
    names.map(_on_pod(lambda w, on: w.stall(on=on, state="moving"))),
    st.just(lambda w: w.scripts.update(dict.fromkeys(StepName, TOO_LATE))),
    names.map(_on_pod(lambda w, on: w.check(on=on))),
    names.map(_on_pod(lambda w, on: w.notice(on=on))),
    names.map(_on_pod(lambda w, on: w.take_away(w.pod_on(on), "lost", gone=False))),
    st.sampled_from(list(EvictionReason)).flatmap(
        lambda reason: names.map(_on_pod(lambda w, on: w.evict(reason, on=on)))
    ),
    st.builds(
        _scripted,
        st.sampled_from(
            [step for step in StepName if step not in {StepName.NOTIFY, StepName.SAVE_CHECKPOINT}]
        ),
        st.sampled_from([*OutcomeResult, None]),
    ),
    st.builds(lambda step: lambda w: w.scripts.pop(step, None) and None, st.sampled_from(list(StepName))),
    st.sampled_from([1, 15, 70, 700, 4000]).map(
        lambda seconds: lambda w: w.settle(timedelta(seconds=seconds))
    ),
    st.sampled_from([0, 3, 7]).map(lambda number: lambda w: w.see_run(job_retry_num=str(number))),
    st.just(lambda w: w.stable() if w.pods else None),
    st.integers(0, 300).map(lambda number: lambda w: w.step(number) if w.pods else None),
    st.just(lambda w: order(w, PauseOrder(by="sre", reason="looking"))),
    st.just(lambda w: order(w, ResumeOrder(by="sre", reason="looked"))),
    st.just(lambda w: order(w, CancelIncidentOrder(by="sre", reason="no"))),
    names.map(
        lambda on: lambda w: w.post(node_subject(on), ReleaseNodeOrder(by="sre", reason="fine")) and None
    ),
    names.map(lambda on: lambda w: w.lose(on)),
    st.sampled_from([run_subject("r1"), *map(node_subject, NODES)]).map(
        lambda subject: lambda w: w.post(subject, PartitionGap(first_lost=3, first_kept=9)) and None
    ),
    st.just(lambda w: setattr(w, "spare", not w.spare)),
    st.builds(_late_outcome, st.integers(0, 400), st.sampled_from(OutcomeResult), moments),
    st.builds(_told_again, st.integers(0, 400), moments),
    st.builds(_old_words, st.integers(0, 4), st.integers(1, 3), names, moments),
    st.builds(_late_fault, codes, names, st.sampled_from([5, 200, 4000, 80_000]), moments),
)
histories = st.lists(happenings, min_size=3, max_size=40)
flags = st.fixed_dictionaries(
    {
        "job_retry_num": st.sampled_from(["1", "3"]),
        "job_unconditional_retry": st.sampled_from(["true", "false"]),
        "hang_retry": st.sampled_from(["true", "false"]),
    }
)


def play(history: list[Happening], annotations: dict[str, Any]) -> World:
    """A world to which all that happened."""
    world = World().begin(**annotations)
    for happening in history:
        happening(world)
    world.settle(timedelta(seconds=1))
    return world


def state_of(world: World) -> dict[tuple[str, str], bytes]:
    """All cells, encoded."""
    return {
        (subject, name): encode_cell(cell)
        for subject, cells in world.cells.items()
        for name, cell in cells.items()
    }
