"""Faust's side of a stage: one app, one agent, two signals. Everything that is promised is kept elsewhere.

Order of hooks in a rebalance (measured at the pinned versions): partitions revoked, partitions assigned, rebalance complete, partitions resumed,
seek to what the group committed, flow resumed. Faust awaits `on_rebalance_complete` outside the join, with heartbeats going on: that is where
partitions are taken up, and it is the gate, since nothing is read before it returns. Just before it returns the group is told our positions, so
that the seek which follows goes there: the position lives with the state, whatever the group had committed.

Faust's own acknowledging is off for these topics: it books gaps as done and acknowledges what a cancelled agent was handed. We commit what is
confirmed, through the same call that Faust uses.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, cast

import faust
from aiokafka.errors import IllegalStateError
from faust import Stream
from faust.types import TP, StreamT

from runtime import logs
from runtime.health import Health
from runtime.metrics import StreamMetrics
from runtime.settings import KafkaSettings
from streams.holdings import Holding, Holdings
from streams.overseer import Overseer
from streams.ports import Place, Stage
from streams.settings import GroupingSettings, StreamSettings

_NEVER: Final = 10**9
_ROOM_PATIENCE: Final = timedelta(seconds=1)

_log = logs.get(__name__)


class FaustShell:
    """One stage in one Faust app."""

    def __init__(
        self,
        name: str,
        topics: Iterable[str],
        stage: Stage,
        grouping: GroupingSettings,
        settings: StreamSettings,
        metrics: StreamMetrics,
        health: Health,
    ) -> None:
        """`name` becomes the group; `topics` are names in the broker."""
        self._topics = frozenset(topics)
        self._fenced_wait = settings.consumer.fenced_wait
        self._metrics = metrics
        self._winning: set[asyncio.Task[None]] = set()
        self.app = _new_app(settings.identity(name), settings)
        self.holdings = Holdings(stage, grouping, settings.consumer, metrics, on_lost=self._lost)
        self.overseer = Overseer(
            self.holdings, _FaustReader(self.app), settings.consumer, settings.observe, metrics, health
        )
        channel = self.app.topic(
            *sorted(self._topics),
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",  # the types alone do not keep Faust from decoding JSON, and dying of what is none
            value_serializer="raw",
            allow_empty=True,
            acks=False,
        )
        self.app.agent(channel, name=f"relight.{name}")(self._read)
        self.app.on_partitions_revoked.connect(self._revoked)
        self.app.on_rebalance_complete.connect(self._rebalanced)
        for task in self.overseer.tasks():
            self.app.task(task)

    async def stop(self) -> None:
        """Let groups in flight end, tell the group, give everything up. Faust is stopped afterwards."""
        await self.holdings.give_way()
        await self.overseer.commit_now()
        await self.holdings.give_up()

    # ------------------------------------------------------------------ reading

    async def _read(self, stream: StreamT[Any]) -> None:
        offer = self.holdings.offer
        async for event in cast(Stream[Any], stream).noack().events():
            holding = offer(event.message)
            if holding is not None:
                await self._look_at(holding)

    async def _look_at(self, holding: Holding) -> None:
        if holding.lane.jumping:
            await self.overseer.mend_jump(holding)
        if not await holding.lane.wait_for_room(_ROOM_PATIENCE):
            self.overseer.set_aside(holding)

    # ------------------------------------------------------------------ rebalances

    async def _revoked(self, *_: object, **__: object) -> None:
        await self.holdings.give_way()

    async def _rebalanced(self, *_: object, **__: object) -> None:
        """Must be fit to run twice in one generation, and must not raise: Faust's recovery ends with what it awaits."""
        try:
            await self._take_up()
        except Exception:  # noqa: BLE001 - see above; the continuity check and the watchdog mend what is left
            _log.exception("taking partitions up failed")

    async def _take_up(self) -> None:
        generation = self._generation
        positions = await self.holdings.take_up(
            [place for place in self._assigned() if place.topic in self._topics],
            generation,
            lambda place: self._is_ours(place, generation),
        )
        self.overseer.took_up(positions)
        if positions and generation == self._generation:
            await _FaustReader(self.app).commit(positions)

    def _lost(self, place: Place) -> None:
        task = asyncio.create_task(self._win_back(place), name=f"win back {place}")
        self._winning.add(task)
        task.add_done_callback(self._winning.discard)

    async def _win_back(self, place: Place) -> None:
        """Fenced or failed. If another worker took over, a rebalance says so soon; if none comes, the partition is still ours."""
        generation = self._generation
        await asyncio.sleep(self._fenced_wait.total_seconds())
        if not self._is_ours(place, generation):
            return
        holding = await self.holdings.take_up_again(
            place, generation, lambda at: self._is_ours(at, generation)
        )
        if holding is not None:
            self._metrics.seeks.labels("won_back").inc()
            await self.overseer.read_on(holding)

    @property
    def _generation(self) -> int:
        return int(self.app.consumer_generation_id)

    def _assigned(self) -> set[Place]:
        return {Place(tp.topic, tp.partition) for tp in self.app.consumer.assignment()}

    def _is_ours(self, place: Place, generation: int) -> bool:
        return generation == self._generation and not self.app.should_stop and place in self._assigned()


