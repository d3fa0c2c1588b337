"""A subject that makes the core raise is halted, alone, over restarts, until somebody takes it up again."""

from __future__ import annotations

import signal
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Message

from sandbox.kafka_server import KafkaBroker
from schemas import topics
from schemas.commands import Command, StepName
from schemas.envelope import decode, encode, make_event
from schemas.ids import mailbox_key
from schemas.mailbox import ResumeOrder
from schemas.records import Decision
from tests.streams.toy_core import ToyCore
from tests.torture.pipeline import Pipeline
from tests.torture.script import CLUSTER, Script
from tests.torture.test_fence import produce
from tests.torture.verdict import Referee

KEYS = 40
RAISES, GROWS = 7, 8
HALTED = {f"run/r{RAISES}", f"run/r{GROWS}"}


def resume(number: int) -> tuple[bytes, bytes]:
    subject = f"run/r{number}"
    event = make_event(
        ResumeOrder(by="test", reason="mended"),
        id=f"resume-{number}",
        source="/clusters/torture/test",
        subject=subject,
        time=datetime.now(UTC),
        cluster=CLUSTER,
    )
    return mailbox_key(CLUSTER, subject), encode(event)


def subject_of(letter: Message) -> str:
    return decode(letter.value() or b"").subject


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_subject_that_makes_the_core_raise_is_halted_alone(
    torture_broker: KafkaBroker, tmp_path: Path
) -> None:
    pipeline = Pipeline(torture_broker, f"h{uuid.uuid4().hex[:6]}.", tmp_path, module="tests.torture.worker")
    script, referee = Script(5, keys=KEYS), Referee(pipeline, ToyCore())
    try:
        first = pipeline.start()
        produce(pipeline, [*script.one_each(), script.event(RAISES, "raise"), script.event(GROWS, "big")])
        produce(pipeline, script.one_each())
        referee.wait_for_rest()
        first.end(signal.SIGKILL)
        pipeline.start()
        produce(pipeline, script.one_each())
        referee.wait_for_rest()
        before = referee.counted()
        produce(pipeline, [resume(RAISES), *script.one_each()])
        referee.wait_for_rest()
        after = referee.counted()
    finally:
        pipeline.end_all()

    assert referee.differences() == {}
    assert {subject: number for subject, number in before.items() if subject not in HALTED} == dict.fromkeys(
        {f"run/r{key}" for key in range(KEYS)} - HALTED, 3
    )
    assert before[f"run/r{RAISES}"] == before[f"run/r{GROWS}"] == 1
    assert after[f"run/r{RAISES}"] == 1, "rebuilt from nothing, then counted once"
    assert after[f"run/r{GROWS}"] == 1, "still halted"

    letters = pipeline.read_all(topics.DEADLETTERS)
    assert sorted(map(subject_of, letters)) == sorted([f"run/r{RAISES}"] * 3 + [f"run/r{GROWS}"] * 4)
    assert {dict(letter.headers() or [])["relight.reason"] for letter in letters} == {b"halted"}
    commands = [decode(message.value() or b"").data for message in pipeline.read_all(topics.COMMANDS)]
    released = [command for command in commands if isinstance(command, Command)]
    assert {command.subject for command in released} == HALTED
    assert {command.step for command in released} == {StepName.RELEASE_JOB}
    assert len({command.command for command in released}) == 2
    decisions = [decode(message.value() or b"") for message in pipeline.read_all(topics.DECISIONS)]
    assert {event.subject for event in decisions} == HALTED
    assert all(isinstance(event.data, Decision) and event.data.verdict == "halted" for event in decisions)
