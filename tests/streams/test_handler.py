"""What one group of messages comes to: deterministic, complete, and harmless to every subject but the one that is broken."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from confluent_kafka.cimpl import murmur2
from hypothesis import given
from hypothesis import strategies as st

from recovery.interface import Advance, Cells, Delivery, Emit
from schemas import topics
from schemas.commands import Command, StepName
from schemas.envelope import MAX_EVENT_BYTES, Origin
from schemas.ids import mailbox_key
from schemas.mailbox import PartitionGap, PauseOrder, ResumeOrder, RulebookSwitch, Tick
from schemas.records import Decision
from streams.group import Group
from streams.handler import FORWARDED, RESUMES_KEPT, HandlingLimits
from streams.memory import Memory
from streams.ports import Send
from tests.streams.bench import LIMITS, Bench, event_clock, headers_of, sent_to
from tests.streams.fakes import CLUSTER, START, FakeMessage, event, message
from tests.streams.toy_core import NAP, ToyCore, ToyRulebook, fault

RUN, OTHER, NODE = "run/r", "run/other", "node/n"
RESUME = ResumeOrder(by="somebody", reason="mended")


def ask(offset: int, detail: str, subject: str = RUN, *, seconds: float = 0.0) -> FakeMessage:
    return message(offset, event(fault(detail), subject, id=f"e{offset}"), seconds=seconds)


def dead(group: Group) -> list[Send]:
    return [send for send in group.sends if send.topic == topics.DEADLETTERS.name]


def reasons(group: Group) -> list[str]:
    return [headers_of(send)["reason"] for send in dead(group)]


# ---------------------------------------------------------------- what changes and what does not


def test_an_event_that_reaches_nothing_changes_nothing_and_moves_the_position() -> None:
    group = Bench().handle(ask(0, "quiet"), ask(1, "quiet"))

    assert (group.records, group.sends, group.next, group.taken) == ({}, [], 2, 2)
    assert not group.must_be_told


def test_handling_changes_nothing_until_the_group_is_confirmed() -> None:
    bench = Bench()

    group = bench.handle(ask(0, "count"))

    assert bench.toy(RUN).count == 0
    assert bench.memory.position == 0
    bench.memory.commit(group, wall=START)
    assert bench.toy(RUN).count == 1
    assert bench.memory.position == 1


def test_the_same_messages_give_the_same_group() -> None:
    bench = Bench()
    messages = [ask(0, "command"), ask(1, "tell"), ask(2, "arm"), ask(3, "raise", OTHER)]

    first, second = bench.handle(*messages), bench.handle(*messages)

    assert (first.records, first.sends) == (second.records, second.sends)


def test_messages_of_a_group_see_what_those_before_them_changed() -> None:
    bench = Bench()

    group = bench.apply(ask(0, "count"), ask(1, "count"), ask(2, "count", OTHER))

    assert bench.toy(RUN).count == 2
    assert bench.toy(OTHER).count == 1
    assert len(group.records) == 2, "the last value of each cell only"
    assert bench.memory.cell_count == 2


def test_every_emit_carries_where_it_came_from() -> None:
    group = Bench().handle(ask(5, "quiet"), ask(6, "command"), ask(7, "tell"))

    assert [event.origin for event in sent_to(group.sends, topics.COMMANDS)] == ["recovery/0/6/0"]
    assert [event.origin for event in sent_to(group.sends, topics.INBOX)] == ["recovery/0/7/0"]


def test_an_emit_goes_to_the_mailbox_of_its_key() -> None:
    (send,) = Bench().handle(ask(0, "command")).sends

    assert send.key == mailbox_key(CLUSTER, RUN)
    assert send.partition is None


def test_a_repeat_with_the_same_origin_is_the_cores_business_and_harmless() -> None:
    bench = Bench()
    made = event(fault("count"), RUN, origin=Origin("router", 3, 17, 0))

    bench.apply(message(0, made))
    group = bench.apply(message(1, made))

    assert bench.toy(RUN).count == 1
    assert group.records == {}


@given(cuts=st.lists(st.integers(0, 30), max_size=6), limits=st.sampled_from([LIMITS, event_clock()]))
def test_how_messages_are_grouped_changes_nothing(cuts: list[int], limits: HandlingLimits) -> None:
    details = ["count", "arm", "tell", "quiet", "command", "raise"]
    messages = [
        message(
            number,
            event(
                fault(details[number * 7 % 6 if number % 6 else number % 5]),
                f"run/r{number % 4}",
                id=f"e{number}",
                time=START + timedelta(seconds=number / 5),
            ),
            seconds=number / 5,
        )
        for number in range(30)
    ]
    whole, cut = Bench(limits=limits), Bench(limits=limits)

    at_once = whole.apply(*messages)
    borders = [0, *sorted(set(cuts)), 30]
    pieces = [cut.apply(*messages[start:end]) for start, end in pairwise(borders) if start < end]

    assert [send for piece in pieces for send in piece.sends] == at_once.sends
    assert {subject: cut.memory.cells_of(subject) for subject in cut.memory.subjects()} == {
        subject: whole.memory.cells_of(subject) for subject in whole.memory.subjects()
    }
    assert cut.memory.halted == whole.memory.halted


# ---------------------------------------------------------------- time


def test_the_clock_of_a_partition_never_goes_back() -> None:
    bench = Bench()

    bench.apply(ask(0, "quiet", seconds=10), ask(1, "quiet", seconds=3))

    assert bench.memory.now == START + timedelta(seconds=10)


def test_a_cell_with_a_due_time_gets_a_tick_sent_to_its_own_partition() -> None:
    bench = Bench()
    bench.apply(ask(0, "arm"))

    assert bench.handler.ticks(START) == []
    (tick,) = bench.handler.ticks(START + NAP)

    assert (tick.topic, tick.partition, tick.key) == ("inbox.v1", 0, mailbox_key(CLUSTER, RUN))
    assert bench.handler.ticks(START + NAP) == [], "sent once"


def test_a_tick_changes_its_cell_once() -> None:
    bench = Bench()
    bench.apply(ask(0, "arm"))
    (tick,) = bench.handler.ticks(START + NAP)
    appended = (START + NAP).timestamp()

    for offset in (1, 2):
        bench.apply(FakeMessage(offset, tick.value, tick.key, timestamp=appended))

    assert bench.toy(RUN).ticks == 1
    assert bench.toy(RUN).due is None


def test_a_due_time_that_moved_on_gets_no_tick() -> None:
    bench = Bench()
    bench.apply(ask(0, "arm"))
    bench.apply(ask(1, "arm", seconds=1))

    assert bench.handler.ticks(START + NAP) == []
    assert len(bench.handler.ticks(START + timedelta(seconds=1) + NAP)) == 1


@pytest.mark.parametrize(
    ("too_early", "wait"),
    [
        (timedelta(milliseconds=250), timedelta(milliseconds=250)),
        (timedelta(milliseconds=1), LIMITS.tick_min),
    ],
)
def test_an_early_tick_is_armed_again_by_the_difference_and_not_handed_on(
    too_early: timedelta, wait: timedelta
) -> None:
    bench = Bench()
    bench.apply(ask(0, "arm"))
    wall = START + timedelta(minutes=5)  # a worker whose clock is far ahead of the broker's
    (tick,) = bench.handler.ticks(wall)

    group = bench.apply(
        FakeMessage(1, tick.value, tick.key, timestamp=(START + NAP - too_early).timestamp()), wall=wall
    )

    assert group.counts["early"] == 1
    assert bench.toy(RUN).ticks == 0
    assert bench.handler.ticks(wall + wait - timedelta(microseconds=1)) == []
    assert len(bench.handler.ticks(wall + wait)) == 1


def test_with_the_event_clock_ticks_come_between_the_messages_in_order() -> None:
    bench = Bench(limits=event_clock())
    hour = timedelta(hours=1)

    bench.apply(
        message(0, event(fault("arm"), RUN, id="a", time=START)),
        message(1, event(fault("quiet"), OTHER, id="b", time=START + hour)),
    )

    assert bench.toy(RUN).ticks == 1
    assert bench.memory.now == START + hour
    assert bench.handler.ticks(START + 2 * hour) == [], "none are sent: time is what the messages say"


def test_with_the_event_clock_a_message_before_the_due_time_brings_no_tick() -> None:
    bench = Bench(limits=event_clock())

    bench.apply(
        message(0, event(fault("arm"), RUN, id="a", time=START)),
        message(1, event(fault("quiet"), OTHER, id="b", time=START + NAP / 2)),
    )

    assert bench.toy(RUN).ticks == 0


def test_an_arrival_is_the_append_time_and_with_the_event_clock_the_events_own() -> None:
    seen: list[Delivery] = []

    class Watching(ToyCore):
        def advance(self, cells: Cells, delivery: Delivery, rulebook: ToyRulebook) -> Advance:
            seen.append(delivery)
            return super().advance(cells, delivery, rulebook)

    late = message(0, event(fault("quiet"), RUN, time=START - timedelta(days=900)), seconds=7)
    Bench(Watching()).handle(late)
    Bench(Watching(), limits=event_clock()).handle(late)

    assert seen[0].arrival == seen[0].now == START + timedelta(seconds=7)
    assert seen[1].arrival == seen[1].now == START - timedelta(days=900)


# ---------------------------------------------------------------- what is no event


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "empty"),
        (b"", "unreadable"),
        (b"\xff\x00", "unreadable"),
        (b"[" * 100_000, "unreadable"),
        (b'{"type": "dev.relight.signal.chip_fault.v9"}', "unknown_type"),
        (b" " * (MAX_EVENT_BYTES + 1), "oversized"),
    ],
)
def test_bytes_that_are_no_event_are_dead_lettered_and_the_partition_goes_on(
    value: bytes | None, reason: str
) -> None:
    bench = Bench()

    group = bench.apply(FakeMessage(0, value, b"k"), ask(1, "count"))

    assert reasons(group) == [reason]
    assert dead(group)[0].value == (value or b"")
    assert headers_of(dead(group)[0])["offset"] == "0"
    assert bench.toy(RUN).count == 1
    assert bench.memory.position == 2


# ---------------------------------------------------------------- halted subjects


def test_a_message_that_makes_the_core_raise_halts_its_subject_and_no_other() -> None:
    bench = Bench()

    group = bench.apply(ask(0, "count"), ask(1, "raise"), ask(2, "count"), ask(3, "count", OTHER))

    assert bench.toy(RUN).count == 1, "what was there stays as it was"
    assert bench.toy(OTHER).count == 1
    assert set(bench.memory.halted) == {(CLUSTER, RUN)}
    assert reasons(group) == ["halted", "halted"]
    assert group.next == 4


def test_the_core_is_asked_three_times_before_a_subject_is_halted() -> None:
    class Flaky(ToyCore):
        def __init__(self, failures: int) -> None:
            self.failures = failures

        def advance(self, cells: Cells, delivery: Delivery, rulebook: ToyRulebook) -> Advance:
            if self.failures:
                self.failures -= 1
                raise MemoryError
            return super().advance(cells, delivery, rulebook)

    twice, thrice = Bench(Flaky(2)), Bench(Flaky(3))
    twice.apply(ask(0, "count"))
    thrice.apply(ask(0, "count"))

    assert twice.toy(RUN).count == 1
    assert twice.memory.halted == {}
    assert set(thrice.memory.halted) == {(CLUSTER, RUN)}


def test_a_halted_runs_supervisors_are_let_go_and_people_are_told() -> None:
    group = Bench().handle(ask(4, "raise"))

    (command,) = sent_to(group.sends, topics.COMMANDS)
    (decision,) = sent_to(group.sends, topics.DECISIONS)
    assert isinstance(command.data, Command)
    assert (command.data.step, command.data.subject, command.subject) == (StepName.RELEASE_JOB, RUN, RUN)
    assert "ValueError" in command.data.reason
    assert isinstance(decision.data, Decision)
    assert (decision.data.verdict, decision.data.trigger) == ("halted", "e4")
    assert [command.origin, decision.origin] == ["recovery/0/4/0", "recovery/0/4/1"]


def test_a_halted_node_releases_no_job() -> None:
    group = Bench().handle(ask(0, "raise", NODE))

    assert sent_to(group.sends, topics.COMMANDS) == []
    assert len(sent_to(group.sends, topics.DECISIONS)) == 1


def test_a_cell_above_the_cap_halts_its_subject_before_it_is_written() -> None:
    bench = Bench()

    group = bench.apply(ask(0, "count"), ask(1, "big"))

    assert reasons(group) == ["halted"]
    assert bench.toy(RUN).ballast == ""


def test_an_emit_above_the_limit_halts_its_subject_before_anything_of_it_is_sent() -> None:
    class Loud(ToyCore):
        def advance(self, cells: Cells, delivery: Delivery, rulebook: ToyRulebook) -> Advance:
            del cells, rulebook
            loud = delivery.event.model_copy(update={"source": "x" * MAX_EVENT_BYTES})
            return Advance({}, (Emit("inbox.v1", NODE, loud),))

    group = Bench(Loud()).handle(ask(0, "count"))

    assert sent_to(group.sends, topics.INBOX) == []
    assert reasons(group) == ["halted"]


def test_a_halted_subject_gets_no_ticks() -> None:
    bench = Bench()
    bench.apply(ask(0, "arm"), ask(1, "raise"))

    assert bench.handler.ticks(START + NAP) == []


def test_a_tick_on_its_way_to_a_halted_subject_is_no_dead_letter() -> None:
    bench = Bench()
    bench.apply(ask(0, "raise"))

    group = bench.apply(message(1, event(Tick(cell="toy", due=START), RUN)))

    assert group.sends == []


def test_a_resume_forgets_everything_of_a_halted_subject_and_begins_anew() -> None:
    bench = Bench()
    bench.apply(ask(0, "count"), ask(1, "count", OTHER), ask(2, "raise"))

    group = bench.apply(message(3, event(RESUME, RUN)), ask(4, "count"))

    assert bench.memory.halted == {}
    assert bench.toy(RUN).count == 1
    assert bench.toy(OTHER).count == 1
    assert [value for key, value in group.records.items() if b"halted" in key] == [None]


@pytest.mark.parametrize("before", [["raise"], []], ids=["it had lifted one", "it had come before any"])
@pytest.mark.parametrize("together", [True, False], ids=["one group", "a group each"])
def test_a_resume_that_is_told_again_lifts_no_later_halt(before: list[str], *, together: bool) -> None:
    resume = event(RESUME, RUN, id="order")
    fault_before = [ask(number, detail) for number, detail in enumerate(before)]
    told = [*fault_before, message(1, resume), ask(2, "raise"), message(3, resume, seconds=3600)]
    bench = Bench()

    for group in [told] if together else [[each] for each in told]:
        bench.apply(*group)

    assert set(bench.memory.halted) == {(CLUSTER, RUN)}
    bench.apply(message(4, event(RESUME, RUN, id="another order")), ask(5, "count"))
    assert bench.memory.halted == {}
    assert bench.toy(RUN).count == 1


def test_an_order_of_one_subject_is_not_taken_for_that_of_another_with_the_same_id() -> None:
    bench = Bench()
    bench.apply(ask(0, "raise"), ask(1, "raise", OTHER))

    bench.apply(message(2, event(RESUME, RUN, id="order")), message(3, event(RESUME, OTHER, id="order")))

    assert bench.memory.halted == {}


def test_only_the_last_resumes_are_remembered() -> None:
    bench = Bench()

    bench.apply(*(message(number, event(RESUME, RUN, id=f"o{number}")) for number in range(RESUMES_KEPT + 2)))

    assert len(bench.memory.resumes) == RESUMES_KEPT
    assert bench.memory.resumes[0] == (CLUSTER, RUN, "o2")


@pytest.mark.parametrize("order", [PauseOrder(by="somebody", reason="wait"), fault("count")])
def test_nothing_but_a_resume_takes_a_halted_subject_up(order: PauseOrder) -> None:
    bench = Bench()
    bench.apply(ask(0, "raise"))

    group = bench.apply(message(1, event(order, RUN)))

    assert reasons(group) == ["halted"]
    assert bench.memory.halted


def test_a_subject_with_a_cell_that_cannot_be_read_is_halted_at_its_next_message() -> None:
    bench = Bench()
    first = bench.apply(ask(0, "count"), ask(1, "count", OTHER))
    broken = Bench()
    broken.memory.restore(
        [(key, b"?" if RUN.encode() in key else value) for key, value in first.records.items()]
    )

    group = broken.apply(ask(2, "count"), ask(3, "count", OTHER))

    assert set(broken.memory.halted) == {(CLUSTER, RUN)}
    assert reasons(group) == ["halted"]
    assert broken.toy(OTHER).count == 2
    broken.apply(message(4, event(RESUME, RUN)), ask(5, "count"))
    assert broken.toy(RUN).count == 1


# ---------------------------------------------------------------- messages to the stage itself


def switch(offset: int, digest: str) -> FakeMessage:
    return message(offset, event(RulebookSwitch(rulebook=digest, released_by="somebody"), "partition/0"))


def test_a_group_ends_before_a_switch_to_another_rulebook() -> None:
    group = Bench().handle(ask(0, "count"), switch(1, "v1"), ask(2, "count"))

    assert (group.needs, group.next, group.taken) == ("v1", 1, 1)


def test_a_switch_takes_effect_from_the_next_message_on_and_is_remembered() -> None:
    bench = Bench()
    bench.apply(ask(0, "count"))

    group = bench.handle(switch(1, "v1"))
    bench.handler.switch(group, ToyRulebook("v1"), switch(1, "v1"))
    bench.memory.commit(group, wall=START)
    (command,) = sent_to(bench.apply(ask(2, "command")).sends, topics.COMMANDS)

    assert isinstance(command.data, Command)
    assert command.data.rulebook == "v1"
    after = Memory(bench.core)
    after.restore(group.records.items())
    assert after.rulebook_needed == "v1"


def test_a_switch_to_the_rulebook_that_is_active_changes_nothing() -> None:
    bench = Bench()
    bench.memory.use_rulebook(ToyRulebook("v1"))

    group = bench.handle(switch(0, "v1"), ask(1, "count"))

    assert (group.needs, group.taken) == (None, 2)


def test_a_gap_is_put_on_record() -> None:
    gap = message(9, event(PartitionGap(first_lost=2, first_kept=9), "partition/0"))

    (decision,) = sent_to(Bench().handle(gap).sends, topics.DECISIONS)

    assert isinstance(decision.data, Decision)
    assert decision.data.verdict == "partition_gap"
    assert decision.data.reason.startswith("7 messages")


def test_what_is_meant_for_another_partition_is_not_obeyed() -> None:
    other = message(0, event(RulebookSwitch(rulebook="v1", released_by="somebody"), "partition/3"))

    group = Bench().handle(other)

    assert reasons(group) == ["misplaced"]
    assert group.needs is None


def test_a_partition_takes_nothing_but_its_own_kinds() -> None:
    assert reasons(Bench().handle(message(0, event(fault("count"), "partition/0")))) == ["not_accepted"]


# ---------------------------------------------------------------- one key, one place


def elsewhere(partitions: int, here: int) -> str:
    return next(
        f"run/r{number}"
        for number in range(100)
        if murmur2(mailbox_key(CLUSTER, f"run/r{number}"), partitions) != here
    )


def test_a_message_in_the_wrong_partition_is_sent_on_to_the_right_one_untouched() -> None:
    subject = elsewhere(4, 1)
    bench = Bench(number=1, limits=replace(LIMITS, partitions=4))
    wrong = message(0, event(fault("count"), subject, origin=Origin("agent:x", 0, 5, 0)))

    group = bench.apply(wrong)

    (send,) = group.sends
    assert (send.topic, send.key, send.value, send.partition) == ("inbox.v1", wrong.key, wrong.value, None)
    assert bench.toy(subject).count == 0
    assert group.counts["forwarded"] == 1


@pytest.mark.parametrize("headers", [{FORWARDED: b"1"}, [(FORWARDED, b"1")]])
def test_a_message_is_sent_on_once_only(headers: object) -> None:
    bench = Bench(number=1, limits=replace(LIMITS, partitions=4))

    group = bench.handle(message(0, event(fault("count"), elsewhere(4, 1)), headers=headers))

    assert reasons(group) == ["misplaced"]
