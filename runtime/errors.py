"""Errors of this room.

    ProcessError                root
    ├── PinError                a library is not at the version this release was proven with: whoever deploys must act
    ├── SettingsConflict        a setting is no such value, or two contradict each other: the operator must act
    ├── BrokerError             the broker refused something
    │   ├── BrokerAway          temporary: the broker or its answer is missing; the same again later is right
    │   ├── OutcomeUnknown      a write may or may not have happened: read before writing again
    │   ├── Fenced              another owner took over the transactional id: what is remembered of the partition is worthless
    │   └── BrokerRefused       permanent until an operator acts: rights, sizes, unknown topics
    └── ApiError                the Kubernetes API refused something, or did not answer
        ├── ApiAway             temporary, and a write may have happened: read before writing again
        │   └── ApiTooMany      the server, or a disruption budget, asks to come back later; says when
        ├── ApiNotFound         no such object
        ├── ApiConflict         the object is not as the caller thought, or exists already: read again
        ├── ApiGone             the version to list or watch from is too old: list again
        ├── ApiForbidden        rights are missing: the operator must act
        └── ApiInvalid          the server does not take what was sent: a bug, or an admission policy

A topic that is not as the catalogue wants it is `schemas.errors.CatalogueError`.
"""

from __future__ import annotations

from typing import Any


class ProcessError(Exception):
    """Root of everything this room raises."""


class PinError(ProcessError):
    """A library is not at the version this release was proven with."""


class SettingsConflict(ProcessError):  # noqa: N818 - says what happened; the root says that it is an error
    """Settings are wrong or contradict each other; the message names each and what would be right."""


class BrokerError(ProcessError):
    """The broker refused something, or did not answer."""


class BrokerAway(BrokerError):  # noqa: N818 - as above
    """Temporary: nothing was written for certain, the same again later is right."""


class OutcomeUnknown(BrokerError):  # noqa: N818 - as above
    """A write may or may not have happened, and its producer is of no more use: read what stands there before writing again."""


class Fenced(BrokerError):  # noqa: N818 - as above
    """Another producer took the transactional id over; this one can never write again.

    Not proof of a second owner: a transaction that outlasts `transaction.timeout.ms` fences its own producer.
    """


class BrokerRefused(BrokerError):  # noqa: N818 - as above
    """Permanent until somebody acts: missing rights, a message too large, a topic that does not exist."""


class ApiError(ProcessError):
    """The Kubernetes API refused something, or did not answer. `status` is the server's Status object, empty where it sent none."""

    def __init__(self, message: str, *, status: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status or {}


class ApiAway(ApiError):  # noqa: N818 - as above
    """Temporary. Nothing may be concluded: a write may have happened."""


class ApiTooMany(ApiAway):
    """The server, or a PodDisruptionBudget, asks to come back after `retry_after` seconds. Nothing was written."""

    def __init__(self, message: str, *, retry_after: float, status: dict[str, Any] | None = None) -> None:
        super().__init__(message, status=status)
        self.retry_after = retry_after


class ApiNotFound(ApiError):  # noqa: N818 - as above
    """No such object."""


class ApiConflict(ApiError):  # noqa: N818 - as above
    """The object is not as the caller thought (UID, resourceVersion), or exists already: read again."""


class ApiGone(ApiError):  # noqa: N818 - as above
    """The version to list or watch from is too old: list again."""


class ApiForbidden(ApiError):  # noqa: N818 - as above
    """Rights are missing, or the server does not know us: the operator must act."""


class ApiInvalid(ApiError):  # noqa: N818 - as above
    """The server does not take what was sent: a bug of ours, or an admission policy."""
