"""The one way to ClickHouse: the official client over HTTP, its errors as ours.

What went wrong is told apart by who can act. It passes by itself: a line that breaks, a balancer's 5xx, a server that has too much to do.
Somebody must act: rights, a missing table or database, a balancer that knows no such place. Nobody can: a value that no column takes.

Settings whose defaults changed over the server's releases are said explicitly, so that all of them behave the same.
"""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, DataError, OperationalError
from urllib3.exceptions import HTTPError

from audit.errors import RowsRefused, StoreAway, StoreRefused
from audit.settings import StoreSettings, UserSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from clickhouse_connect.driver.client import Client

logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())
"""What the driver logs goes where a process sends its log; without one it stays out of a command's output: the error says the same."""

INSERT_SETTINGS: Final[Mapping[str, Any]] = {
    "async_insert": 0,
    "wait_end_of_query": 1,
    # Off before 26.2: a batch whose insert broke between a table and what is kept of it would stay out of the latter for good.
    "deduplicate_blocks_in_dependent_materialized_views": 1,
}
_PASSES: Final = frozenset(
    {
        159,  # TIMEOUT_EXCEEDED
        160,  # TOO_SLOW
        201,  # QUOTA_EXCEEDED: until its interval is over
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203,  # NO_FREE_CONNECTION
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        225,  # NO_ZOOKEEPER
        236,  # ABORTED: the server is going down
        241,  # MEMORY_LIMIT_EXCEEDED
        242,  # TABLE_IS_READ_ONLY: its keeper is away
        243,  # NOT_ENOUGH_SPACE
        252,  # TOO_MANY_PARTS
        279,  # ALL_CONNECTION_TRIES_FAILED
        285,  # TOO_FEW_LIVE_REPLICAS
        286,  # UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
        319,  # UNKNOWN_STATUS_OF_INSERT
        394,  # QUERY_WAS_CANCELLED
        439,  # CANNOT_SCHEDULE_TASK
        473,  # DEADLOCK_AVOIDED
        745,  # SERVER_OVERLOADED
        999,  # KEEPER_EXCEPTION
    }
)
"""Error codes of ClickHouse after which the same again is right."""
_OF_ROWS: Final = frozenset(
    {
        6,  # CANNOT_PARSE_TEXT
        26,  # CANNOT_PARSE_QUOTED_STRING
        27,  # CANNOT_PARSE_INPUT_ASSERTION_FAILED
        38,  # CANNOT_PARSE_DATE
        41,  # CANNOT_PARSE_DATETIME
        69,  # ARGUMENT_OUT_OF_BOUND
        72,  # CANNOT_PARSE_NUMBER
        117,  # INCORRECT_DATA
        128,  # TOO_LARGE_ARRAY_SIZE
        131,  # TOO_LARGE_STRING_SIZE
        321,  # VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
        349,  # CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
        407,  # DECIMAL_OVERFLOW
        469,  # VIOLATED_CONSTRAINT
    }
)
"""Error codes of ClickHouse that lie in what was inserted; of an insert only."""
_STATUS: Final = re.compile(r"HTTP status (\d{3})")
_COME_AGAIN: Final = frozenset({408, 425, 429})
"""Statuses below 500 with which a balancer says that later is right."""


class Store:
    """ClickHouse, as one user."""

    def __init__(
        self, settings: StoreSettings, user: UserSettings, *, limits: Mapping[str, Any] | None = None
    ) -> None:
        """`limits` are settings of each statement, such as max_execution_time. Raises StoreAway, StoreRefused."""
        self.database = settings.database
        with _translated("connecting"), _reaching(settings):
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
        """Insert rows in one block; the same token again is the same rows, as long as the server remembers it.

        Raises StoreAway, StoreRefused, RowsRefused.
        """
        settings = {**INSERT_SETTINGS, "insert_deduplication_token": token}
        with _translated(f"inserting into {table}"), _rows_told(table):
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
        kind = StoreAway if _passes(error) else StoreRefused
        raise kind(f"{doing[:200]}: {error}") from error
    except ClickHouseError as error:
        raise StoreRefused(f"{doing[:200]}: {error}") from error
    except (HTTPError, OSError) as error:
        raise StoreAway(f"{doing[:200]}: {error}") from error


def _passes(error: DatabaseError) -> bool:
    """A code is ClickHouse's own word; an answer without one comes from what stands before it."""
    if error.code is not None:
        return error.code in _PASSES
    status = _STATUS.search(str(error))
    return status is not None and (
        int(status[1]) >= HTTPStatus.INTERNAL_SERVER_ERROR or int(status[1]) in _COME_AGAIN
    )


@contextmanager
def _rows_told(table: str) -> Iterator[None]:
    """What lies in the rows, be it the server who says so or the client that cannot write them down."""
    try:
        yield
    except DatabaseError as error:
        if isinstance(error, DataError) or error.code in _OF_ROWS:
            raise RowsRefused(f"inserting into {table}: {error}") from error
        raise
    except (ValueError, TypeError, OverflowError, struct.error) as error:
        raise RowsRefused(f"inserting into {table}: {error!r}") from error


@contextmanager
def _reaching(settings: StoreSettings) -> Iterator[None]:
    """A server that cannot be reached is told by its address: the driver tells its own calls."""
    try:
        yield
    except (OperationalError, HTTPError, OSError) as error:
        first = _first_cause(error)
        if not isinstance(first, (HTTPError, OSError)):
            raise
        why = (first.strerror if isinstance(first, OSError) else None) or str(first)
        raise StoreAway(f"no store answers at {settings.host}:{settings.port} ({why})") from error


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None or isinstance(getattr(error, "reason", None), BaseException):
        error = error.__cause__ or getattr(error, "reason")  # noqa: B009 - only some kinds have it
    return error
