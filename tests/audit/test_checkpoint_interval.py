"""Golden values of what a checkpoint interval costs, computed by hand from the published formulas (resiliency 2.2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from audit.migrate import VIEWS, statements_of
from audit.settings import StoreSettings
from audit.store import Store

pytestmark = pytest.mark.slow
FLEET = "nodes = 2048, failures_per_1000_node_days = 6.5"


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    running = request.getfixturevalue("clickhouse")
    settings = StoreSettings(port=running.port, database="intervals")
    with Store(settings, settings.migrator) as made:
        made.command("CREATE DATABASE intervals")
        text = (VIEWS / "04_checkpoint_interval.sql").read_text(encoding="utf-8")
        for statement in statements_of(text, "intervals"):
            made.command(statement)
        with Store(settings, settings.reader) as reader:
            yield reader
        made.command("DROP DATABASE intervals")


@pytest.mark.parametrize(
    ("restart", "interval", "save", "share"),
    [(5, 60, 0, 0.6764), (20, 60, 0, 0.5378), (5, 15, 0.5, 0.8559), (5, 5, 0.1, 0.9124)],
)
def test_the_productive_share_of_a_fleet(
    restart: float, interval: float, save: float, share: float, store: Store
) -> None:
    asked = f"restart_minutes = {restart}, interval_minutes = {interval}, save_minutes = {save}"
    ((found,),) = store.rows(
        f"SELECT productive_share FROM intervals.expected_productive_share({FLEET}, {asked})"
    )

    assert found == pytest.approx(share, abs=5e-5)


@pytest.mark.parametrize(("save", "young", "daly"), [(1.0, 14.71, 13.71), (0.1, 4.65, 4.55)])
def test_the_best_interval(save: float, young: float, daly: float, store: Store) -> None:
    (found,) = store.rows(
        f"SELECT young_minutes, daly_minutes FROM intervals.best_checkpoint_interval({FLEET}, save_minutes = {save})"
    )

    assert found == pytest.approx((young, daly), abs=5e-3)


def test_no_share_is_below_nothing(store: Store) -> None:
    ((found,),) = store.rows(
        "SELECT productive_share FROM intervals.expected_productive_share(nodes = 100000, failures_per_1000_node_days = 50,"
        " restart_minutes = 60, interval_minutes = 60, save_minutes = 1)"
    )

    assert found == 0
