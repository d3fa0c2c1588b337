"""The one factory of Kafka clients outside Faust.

Guarantees: every producer is idempotent, waits for all in-sync replicas and partitions by murmur2, as Faust's own and Java's do
(librdkafka's default is CRC32: of 1,000 keys only 234 went to the same of four partitions, finding R2). No other module makes a client.

The shared producer never gives a message up: a gap in the middle of its queue would let a later emit overtake an earlier one, and the
mailbox that keeps the highest origin would drop the earlier as a duplicate. Whoever waits decides how long to wait.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from runtime.errors import BrokerAway, BrokerError, BrokerRefused, Fenced
from runtime.settings import ConsumerSettings, KafkaSettings

PARTITIONER: Final = "murmur2_random"
LARGEST_MESSAGE: Final = 8_000_000
"""Bytes: the dead-letter topic's limit, so that whatever came in can be put there whole."""

_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}  # noqa: SLF001 - librdkafka's names
)
_REFUSED: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - as above
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - as above
    }
)

Config = dict[str, str | int | float | bool | logging.Logger]

_LIBRARY_LOG: Final = logging.getLogger("librdkafka")


class KafkaClients:
    """Makes clients for one process; `name` is its client id."""

    def __init__(self, settings: KafkaSettings, name: str) -> None:
        self._common: Config = {
            "reconnect.backoff.ms": 250,
            "reconnect.backoff.max.ms": 2000,
            **settings.client,
            "bootstrap.servers": settings.bootstrap,
            "client.id": name,
            "logger": _LIBRARY_LOG,
        }

    def reach(self, patience: timedelta = timedelta(seconds=10)) -> frozenset[str]:
        """Names of the broker's topics, asked for to see that it is there.

        Raises BrokerAway with the address that was tried: the likeliest slip is a wrong one.
        """
        try:
            return frozenset(self.admin().list_topics(timeout=patience.total_seconds()).topics)
        except KafkaException as error:
            raise BrokerAway(
                f"no broker answers at {self._common['bootstrap.servers']} within {patience.total_seconds():g} s "
                f"({explain(error, 'asking').args[0]}); right would be RELIGHT_KAFKA__BOOTSTRAP=HOST:PORT of one that does"
            ) from error

    def producer(self) -> Producer:
        """Idempotent producer for anything but the state log; shared by a whole process."""
        return Producer({**self._producing(), "message.timeout.ms": 0, "linger.ms": 1})

    def transactional_producer(self, transactional_id: str, timeout: timedelta) -> Producer:
        """Producer of one partition's state; `init_transactions` fences whoever had this id before."""
        milliseconds = _milliseconds(timeout)
        return Producer(
            {
                **self._producing(),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": milliseconds,
                "message.timeout.ms": milliseconds,
                "linger.ms": 1,
            }
        )

    def bounded_producer(self, timeout: timedelta) -> Producer:
        """Idempotent producer that gives up: the unfenced state log of stand-ins, probes, command line."""
        return Producer({**self._producing(), "message.timeout.ms": _milliseconds(timeout), "linger.ms": 1})

    def reader(self, group: str | None = None) -> Consumer:
        """Consumer for assigned partitions, committed records only. Joins no group and commits nothing.

        With `group` it can be asked what that group has committed.
        """
        return Consumer(
            {
                **self._common,
                "group.id": group or f"{self._common['client.id']}-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )

    def member(self, group: str, settings: ConsumerSettings) -> Consumer:
        """Member of a consumer group; commits nothing by itself. A group that never committed begins at the start of the log."""
        return Consumer(
            {
                **self._common,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": _milliseconds(settings.session_timeout),
                "heartbeat.interval.ms": _milliseconds(settings.heartbeat),
                "fetch.wait.max.ms": 100,
            }
        )

    def admin(self) -> AdminClient:
        """For topics and groups."""
        return AdminClient({**self._common})  # type: ignore[dict-item]  # the stub forgets loggers

    def _producing(self) -> Config:
        return {
            **self._common,
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": PARTITIONER,
            "message.max.bytes": LARGEST_MESSAGE,
        }


def explain(error: KafkaError | KafkaException, doing: str) -> BrokerError:
    """Translate the client's error, once for the whole project: may the same be tried again, and by whom."""
    fault = error.args[0] if isinstance(error, KafkaException) else error
    if not isinstance(fault, KafkaError):
        return BrokerAway(f"{doing}: {fault}")
    message = f"{doing}: {fault.str()} ({fault.name()})"
    if fault.code() in _FENCED or fault.fatal():
        return Fenced(message)
    if fault.code() in _REFUSED:
        return BrokerRefused(message)
    return BrokerAway(message)


def _milliseconds(duration: timedelta) -> int:
    return max(1, round(duration.total_seconds() * 1000))
