"""Writes what stands in Kafka into the store: at least once, each message one row.

Guarantees: an offset is committed only after its rows are in the store. A store that is away is waited for, with Kafka as the buffer, and caught
up; nothing is dropped and nothing is fed back. A batch that is written again (a timeout, a kill inside of it) is the same rows: its token is
known to the server, and where a restart cut it otherwise, its rows have the same identity and become one. A message that this release cannot
read becomes a row of the dead letters, with its bytes, and so does a row that no store would take. A store that refuses what is written, for
want of rights or a table, is waited for like one that is away, and it is said at every try: a gap in an audit trail is worse than an alarm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from audit.batches import Batch, Batcher
from audit.errors import RowsRefused, StoreAway, StoreRefused
from audit.refused_rows import Insert, insert_batch
from audit.rows import Record, moment, place, unreadable
from audit.settings import AuditSettings
from runtime import logs
from runtime.kafka import explain
from schemas.errors import DecodeError
from schemas.topics import STATE, TOPICS

READ: Final = tuple(topic for topic in TOPICS if topic is not STATE)
"""Topics that are kept: all but the state log, which holds nothing that was not decided."""
AT_ONCE: Final = 2000
POLL_SECONDS: Final = 0.2
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Batches of consecutive messages of one partition, on their way; the list empties as they arrive."""

    topic: str
    partition: int
    batches: list[Batch]
    last: int
    oldest: float


class Reader(Protocol):
    """What the writer needs of a Kafka consumer."""

    def subscribe(self, topics: list[str], on_revoke: Callable[..., None] = ...) -> None:
        """Join the group."""
        ...

    def consume(self, num_messages: int = ..., timeout: float = ...) -> list[Message]:
        """What came."""
        ...

    def assignment(self) -> list[TopicPartition]:
        """Partitions that are ours."""
        ...

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Stop reading."""
        ...

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Read on."""
        ...

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> object:
        """Note positions with the group."""
        ...


