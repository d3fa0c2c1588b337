"""A report is told once and acknowledged only when it is kept, whatever is repeated, lost on the way, or sent by somebody hostile."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from producers.observation import SignalClass
from producers.supervisors import line as words
from producers.supervisors.reports import Peer, Translation
from producers.supervisors.source import REMEMBERED, SPOOLS_OF_A_POD, Offered, SupervisorReports
from schemas.signals import ProcessExit, Progress, SignalGap
from tests.producers.supervisors.supervised import IDENTITY, NOW, peer


class Heard:
    """A line that remembers what it was told."""

    def __init__(self) -> None:
        self.acks: list[int] = []
        self.ended = False

    def acknowledge(self, seq: int) -> None:
        self.acks.append(seq)

    def end(self) -> None:
        self.ended = True


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def source_of(clock: Clock | None = None, has_room: Callable[[], bool] = lambda: True) -> SupervisorReports:
    made = SupervisorReports(
        Translation(IDENTITY), clock or Clock(), progress_every=timedelta(seconds=1), has_room=has_room
    )
    made.restore(None)
    return made


def report(**fields: Any) -> Any:
    return words.parse(json.dumps({"v": 1, "seq": 1, "launch": 1, "at": NOW.timestamp(), **fields}).encode())


def exit_report(seq: int) -> Any:
    return report(type="exit", code=1, seq=seq, launch=seq)


async def offered(source: SupervisorReports, line: Heard, who: Peer, *seqs: int) -> None:
    for seq in seqs:
        await source.offer(Offered(line, who, seq, exit_report(seq)))


def run(doing: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await doing

    asyncio.run(bounded())


async def silent(source: SupervisorReports) -> bool:
    """It has nothing more to tell; whatever was kept is acknowledged by asking."""
    asking = asyncio.ensure_future(source.next())
    for _ in range(5):
        await asyncio.sleep(0)
    if asking.done():
        return False
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    return True


def test_a_report_is_acknowledged_only_when_the_source_is_asked_again() -> None:
    async def scene() -> None:
        source, line = source_of(), Heard()
        source.opened(line, peer(), 0)
        await offered(source, line, peer(), 1, 2)

        batch = await source.next()

        assert line.acks == []
        assert batch.kind is SignalClass.EXIT
        assert len(batch.observations) == 2
        assert await silent(source)
        assert line.acks == [2]

    run(scene())


def test_a_repetition_after_a_kill_between_disk_and_acknowledgement_is_told_nobody_and_acknowledged() -> None:
    async def scene() -> None:
        killed, line = source_of(), Heard()
        killed.opened(line, peer(), 0)
        await offered(killed, line, peer(), 1, 2)
        state = (await killed.next()).state

        again = source_of()
        again.restore(json.loads(json.dumps(state)))
        new = Heard()
        again.opened(new, peer(), 0)
        await offered(again, new, peer(), 1, 2, 3)
        batch = await again.next()

        assert [one.signal.start for one in batch.observations if isinstance(one.signal, ProcessExit)] == [3]
        assert await silent(again)
        assert new.acks == [3]
        assert again.counts() == {"supervisor_repeats": 2, "supervisor_reports": 1}

    run(scene())


def test_what_was_given_and_not_kept_is_neither_acknowledged_nor_remembered() -> None:
    async def scene() -> None:
        source, line = source_of(), Heard()
        source.opened(line, peer(), 0)
        await offered(source, line, peer(), 1)
        await source.next()
        await offered(source, line, peer(), 2)

        source.restore(None)  # keeping failed

        assert line.ended
        assert await silent(source)
        assert line.acks == []
        fresh = Heard()
        source.opened(fresh, peer(), 0)
        await offered(source, fresh, peer(), 1, 2)
        assert len((await source.next()).observations) == 2

    run(scene())


@given(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["offer", "kill", "keep"])), max_size=40),
)
def test_every_number_is_told_once_over_any_kills_and_repetitions(script: list[tuple[int, str]]) -> None:
    """A supervisor that repeats everything above the last acknowledgement, and an agent that is killed at any moment."""

    async def scene() -> None:
        kept: list[int] = []
        state: Any = None
        acked, made = 0, 0
        source, line = source_of(), Heard()
        source.opened(line, peer(), 0)
        sent = 0
        for amount, what in [*script, (1, "keep"), (1, "keep")]:
            if what == "offer":
                made = min(made + amount, 60)
                await offered(source, line, peer(), *range(sent + 1, made + 1))
                sent = made
            elif what == "keep":
                if source._reports.qsize():
                    batch = await source.next()
                    kept += [o.signal.start for o in batch.observations if isinstance(o.signal, ProcessExit)]
                    state = json.loads(json.dumps(batch.state))
                await silent(source)
                acked = max([acked, *line.acks])
            else:
                source, line = source_of(), Heard()
                source.restore(state)
                source.opened(line, peer(), 0)
                await offered(source, line, peer(), *range(acked + 1, made + 1))
                sent = made

        assert sorted(kept) == kept == list(range(1, len(kept) + 1))
        assert acked <= len(kept)

    run(scene())


def test_an_unreadable_report_is_acknowledged_so_that_an_exit_behind_it_is_heard() -> None:
    async def scene() -> None:
        source, line = source_of(), Heard()
        source.opened(line, peer(), 0)
        await source.offer(Offered(line, peer(), 1, words.Unreadable(1, "milestone: no such name")))
        await offered(source, line, peer(), 2)

        batch = await source.next()

        assert len(batch.observations) == 1
        assert await silent(source)
        assert line.acks == [2]

    run(scene())


def test_one_pod_cannot_spend_the_numbers_of_another_nor_of_another_container() -> None:
    async def scene() -> None:
        source, line = source_of(), Heard()
        source.opened(line, peer("pod-1"), 0)
        await offered(source, line, peer("pod-1"), 1_000_000)
        await source.next()
        await offered(source, line, peer("pod-2"), 1)
        await offered(source, line, peer("pod-1", "other"), 1)

        assert len((await source.next()).observations) == 2

    run(scene())


def test_memory_is_bounded_whatever_a_pod_calls_its_spool() -> None:
    async def scene() -> None:
        source, line = source_of(), Heard()
        for number in range(200):
            source.opened(line, peer("hostile", f"s{number}"), 0)
        source.opened(line, peer("honest"), 0)
        for number in range(REMEMBERED * 2):
            source.opened(line, peer(f"pod-{number}"), 0)
            source.opened(line, peer("honest"), 0)
        await offered(source, line, peer("honest"), 1)
        state = (await source.next()).state

        assert state is not None
        assert len(state["pods"]) <= REMEMBERED
        assert max(len(spools) for spools in state["pods"].values()) <= SPOOLS_OF_A_POD
        assert state["pods"]["honest"] == {"s": [1, 0]}

    run(scene())


def test_reports_a_supervisor_had_to_drop_are_told_once() -> None:
    async def scene() -> None:
        source, line = source_of(), Heard()
        source.opened(line, peer(), 3)
        source.opened(line, peer(), 3)
        batch = await source.next()

        (gap,) = [one.signal for one in batch.observations]
        assert isinstance(gap, SignalGap)
        assert gap.lost == 3
        again = source_of()
        again.restore(batch.state)
        again.opened(line, peer(), 3)
        assert await silent(again)

    run(scene())


def test_losses_of_a_pod_are_told_once_a_minute_whatever_it_calls_its_spool() -> None:
    async def scene() -> None:
        clock = Clock()
        source, line = source_of(clock), Heard()
        for number in range(50):
            source.opened(line, peer("hostile", f"s{number}"), 1)
        source.opened(line, peer("honest"), 2)
        assert len((await source.next()).observations) == 2
        clock.now += timedelta(minutes=1)
        source.opened(line, peer("hostile", "s7"), 1)
        assert len((await source.next()).observations) == 1

    run(scene())


def test_steps_are_a_level_the_newest_of_a_pod_once_a_second() -> None:
    async def scene() -> None:
        clock = Clock()
        source = source_of(clock)
        steps: list[int | None] = []
        for number in range(1, 6):
            source.hear(peer(), report(type="progress", step=number, seq=None))
            if number in (1, 4):
                batch = await source.next()
                assert batch.kind is SignalClass.METRIC
                steps += [one.signal.step for one in batch.observations if isinstance(one.signal, Progress)]
                assert await silent(source)
                clock.now += timedelta(seconds=0.5)
            if number == 3:
                assert await silent(source)
                clock.now += timedelta(seconds=1)
        assert steps == [1, 4]

    run(scene())


def test_a_step_that_is_said_again_keeps_its_duration_and_the_next_one_has_its_own() -> None:
    async def scene() -> None:
        told = []
        for fields in (
            ({"step": 7, "step_seconds": 0.5}, {"step": 7}),
            ({"step": 8, "step_seconds": 0.6}, {"step": 9}),
        ):
            source = source_of()
            for each in fields:
                source.hear(peer(), report(type="progress", seq=None, **each))
            (one,) = (await source.next()).observations
            assert isinstance(one.signal, Progress)
            told.append((one.signal.step, one.signal.step_seconds))

        assert told == [(7, 0.5), (9, None)]

    run(scene())


def test_reports_wait_while_the_spool_has_no_room_for_pods_and_are_not_lost() -> None:
    async def scene() -> None:
        room = [False]
        source, line = source_of(has_room=lambda: room[0]), Heard()
        source.opened(line, peer(), 0)
        await offered(source, line, peer(), 1)

        assert await silent(source)
        assert line.acks == []
        room[0] = True
        assert len((await source.next()).observations) == 1

    run(scene())
