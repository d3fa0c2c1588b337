"""Composition: from settings to a running router or recovery stage. Does not return until the process is told to stop."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self

from runtime import logs
from runtime.health import Health
from runtime.kafka import KafkaClients
from runtime.metrics import MetricsServer, StreamMetrics
from runtime.topics import TopicAdministration
from schemas import topics
from streams import handler, routing
from streams.core import Core
from streams.dead_letters import DeadLetters
from streams.faust_shell import FaustShell
from streams.faust_worker import StageWorker
from streams.kafka_log import KafkaStateLog
from streams.log_bounds import KafkaLogBounds
from streams.pins import check_pins
from streams.ports import Place, Stage, StateLog
from streams.recovery_stage import RecoveryStage
from streams.recovery_worker import Surroundings
from streams.router_stage import RouterStage
from streams.routing import Routing
from streams.rulebook_cache import RulebookCache
from streams.sender import KafkaSender
from streams.settings import Fence, GroupingSettings, StreamSettings

_POOL: Final = 16

_log = logs.get(__name__)


def run_router(settings: StreamSettings) -> None:
    """Run the router until SIGTERM."""
    with _Parts(settings, routing.STAGE) as parts:
        stage = RouterStage(
            Routing(settings, DeadLetters(routing.STAGE, settings.deadletters, settings.topic)),
            parts.sender,
            parts.bounds,
            parts.metrics,
        )
        parts.serve(stage, [topics.SIGNALS.name, topics.EXTERNAL_SIGNALS.name], settings.router.grouping)


def run_recovery(
    settings: StreamSettings, core: Core, *, wrap_log: Callable[[StateLog], StateLog] = lambda log: log
) -> None:
    """Run the recovery stage until SIGTERM; `wrap_log` lets a test stand between the stage and its state log."""
    if settings.recovery.fence is Fence.OFF:
        _log.warning(
            "no fence: a worker that was stopped and wakes up overwrites state for good; for stand-ins only"
        )
    with _Parts(settings, handler.STAGE) as parts:
        stage = RecoveryStage(
            settings,
            Surroundings(core, parts.sender, parts.rulebooks(), settings.recovery, parts.metrics),
            new_state_log=lambda place: wrap_log(parts.state_log(place)),
            bounds=parts.bounds,
            pool=parts.pool,
        )
        parts.health.add("blocked", stage.blocked)
        parts.health.add("gaps", stage.gaps)
        parts.serve(stage, [topics.INBOX.name], settings.recovery.grouping, beside=[stage.send_ticks])


class _Parts:
    """What both processes are made of."""

    def __init__(self, settings: StreamSettings, name: str) -> None:
        self.settings = settings
        self.name = name
        self.worker = f"{name}-{socket.gethostname()}-{os.getpid()}"
        self.clients = KafkaClients(settings.kafka, f"relight-{name}")
        self.metrics = StreamMetrics(name)
        self.health = Health()
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        settings = self.settings
        if settings.check_pins:
            check_pins()
        if settings.topics.check_at_start:
            TopicAdministration(settings, self.clients).require()
        self.pool = self._open.enter_context(_pool())
        self.sender = KafkaSender(self.clients.producer)
        self._open.callback(self.sender.close)
        self.bounds = KafkaLogBounds(self.clients, settings.identity(self.name), self.pool)
        if settings.observe.port is not None:
            server = MetricsServer(
                self.metrics.registry, self.health, host=settings.observe.host, port=settings.observe.port
            )
            self._open.enter_context(server)
            _log.info("serving metrics and health", host=settings.observe.host, port=server.port)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def rulebooks(self) -> RulebookCache:
        """Released rulebooks."""
        topic = self.settings.topic(topics.RULEBOOKS.name)
        return RulebookCache(self.clients, topic, self.settings.topics.partitions, self.pool)

    def state_log(self, place: Place) -> StateLog:
        """State log of the inbox partition `place`."""
        return KafkaStateLog(
            self.clients,
            Place(self.settings.topic(topics.STATE.name), place.partition),
            transactional_id=self.settings.identity(f"{self.name}-{place.partition}"),
            worker=self.worker,
            settings=self.settings.recovery,
            pool=self.pool,
        )

    def serve(
        self,
        stage: Stage,
        names: Iterable[str],
        grouping: GroupingSettings,
        beside: Iterable[Callable[[], object]] = (),
    ) -> None:
        """Read these topics until told to stop."""
        read = [self.settings.topic(name) for name in names]
        shell = FaustShell(self.name, read, stage, grouping, self.settings, self.metrics, self.health)
        for task in beside:
            shell.app.task(task)
        worker = StageWorker(shell, stop_grace=self.settings.consumer.stop_grace)
        gc.freeze()  # as in the actuators: nothing of what stands now is ever garbage
        _log.info("started", stage=self.name, worker=self.worker, topics=read)
        worker.execute_from_commandline()


@contextlib.contextmanager
def _pool() -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(max_workers=_POOL, thread_name_prefix="kafka")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