class Writer:
    """One member of the audit's group. Call `turn` again and again; not for several threads."""

    def __init__(
        self, settings: AuditSettings, reader: Reader, store: Insert, clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._reader = reader
        self._store = store
        self._clock = clock
        self._prefix = settings.topics.prefix
        self._batchers: dict[tuple[str, int], Batcher] = {}
        self._pending: list[_Cut] = []
        self._wait = settings.again_first.total_seconds()
        self._try_at = 0.0
        self.written: Counter[str] = Counter()
        """Rows by table."""
        self.unreadable = 0
        """Messages that this release could not read; they stand in the dead letters."""
        self.refused_rows = 0
        """Rows that the store does not take whoever acts; they stand in the dead letters."""
        self.away_since: float | None = None
        """When the store stopped answering or taking what is written, None while it does both."""
        self.refusal: str | None = None
        """What the store says for refusing what is written, None: it does not refuse. Somebody must act."""
        self.oldest: float | None = None
        """Append time of the oldest message that is read and not yet in the store, None: there is none."""
        reader.subscribe([self._prefix + topic.name for topic in READ], on_revoke=self._revoked)

    def turn(self) -> bool:
        """Read, cut, write. True if there was something to do. Raises BrokerError."""
        if self.away_since is not None:
            # Again each time: what the group gave us meanwhile is not paused yet, and Kafka shall be the buffer, not we.
            self._reader.pause(self._reader.assignment())
        messages = self._reader.consume(AT_ONCE, POLL_SECONDS)
        for message in messages:
            self._take(message)
        self.oldest = self._oldest()
        self._cut_ripe()
        self._write()
        self.oldest = self._oldest()
        return bool(messages or self._pending)

    def flush(self) -> None:
        """Write what was collected, now, once. Raises StoreAway."""
        for batcher in self._batchers.values():
            self._cut(batcher)
        self._try_at = 0.0
        self._write()
        if self._pending:
            raise StoreAway("what was collected last could not be written; it is read again")

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name
                return
            raise explain(error, "reading for the audit")
        record = self._record(message)
        key = (record.topic, record.partition)
        batcher = self._batchers.setdefault(key, Batcher(*key))
        size = len(record.value or b"")
        if batcher.must_cut_before(record.arrived, size):
            self._cut(batcher)
        try:
            placed = place(record)
        except DecodeError as error:
            placed = unreadable(record, str(error))
            self.unreadable += 1
        batcher.add(record.offset, record.arrived, placed, self._clock(), size)

    def _oldest(self) -> float | None:
        collected = (batcher.oldest for batcher in self._batchers.values() if batcher.oldest is not None)
        return min((*collected, *(cut.oldest for cut in self._pending)), default=None)

    def _record(self, message: Message) -> Record:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None:
            raise ValueError("a message without its place")
        headers = dict(message.headers() or [])
        return Record(
            topic.removeprefix(self._prefix),
            partition,
            offset,
            moment(message.timestamp()[1]),
            message.value(),
            {name: value for name, value in headers.items() if isinstance(value, bytes)},
        )

    def _cut_ripe(self) -> None:
        batch, now = self._settings.batch, self._clock()
        for batcher in self._batchers.values():
            waited = batcher.first is not None and now - batcher.since >= batch.wait.total_seconds()
            if waited or batcher.count >= batch.rows:
                self._cut(batcher)

    def _cut(self, batcher: Batcher) -> None:
        if batcher.oldest is not None and batcher.last is not None:
            last, oldest = batcher.last, batcher.oldest
            self._pending.append(_Cut(batcher.topic, batcher.partition, batcher.cut(), last, oldest))

    def _write(self) -> None:
        if not self._pending or self._clock() < self._try_at:
            return
        done: list[TopicPartition] = []
        try:
            while self._pending:
                cut = self._pending[0]
                while cut.batches:
                    batch = cut.batches[0]
                    refused = insert_batch(self._store, batch)
                    self.written[batch.table] += len(batch.rows) - refused
                    self._note_refused(batch, refused)
                    cut.batches.pop(0)
                self._pending.pop(0)
                done.append(TopicPartition(self._prefix + cut.topic, cut.partition, cut.last + 1))
        except StoreAway as error:
            self._store_is_away(error)
        except (StoreRefused, RowsRefused) as error:
            self._store_refuses(error)
        else:
            self._store_is_back()
        self._commit(done)

    def _note_refused(self, batch: Batch, count: int) -> None:
        if count:
            self.refused_rows += count
            _log.error(
                "the store does not take these rows; they are dead letters", table=batch.table, rows=count
            )

    def _store_is_away(self, error: StoreAway) -> None:
        self.refusal = None
        if self.away_since is None:
            _log.warning("the store does not answer; Kafka keeps what comes", error=str(error))
        self._try_later()

    def _store_refuses(self, error: StoreRefused | RowsRefused) -> None:
        """Said at every try: nothing is written until somebody acts."""
        self.refusal = str(error)
        _log.error(
            "the store refuses what is written; Kafka keeps what comes until somebody acts", error=str(error)
        )
        self._try_later()

    def _try_later(self) -> None:
        if self.away_since is None:
            self.away_since = self._clock()
        self._try_at = self._clock() + self._wait
        self._wait = min(2 * self._wait, self._settings.again_most.total_seconds())

    def _store_is_back(self) -> None:
        self._wait = self._settings.again_first.total_seconds()
        self.refusal = None
        if self.away_since is not None:
            self.away_since = None
            _log.info("the store takes what is written again, catching up")
            self._reader.resume(self._reader.assignment())

    def _commit(self, done: list[TopicPartition]) -> None:
        if not done:
            return
        last = {(place.topic, place.partition): place for place in done}
        try:
            self._reader.commit(offsets=list(last.values()), asynchronous=False)
        except KafkaException as error:
            # Rows are in the store; the next commit, or reading them again, is as good.
            _log.warning("positions were not noted", error=str(error))

    def _revoked(self, consumer: object, places: list[TopicPartition]) -> None:
        del consumer
        lost = {((place.topic or "").removeprefix(self._prefix), place.partition) for place in places}
        for key in lost:
            self._batchers.pop(key, None)
        self._pending = [cut for cut in self._pending if (cut.topic, cut.partition) not in lost]
