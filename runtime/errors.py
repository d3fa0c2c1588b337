"""Errors of this room.

    ProcessError                root
    ├── PinError                a library is not at the version this release was proven with: whoever deploys must act
    ├── SettingsConflict        a setting is no such value, or two contradict each other: the operator must act
    └── BrokerError             the broker refused something
        ├── BrokerAway          temporary: the broker or its answer is missing; the same again later is right
        ├── OutcomeUnknown      a write may or may not have happened: read before writing again
        ├── Fenced              another owner took over the transactional id: what is remembered of the partition is worthless
        └── BrokerRefused       permanent until an operator acts: rights, sizes, unknown topics

A topic that is not as the catalogue wants it is `schemas.errors.CatalogueError`.
"""

from __future__ import annotations


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
