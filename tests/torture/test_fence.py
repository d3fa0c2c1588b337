"""No value of a stale owner wins, not even for keys that nobody writes again; and without the fence one does, so this test can fail."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.kafka_server import KafkaBroker
from schemas import topics
from tests.streams.toy_core import ToyCore
from tests.torture.pipeline import PARTITIONS, Pipeline, wait_until
from tests.torture.script import Script
from tests.torture.verdict import CellKey, Referee, force_compaction

KEYS = 80


def produce(pipeline: Pipeline, events: Sequence[tuple[bytes, bytes]]) -> None:
    producer = pipeline.clients.producer()
    for key, value in events:
        producer.produce(pipeline.name(topics.INBOX), key=key, value=value)
    assert producer.flush(30) == 0


def wake_a_stale_owner(pipeline: Pipeline, trap: Path) -> tuple[set[str], dict[CellKey, object]]:
    """Stop an owner between its confirmed emits and its state, let another go on, wake it.

    Returns what became of the stale writes, and the cells that are wrong after a compaction and a restart.
    """
    script, referee = Script(7, keys=KEYS), Referee(pipeline, ToyCore())
    sleeper = pipeline.start(TORTURE_TRAP=str(trap))
    produce(pipeline, script.one_each())
    referee.wait_for_rest()

    (trap / "armed").touch()
    produce(pipeline, script.one_each("command"))
    wait_until(
        lambda: len(list(trap.glob("*.about"))) == PARTITIONS, "every partition is about to write", every=0.01
    )
    sleeper.send(signal.SIGSTOP)
    wait_until(lambda: sleeper.is_stopped, "it stands")
    (trap / "armed").unlink()

    heir = pipeline.start()
    produce(pipeline, script.one_each())  # from here on these keys are quiet
    referee.wait_for_rest()
    sleeper.send(signal.SIGCONT)
    wait_until(lambda: len(list(trap.glob("*.outcome"))) == PARTITIONS, "the stale writes came to an end")
    sleeper.end(signal.SIGKILL)

    others = Script(8, keys=KEYS)  # other subjects of the same partitions: the heir writes on
    produce(pipeline, [others.event(KEYS + number, "count") for number in range(KEYS)])
    referee.wait_for_rest()
    heir.end(signal.SIGTERM)
    assert force_compaction(pipeline) > 0
    last = pipeline.start()
    produce(pipeline, [others.event(KEYS + number, "count") for number in range(KEYS)])
    referee.wait_for_rest()
    last.end(signal.SIGTERM)
    outcomes = {path.read_text(encoding="ascii") for path in trap.glob("*.outcome")}
    assert referee.sent() == referee.oracle.emits
    return outcomes, dict(referee.differences())


def try_with(fence: str, broker: KafkaBroker, folder: Path) -> tuple[set[str], dict[CellKey, object]]:
    trap = folder / "trap"
    trap.mkdir(parents=True)
    pipeline = Pipeline(
        broker,
        f"f{uuid.uuid4().hex[:6]}.",
        folder,
        module="tests.torture.worker",
        # A write that is woken on a busy machine has time: what it comes to is the fence's doing, never a timeout's.
        more={"RELIGHT_RECOVERY__FENCE": fence, "RELIGHT_RECOVERY__TRANSACTION_TIMEOUT": "30s"},
    )
    try:
        return wake_a_stale_owner(pipeline, trap)
    except AssertionError as error:
        raise AssertionError(f"fence {fence}: {error}\n{pipeline.logs()}") from error
    finally:
        pipeline.end_all()


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_stale_value_wins_with_the_fence_and_some_do_without(
    torture_broker: KafkaBroker, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(2) as both:  # they mostly wait
        fenced = both.submit(try_with, "transactions", torture_broker, tmp_path / "fenced")
        unfenced = both.submit(try_with, "off", torture_broker, tmp_path / "unfenced")
        outcomes, wrong = fenced.result()
        control_outcomes, control_wrong = unfenced.result()

    assert outcomes == {"Fenced"}
    assert wrong == {}
    assert control_outcomes == {"written"}
    assert len(control_wrong) > KEYS // 10, "the control did no harm: this test would pass without a fence"
