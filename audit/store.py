"""The one way to ClickHouse: the official client over HTTP, its errors as ours.

Settings whose defaults changed over the server's releases are said explicitly, so that all of them behave the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, OperationalError
from urllib3.exceptions import HTTPError

from audit.errors import StoreAway, StoreRefused
from audit.settings import StoreSettings, UserSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from clickhouse_connect.driver.client import Client

INSERT_SETTINGS: Final[Mapping[str, Any]] = {
    "async_insert": 0,
    "wait_end_of_query": 1,
    # Off before 26.2: a batch whose insert broke between a table and what is kept of it would stay out of the latter for good.
    "deduplicate_blocks_in_dependent_materialized_views": 1,
}
_TEMPORARY: Final = (
    "TIMEOUT_EXCEEDED",
    "TOO_MANY_PARTS",
    "TOO_MANY_SIMULTANEOUS_QUERIES",
    "MEMORY_LIMIT_EXCEEDED",
    "TABLE_IS_READ_ONLY",
)


class Store:
    """ClickHouse, as one user."""

    def __init__(
        self, settings: StoreSettings, user: UserSettings, *, limits: Mapping[str, Any] | None = None
    ) -> None:
        """`limits` are settings of each statement, such as max_execution_time. Raises StoreAway, StoreRefused."""
        self.database = settings.database
        with _translated("connecting"):
            self._client: Client = clickhouse_connect.get_client(
                host=settings.host,
                port=settings.port,
                username=user.name,
                password=user.password.get_secret_value(),
                secure=settings.secure,
                compress=False,
                autogenerate_session_id=False,
                send_receive_timeout=int(settings.timeout.total_seconds()),
                settings=dict(limits or {}),
                query_retries=0,
                tz_mode="aware",  # a time without its zone is read as local time by whoever gets it
            )

    def command(self, statement: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement that returns nothing; parameters are bound by the server."""
        with _translated(statement):
            self._client.command(statement, parameters=dict(parameters or {}))

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a query; parameters are bound by the server."""
        with _translated(statement):
            return [
                tuple(row)
                for row in self._client.query(statement, parameters=dict(parameters or {})).result_rows
            ]

    def table(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of a query."""
        with _translated(statement):
            result = self._client.query(statement, parameters=dict(parameters or {}))
            return list(result.column_names), [tuple(row) for row in result.result_rows]

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, token: str
    ) -> None:
        """Insert rows in one block; the same token again is the same rows, as long as the server remembers it."""
        settings = {**INSERT_SETTINGS, "insert_deduplication_token": token}
        with _translated(f"inserting into {table}"):
            self._client.insert(
                f"{self.database}.{table}", rows, column_names=list(columns), settings=settings
            )

    def close(self) -> None:
        """Let go of the server."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise StoreAway(f"{doing[:200]}: {error}") from error
    except DatabaseError as error:
        kind = StoreAway if any(word in str(error) for word in _TEMPORARY) else StoreRefused
        raise kind(f"{doing[:200]}: {error}") from error
    except ClickHouseError as error:
        raise StoreRefused(f"{doing[:200]}: {error}") from error
    except (HTTPError, OSError) as error:
        raise StoreAway(f"{doing[:200]}: {error}") from error
