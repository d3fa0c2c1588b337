"""Errors of this room.

    StreamError                 root
    ├── PositionAhead           a position lies beyond the end of its log: the operator must act, the log is not the one it belongs to
    ├── StateUnreadable         the state log holds a record that is none of ours: the operator must act
    ├── RulebookMissing         the content of a partition's rulebook is not there or not usable: the operator must act
    ├── EmitTooLarge            the core made a message above the limit: its subject is halted
    └── CellTooLarge            the core made a cell above the cap: its subject is halted

What the broker refuses is `runtime.errors.BrokerError`.
"""

from __future__ import annotations


class StreamError(Exception):
    """Root of everything this room raises."""


class PositionAhead(StreamError):  # noqa: N818 - says what happened; the root says that it is an error
    """The topic was made anew, or truncated: every new message would count as a replay."""


class StateUnreadable(StreamError):  # noqa: N818 - as above
    """The state log holds a record under a key that no release of ours writes."""


class RulebookMissing(StreamError):  # noqa: N818 - as above
    """A partition lacks the content of the rulebook it was told to decide by."""


class EmitTooLarge(StreamError):  # noqa: N818 - as above
    """A message above `schemas.envelope.MAX_EVENT_BYTES`."""


class CellTooLarge(StreamError):  # noqa: N818 - as above
    """A cell above `recovery.cell_bytes`."""
