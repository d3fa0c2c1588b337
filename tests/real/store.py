"""The fixture `store`: ClickHouse's engine behind its HTTP interface, one for the session; each test gets a database of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from audit.settings import StoreSettings
from sandbox.clickhouse import ClickHouse


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    """The store's process, shared."""
    with ClickHouse(tmp_path_factory.mktemp("clickhouse")) as running:
        yield running


@pytest.fixture
def store_settings(clickhouse: ClickHouse) -> StoreSettings:
    """The way to an empty database of one's own."""
    return StoreSettings(port=clickhouse.port, database=f"t{uuid.uuid4().hex[:12]}")
