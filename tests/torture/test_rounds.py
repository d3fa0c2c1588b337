"""Workers are killed, stopped, joined, left, and robbed of their broker: nothing is lost, nothing is applied twice.

relight's own core decides by the default rulebook, with the windows shortened and one counted rule in shadow.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.kafka_server import KafkaBroker
from schemas import topics
from tests.torture.pipeline import Pipeline
from tests.torture.rounds import KINDS, LONG, SHORT, Patience, Torture

SEED = 20261130
SOAK_SERIES, SOAK_ROUNDS = 5, 10
"""Fifty rounds, in series that each begin anew: a failure or an interruption costs one of them."""
PAUSE = "0.05"
"""Seconds between confirmed emits and the transaction: a wide window to be hit in."""


@pytest.fixture(scope="module")
def torture(torture_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Torture]:
    """One pipeline that goes through all rounds, one after the other: what one leaves behind is the next one's start."""
    torture = new_torture(torture_broker, tmp_path_factory.mktemp("workers"), SEED, SHORT)
    yield torture
    torture.end()
    torture.require_walked()


def new_torture(broker: KafkaBroker, folder: Path, seed: int, patience: Patience) -> Torture:
    pipeline = Pipeline(
        broker,
        f"t{uuid.uuid4().hex[:6]}.",
        folder,
        module="tests.torture.worker",
        more={"TORTURE_CORE": "relight", "TORTURE_PAUSE": PAUSE},
    )
    torture = Torture(pipeline, seed, patience)
    torture.hire()
    return torture


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_or_doubled(torture: Torture, kind: str) -> None:
    try:
        torture.round(KINDS[kind])
    except AssertionError as error:
        pytest.fail(f"seed {SEED}, {kind}: {error}\n{torture.pipeline.logs()}")


@pytest.mark.real
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("series", range(SOAK_SERIES))
def test_nothing_is_lost_or_doubled_in_a_series_of_rounds(
    torture_broker: KafkaBroker, tmp_path: Path, series: int, record_property: Callable[[str, object], None]
) -> None:
    seed = random.SystemRandom().randrange(10**9)
    record_property("seed", seed)
    torture = new_torture(torture_broker, tmp_path, seed, LONG)
    drawn = [*KINDS, *torture.dice.choices(list(KINDS), k=SOAK_ROUNDS - len(KINDS))]
    torture.dice.shuffle(drawn)
    try:
        for number, kind in enumerate(drawn):
            try:
                torture.round(KINDS[kind])
            except AssertionError as error:
                pytest.fail(f"{series=}, {seed=}, round {number}, {kind}: {error}\n{torture.pipeline.logs()}")
        torture.require_walked()
        record_property("rounds", ", ".join(f"{times} {kind}" for kind, times in Counter(drawn).items()))
        record_property("messages", sum(torture.pipeline.ends(topics.INBOX).values()))
        record_property("emits", len(torture.referee.oracle.emits))
        record_property("cells", len(torture.referee.oracle.encoded_cells()))
    finally:
        torture.end()
