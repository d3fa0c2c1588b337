"""How long Kafka keeps what the audit has not read: asked of the broker, since an operator may have set it otherwise than the catalogue.

The shortest retention of the topics that are read is what the alarm counts from (design 6: red at half of it). While the broker does not say,
the last known answer holds, and before the first one the catalogue's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # its documented place

from runtime import logs
from runtime.errors import BrokerAway, BrokerError
from runtime.kafka import explain
from schemas.topics import Cleanup, Topic

LOOK_EVERY: Final = timedelta(minutes=10)
_PATIENCE: Final = 5.0
_log = logs.get(__name__)

Ask = Callable[[], list[timedelta]]


def ask_broker(admin: AdminClient, topics: Sequence[Topic], name_of: Callable[[str], str]) -> list[timedelta]:
    """Retention of each topic that is deleted by age. Raises BrokerAway, BrokerRefused."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name_of(topic.name)) for topic in topics]
    found: list[timedelta] = []
    try:
        for future in admin.describe_configs(resources, request_timeout=_PATIENCE).values():
            config = {key: str(entry.value) for key, entry in future.result(_PATIENCE).items()}
            kept = int(config["retention.ms"])
            if Cleanup.DELETE.value in config["cleanup.policy"].split(",") and kept >= 0:
                found.append(timedelta(milliseconds=kept))
    except TimeoutError as error:  # also a stand-in's answer, which can describe nothing
        raise BrokerAway(f"asking for the retention of topics: no answer within {_PATIENCE:g} s") from error
    except KafkaException as error:
        raise explain(error, "asking for the retention of topics") from error
    return found


class Retention:
    """The shortest retention, as last heard. `look` from the writer's loop, `shortest` from anywhere."""

    def __init__(self, ask: Ask, topics: Sequence[Topic], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._look_at = clock()
        self.shortest: timedelta | None = min(
            topic.retention for topic in topics if topic.retention is not None
        )
        """None: nothing is ever deleted by age."""

    def look(self) -> None:
        """Ask the broker if it is time to."""
        if self._clock() < self._look_at:
            return
        self._look_at = self._clock() + LOOK_EVERY.total_seconds()
        try:
            self.shortest = min(self._ask(), default=None)
        except (BrokerError, KeyError, ValueError) as error:
            # The yardstick of an alarm must not stop the record.
            _log.warning("the retention of topics is not known anew", error=str(error))
