"""Settings of the audit: the store, its three users, how rows are batched."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, SecretStr

from runtime.settings import Duration, Group, Settings


class UserSettings(Group):
    """One user of the store."""

    name: str
    """Name in ClickHouse."""
    password: SecretStr = SecretStr("")
    """Password. Off: empty."""


class StoreSettings(Group):
    """How to reach ClickHouse, over HTTP."""

    host: str = "127.0.0.1"
    """Host of the server, or of the balancer before a cluster."""
    port: Annotated[int, Field(ge=1, le=65_535)] = 8123
    """Port of the HTTP interface; 8443 with TLS."""
    secure: bool = False
    """TLS. Off: plain, for loopback and private networks."""
    database: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")] = "relight"
    """Database with everything of ours."""
    timeout: Duration = timedelta(seconds=30)
    """One statement of the writer or the migrator."""
    writer: UserSettings = UserSettings(name="writer")
    """Inserts and reads positions; makes nothing."""
    migrator: UserSettings = UserSettings(name="migrator")
    """Makes tables and views; used by `relight audit migrate` only."""
    reader: UserSettings = UserSettings(name="reader")
    """Reads; for people, reports and `relight sql`."""


class BatchSettings(Group):
    """Rows go in batches: many small inserts are what ClickHouse bears worst."""

    rows: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Rows at once. 10,000 is near the end of the gain (measured: 1,000 gave 162,000 rows/s, 10,000 gave 259,000)."""
    wait: Duration = timedelta(seconds=1)
    """How long a first row waits for others. One second: an insert a second and table is what ClickHouse advises."""


class AuditSettings(Settings):
    """Settings of `relight audit`."""

    store: StoreSettings = StoreSettings()
    batch: BatchSettings = BatchSettings()
    again_first: Duration = timedelta(seconds=1)
    """Wait before the first retry of a store that is away; doubled up to `again_most`."""
    again_most: Duration = timedelta(seconds=30)
    """Longest wait between two tries."""
    alarm_after: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Health goes red when the oldest unread message is older than this share of the shortest retention (design 6: half)."""
