"""Records of the state log: whose they are is in the key, a JSON list that begins with the kind.

`["cell", cluster, subject, name]` is the core's; `position`, `rulebook`, `halted`, `resumes` and `owner` are the stage's own. A list, so that
no text in a subject or a cell's name can be taken for a separator. Unknown kinds of a newer release are skipped, and kept by compaction.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic_core import from_json, to_json

from streams.errors import StateUnreadable

SubjectKey = tuple[str, str]
"""Cluster and subject."""
SeenOrder = tuple[str, str, str]
"""Cluster, subject and id of an order."""

CELL: Final = "cell"
HALTED: Final = "halted"

POSITION_KEY: Final = b'["position"]'
RULEBOOK_KEY: Final = b'["rulebook"]'
RESUMES_KEY: Final = b'["resumes"]'
OWNER_KEY: Final = b'["owner"]'


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    def encode(self) -> bytes:
        """JSON."""
        return self.model_dump_json(by_alias=True).encode()


class Position(_Value):
    """How far the inbox partition was applied. Each `from` equals the `to` written before it: a reader can prove that none is missing."""

    first: Annotated[int, Field(alias="from", ge=0)]
    next: Annotated[int, Field(alias="to", ge=0)]
    now: AwareDatetime
    """Highest append time seen: the partition's clock must not go back over a restart."""


class ActiveRulebook(_Value):
    """What the partition decides by."""

    rulebook: str


class Halt(_Value):
    """Why a subject is halted."""

    offset: int
    event: str
    error: str


class Resumes(_Value):
    """Orders to resume that came last, oldest first: one that comes again must not lift a halt that it was not given for."""

    seen: tuple[SeenOrder, ...] = ()


class Owner(_Value):
    """Who claimed the partition; the offset of this record is the end of what a claimant has to read."""

    worker: str
    claimed_at: datetime


def cell_key(subject: SubjectKey, name: str) -> bytes:
    """Key of a cell."""
    return to_json([CELL, *subject, name])


def halted_key(subject: SubjectKey) -> bytes:
    """Key of a halt."""
    return to_json([HALTED, *subject])


def read_key(raw: bytes) -> list[str]:
    """Parts of a key; StateUnreadable when it is none."""
    try:
        parts = from_json(raw)
    except ValueError as error:
        raise StateUnreadable(
            f"state log key {raw[:80]!r} is no JSON list: this topic holds something else"
        ) from error
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise StateUnreadable(
            f"state log key {raw[:80]!r} is no list of texts: this topic holds something else"
        )
    return parts
