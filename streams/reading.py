"""Bytes to an event, or to the reason why not: whatever arrives, nothing raises (design 5, "agents never raise")."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.envelope import Event, decode
from schemas.errors import DecodeError, OversizedError, UnknownTypeError
from streams.dead_letters import Reason


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why these bytes are no event."""

    reason: Reason
    detail: str


def read(raw: bytes | None) -> Event | Unreadable:
    """The event, or why there is none."""
    if raw is None:
        return Unreadable(Reason.EMPTY, "no value")
    try:
        return decode(raw)
    except OversizedError as error:
        return Unreadable(Reason.OVERSIZED, str(error))
    except UnknownTypeError as error:
        return Unreadable(Reason.UNKNOWN_TYPE, str(error))
    except DecodeError as error:
        return Unreadable(Reason.UNREADABLE, str(error))
    except Exception as error:  # noqa: BLE001 - bytes from anywhere: no fault of a decoder may stop a partition
        return Unreadable(Reason.UNREADABLE, repr(error))