class _FaustReader:
    """Faust's consumer as the overseer knows it."""

    def __init__(self, app: faust.App) -> None:
        self._app = app

    def end_of(self, place: Place) -> int | None:
        """See `streams.overseer.Reader`."""
        topic_partition = TP(*place)
        if self._app.rebalancing or topic_partition not in self._app.consumer.assignment():
            return None
        end: int | None = self._app.consumer.highwater(topic_partition)
        return end

    async def seek(self, place: Place, offset: int) -> None:
        """See `streams.overseer.Reader`."""
        if TP(*place) not in self._app.consumer.assignment():
            return
        try:
            # Faust's plain `seek` takes the fetched records away under the thread that is handing them out, which then ends the worker
            await self._app.consumer.seek_wait({TP(*place): offset})
        except IllegalStateError:
            _log.info("partition moved on before it was sought", place=str(place), to=offset)

    def pause(self, place: Place) -> None:
        """See `streams.overseer.Reader`."""
        self._app.consumer.pause_partitions({TP(*place)})

    def resume(self, place: Place) -> None:
        """See `streams.overseer.Reader`."""
        self._app.consumer.resume_partitions({TP(*place)})

    async def commit(self, positions: Mapping[Place, int]) -> None:
        """See `streams.overseer.Reader`; partitions that are no longer ours are left out by Faust itself."""
        await self._app.consumer._commit(  # type: ignore[attr-defined]  # noqa: SLF001 - the one private name, pinned
            {TP(*place): position for place, position in positions.items()}
        )


def _new_app(group: str, settings: StreamSettings) -> faust.App:
    consumer = settings.consumer
    return faust.App(
        group,
        broker=[f"kafka://{address}" for address in settings.kafka.bootstrap.split(",")],
        broker_credentials=_credentials(settings.kafka),
        broker_session_timeout=consumer.session_timeout.total_seconds(),
        broker_heartbeat_interval=consumer.heartbeat.total_seconds(),
        broker_request_timeout=consumer.request_timeout.total_seconds(),
        broker_rebalance_timeout=consumer.rebalance_timeout.total_seconds(),
        broker_commit_interval=consumer.commit_interval.total_seconds(),
        broker_commit_every=_NEVER,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,  # with it a fenced event is waited for inside the revocation, for ever
        table_standby_replicas=0,
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
        store="memory://",
        datadir="/nonexistent",
        worker_redirect_stdouts=False,
        stream_buffer_maxsize=4096,
    )


def _credentials(kafka: KafkaSettings) -> faust.SASLCredentials | faust.SSLCredentials | None:
    """Librdkafka's own names for security, as Faust wants them: one setting serves both clients."""
    client = kafka.client
    protocol = str(client.get("security.protocol", "plaintext")).upper()
    context: ssl.SSLContext | None = None
    if protocol.endswith("SSL"):
        authority = client.get("ssl.ca.location")
        context = ssl.create_default_context(cafile=None if authority is None else str(authority))
        certificate = client.get("ssl.certificate.location")
        if certificate is not None:
            key = client.get("ssl.key.location")
            context.load_cert_chain(str(certificate), None if key is None else str(key))
    if protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=str(client.get("sasl.username", "")),
            password=str(client.get("sasl.password", "")),
            mechanism=str(client.get("sasl.mechanism", client.get("sasl.mechanisms", "PLAIN"))),
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context)
