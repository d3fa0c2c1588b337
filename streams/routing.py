"""What the router does with one message: read, check, stamp, re-key. Pure but for the rate cap's buckets.

Trust is stamped by the topic a message came in by, whatever it says of itself (finding R47). An internal producer's origin is passed through,
since its spool is what makes its repeats harmless; everything else gets the router's own. Event times that cannot be are replaced by the
arrival and flagged, so that nobody counts them; those from another century are no events at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from runtime.settings import Clock
from schemas import topics
from schemas.envelope import Event, Origin, TimeQuality, Trust, encode
from schemas.facts import FACTS
from schemas.ids import mailbox_key
from schemas.signals import SIGNALS
from streams.dead_letters import DeadLetters, Reason
from streams.ports import Message, Send
from streams.rate_cap import RateCap
from streams.reading import Unreadable, read
from streams.route import mailboxes
from streams.settings import StreamSettings

STAGE: Final = "router"
INTERNAL_TYPES: Final = frozenset(payload.TYPE for payload in (*SIGNALS, *FACTS))
"""What node agents and the watcher may say: what they saw. Never orders, outcomes or messages between mailboxes."""

EXTERNAL_STAGE: Final = "router-external"
"""The external topic counts its own offsets: apart, so that neither topic's messages seem older than the other's."""

RESERVED_STAGES: Final = frozenset({STAGE, EXTERNAL_STAGE, "recovery", "actuators"})
"""Origins that only these stages may carry: a forged one would make a mailbox drop the real ones."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a message is not sent on."""

    reason: Reason
    detail: str


class Routing:
    """Routes the messages of one worker."""

    def __init__(self, settings: StreamSettings, dead_letters: DeadLetters) -> None:
        router = settings.router
        self._cluster = settings.cluster
        self._judge_time = settings.clock is Clock.BROKER
        self._time = router.time
        self._external_topic = settings.topic(topics.EXTERNAL_SIGNALS.name)
        self._inbox = settings.topic(topics.INBOX.name)
        self._external_types = router.external_types
        self._dead_letters = dead_letters
        self._new_cap: Callable[[], RateCap] = lambda: RateCap(
            per_source=router.external_per_source, burst=router.external_burst, total=router.external_total
        )
        self._caps: dict[int, RateCap] = {}

    def route(self, message: Message) -> tuple[list[Send], Reason | None]:
        """What to send for one message, in order; with a reason when it is its dead letter."""
        event = read(message.value)
        if isinstance(event, Unreadable):
            return [self._dead_letters.make(message, event.reason, event.detail)], event.reason
        trust = Trust.EXTERNAL if message.topic == self._external_topic else Trust.INTERNAL
        subjects = mailboxes(event.data)
        refusal = self._refusal(message, event, trust)
        if refusal is None and not subjects:
            refusal = Refusal(Reason.NO_SUBJECT, f"{event.type} names neither a run nor a node")
        if refusal is not None:
            return [self._dead_letters.make(message, refusal.reason, refusal.detail)], refusal.reason
        stamps = {
            "trust": trust,
            "origin": self._origin(message, event, trust),
            **self._time_stamps(message, event),
        }
        return [
            Send(
                topic=self._inbox,
                key=mailbox_key(event.cluster, subject),
                value=encode(event.model_copy(update={**stamps, "subject": subject})),
            )
            for subject in subjects
        ], None

    def _refusal(self, message: Message, event: Event, trust: Trust) -> Refusal | None:
        if self._cluster is not None and event.cluster != self._cluster:
            return Refusal(
                Reason.FOREIGN_CLUSTER,
                f"cluster is {event.cluster!r}; this pipeline serves {self._cluster!r}",
            )
        allowed = self._external_types if trust is Trust.EXTERNAL else INTERNAL_TYPES
        if event.type not in allowed or event.type not in INTERNAL_TYPES:
            return Refusal(Reason.NOT_ACCEPTED, f"{event.type} is not accepted on {message.topic}")
        if self._is_nonsense(message, event):
            return Refusal(
                Reason.NONSENSE_TIME,
                f"time {event.time.isoformat()} is more than {self._time.nonsense} ahead",
            )
        if trust is Trust.EXTERNAL and not self._cap_of(message.partition).admits(
            event.source, message.timestamp
        ):
            return Refusal(
                Reason.RATE_CAPPED, f"{event.source} or all external sources together speak too fast"
            )
        return None

    def _cap_of(self, partition: int) -> RateCap:
        if partition not in self._caps:
            self._caps[partition] = self._new_cap()
        return self._caps[partition]

    def _is_nonsense(self, message: Message, event: Event) -> bool:
        return self._judge_time and event.time - _arrival(message) > self._time.nonsense

    def _time_stamps(self, message: Message, event: Event) -> dict[str, object]:
        if not self._judge_time:
            return {}
        ahead = event.time - _arrival(message)
        if -self._time.oldest <= ahead <= self._time.ahead:
            return {}
        return {"time": _arrival(message), "timequality": TimeQuality.CLAMPED}

    def _origin(self, message: Message, event: Event, trust: Trust) -> str:
        own = event.origin_parts
        if trust is Trust.INTERNAL and own is not None and own.stage not in RESERVED_STAGES:
            return str(own)
        stage = STAGE if trust is Trust.INTERNAL else EXTERNAL_STAGE
        return str(Origin(stage, message.partition, message.offset, 0))


def _arrival(message: Message) -> datetime:
    return datetime.fromtimestamp(message.timestamp, UTC)
