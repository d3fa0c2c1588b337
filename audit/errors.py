"""Errors of this room.

AuditError                  root
├── StoreAway               temporary: ClickHouse does not answer; the same again later is right
├── StoreRefused            permanent until somebody acts: rights, a missing table, a column of another type
├── RowsRefused             permanent: rows that no store of this kind takes, whoever acts
└── MigrationError          the schema is not as this release expects it: the operator must act
"""

from __future__ import annotations


class AuditError(Exception):
    """Root of everything this room raises."""


class StoreAway(AuditError):  # noqa: N818 - says what happened; the root says that it is an error
    """ClickHouse does not answer, or not now. An insert may have happened: the same batch again is the same rows."""


class StoreRefused(AuditError):  # noqa: N818 - as above
    """ClickHouse does not take it: rights, a missing table, a type."""


class RowsRefused(AuditError):  # noqa: N818 - as above
    """Something in the rows themselves: a value out of range, text that is none. The others of the batch are taken without it."""


class MigrationError(AuditError):
    """A migration was changed after it ran, or a newer release has migrated further."""
