"""Registry of all payloads: importing it makes every type known to `schemas.envelope.decode`."""

from __future__ import annotations

from typing import Final

from schemas.commands import Command, Outcome
from schemas.envelope import Payload, register
from schemas.facts import FACTS
from schemas.mailbox import MAILBOX
from schemas.records import RECORDS
from schemas.signals import SIGNALS

PAYLOADS: Final[tuple[type[Payload], ...]] = (*SIGNALS, *FACTS, Command, Outcome, *MAILBOX, *RECORDS)

register(*PAYLOADS)
