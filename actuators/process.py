"""The actuators as a process: settings in, API, loop, Events, metrics and health put together, SIGTERM out."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from actuators.announcing import Announcer
from actuators.loop import STAGE, CarryOut, CommandLoop
from actuators.lots import Lots
from actuators.metrics import ActuatorMetrics
from actuators.perform import perform
from actuators.settings import ActuatorSettings
from actuators.world import Api, Budget, TimedApi, Voice, World
from runtime import logs
from runtime.health import Health, Movement, Pulse
from runtime.kafka import KafkaClients
from runtime.kubernetes import Cluster
from runtime.metrics import MetricsServer
from runtime.topics import TopicAdministration
from schemas.commands import Command, Outcome, OutcomeResult

EVENTS_GRACE: Final = 2.0
OVERDUE_AFTER: Final = timedelta(seconds=5)
"""Past the grace: a library that waits for a broker or a server must not hold the end up."""
EXIT_OVERDUE: Final = 1
_log = logs.get(__name__)


class Reach:
    """Since when the API does not answer; for health."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._silent_since: float | None = None

    def note(self, outcome: Outcome) -> None:
        """One command was answered."""
        if outcome.result is not OutcomeResult.UNREACHABLE:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = self._clock()

    def check(self) -> str | None:
        """What is wrong, or None."""
        since = self._silent_since
        silent = 0.0 if since is None else self._clock() - since
        return f"the API does not answer for {silent:.0f} s" if silent > self._limit else None


class Hands:
    """Makes the world of each command, and carries it out."""

    def __init__(self, settings: ActuatorSettings, api: Api, fan_out: Executor, voice: Voice) -> None:
        self._settings = settings.acting
        self._api = api
        self._fan_out = fan_out
        self._voice = voice
        self._lots: Lots[Any] = Lots()

    def __call__(self, command: Command) -> Outcome:
        """Never raises."""
        budget = Budget(self._settings.time_limit.total_seconds(), time.monotonic)
        world = World(
            api=TimedApi(self._api, budget),
            budget=budget,
            now=now,
            executor=self._fan_out,
            voice=self._voice,
            settings=self._settings,
            lots=self._lots,
            looks=command.look,
        )
        return perform(command, world)


def run_actuators(
    settings: ActuatorSettings, *, wrap: Callable[[CarryOut], CarryOut] = lambda carry_out: carry_out
) -> None:
    """Run until SIGTERM or SIGINT; `wrap` lets a test stand between a command and its effect. Raises ProcessError, SchemaError."""
    clients = KafkaClients(settings.kafka, f"relight-{STAGE}")
    if settings.topics.check_at_start:
        TopicAdministration(settings, clients).require()
    api = Cluster(settings.kubernetes, STAGE)
    metrics, health = ActuatorMetrics(), Health()
    reach = Reach(settings.observe.stand_still.total_seconds())
    pulse = Pulse("the loop", settings.observe.loop_stuck, time.monotonic)
    with ExitStack() as stack:
        announcer = Announcer(api, now)
        announcer.start()
        stack.callback(announcer.stop, EVENTS_GRACE)
        hands = wrap(Hands(settings, api, _threads(stack, "fan-out", settings.acting.fan_out), announcer))

        def carry_out(command: Command) -> Outcome:
            outcome = hands(command)
            reach.note(outcome)
            return outcome

        loop = CommandLoop(
            settings,
            clients.member(settings.identity(STAGE), settings.consumer),
            clients.producer(),
            carry_out,
            _threads(stack, "subjects", settings.subjects_at_once),
            metrics,
            pulse,
            instance=f"{socket.gethostname()}-{os.getpid()}",
        )
        metrics.watch(lambda: loop.in_flight, lambda: announcer.lost)
        _add_checks(health, settings, loop, pulse, reach)
        if settings.observe.port is not None:
            server = stack.enter_context(
                MetricsServer(
                    metrics.registry, health, host=settings.observe.host, port=settings.observe.port
                )
            )
            _log.info("metrics and health are served", port=server.port)
        _stop_on_signals(loop, settings.consumer.stop_grace)
        gc.freeze()  # modules and models live as long as we do: looking through them stopped all commands for 0.1 s (measured)
        _log.info("actuators run", dry_run=settings.acting.dry_run, paused=settings.acting.paused)
        loop.run()
    _log.info("actuators ended")


def now() -> datetime:
    """The time, aware."""
    return datetime.now(UTC)


def _threads(stack: ExitStack, name: str, count: int) -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)
    # Not waited for: a call that hangs must not hold the end up. Its write is conditional.
    stack.callback(pool.shutdown, wait=False, cancel_futures=True)
    return pool


def _add_checks(
    health: Health, settings: ActuatorSettings, loop: CommandLoop, pulse: Pulse, reach: Reach
) -> None:
    movement = Movement(settings.observe.stand_still, time.monotonic)

    def moves() -> str | None:
        positions = loop.positions()
        for partition, (position, waiting) in positions.items():
            movement.saw(str(partition), position, waiting)
        movement.keep_only(str(partition) for partition in positions)
        return movement.check()

    health.add("loop", pulse.check)
    health.add("commands", moves)
    health.add("api", reach.check)


def _stop_on_signals(loop: CommandLoop, grace: timedelta) -> None:
    if threading.current_thread() is not threading.main_thread():
        return

    def stop(number: int, frame: object) -> None:
        del number, frame
        loop.stop()
        overdue = threading.Timer((grace + OVERDUE_AFTER).total_seconds(), _end)
        overdue.daemon = True
        overdue.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _end() -> None:
    _log.error("did not end in time, ending at once")
    os._exit(EXIT_OVERDUE)
