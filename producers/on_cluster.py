"""The agent's part that needs the Kubernetes API: this node's pods and object, the supervisors' socket, and whoever acts beside it.

Without the API the rest of the agent goes on: sources see, the spool keeps, supervisors report; only what comes from the API stands still, and
health says so. Informers run in threads of their own; an error of ours in one is the process's end, since half an edge told is worse than a
restart.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from producers.device_grants import KubeletCheckpoint, nobody_knows
from producers.identity import Identity
from producers.observation import Observation, Source
from producers.own_node import OwnNode
from producers.own_pods import OwnPod, OwnPods
from producers.placement import Placements
from producers.pod_placement import PodPlacements
from producers.presence import Presence
from producers.settings import AgentSettings, SupervisorSettings
from producers.supervisors.first_start import FirstStart
from producers.supervisors.hangs import Hangs
from producers.supervisors.peers import CgroupPods, NamespacePods, PodResolver
from producers.supervisors.reports import Translation
from producers.supervisors.server import SupervisorServer
from producers.supervisors.source import SupervisorReports
from producers.supervisors.standstills import Standstills
from producers.told import Told
from runtime import logs
from runtime.health import Health
from runtime.informer import Informer
from runtime.kubernetes import Cluster
from schemas.signals import Signal

PREFIX: Final = "relight_agent_"
API_SILENT: Final = 120.0
"""Seconds the API may be away before health says so: two watches."""
_log = logs.get(__name__)


class Hands(Protocol):
    """Who acts on this node beside the eyes."""

    async def run(self) -> None:
        """Until cancelled."""
        ...

    def trouble(self) -> str | None:
        """What is wrong, for health."""
        ...

    def counted(self) -> Mapping[str, int]:
        """Totals by name, for metrics."""
        ...


@dataclass(frozen=True, slots=True)
class Reach:
    """What hands may use."""

    cluster: Cluster
    node: OwnNode
    pods: OwnPods
    resolver: PodResolver
    identity: Identity
    chips_of: Callable[[OwnPod], frozenset[str]]
    """Chips a pod was given, see `producers.pod_placement`."""
    folder: Path
    """Where they keep what must outlive a restart."""
    now: Callable[[], datetime]
    tell: Callable[[Signal, str], Awaitable[None]]
    """A signal and its id's own part; returns once it is on disk."""


MakeHands = Callable[[Reach], Hands]


class OnCluster:
    """Everything of the agent that needs the API, put together."""

    def __init__(
        self,
        settings: AgentSettings,
        identity: Identity,
        now: Callable[[], datetime],
        before: Placements | None,
        make_hands: MakeHands | None,
    ) -> None:
        """Raises SettingsConflict when there is no way to the cluster."""
        self._settings = settings
        self._identity = identity
        self._now = now
        cluster = Cluster(settings.kubernetes, "node-agent")
        self._told = Told()
        self.node = OwnNode(cluster, settings.node.name, settings.node.uid)
        self.pods = OwnPods(cluster, settings.node.name, now)
        checkpoint = settings.devices.checkpoint
        grants = nobody_knows if checkpoint is None else KubeletCheckpoint(checkpoint)
        self.placements = PodPlacements(now, grants, before, self.node.resources)
        self._may_promise: Callable[[], bool] = lambda: False
        self._has_room: Callable[[], bool] = lambda: True
        self._reports = SupervisorReports(
            Translation(identity),
            now,
            progress_every=settings.supervisors.progress_every,
            has_room=self._room,
        )
        self._standstills = Standstills(settings.hangs, self.pods.get, time.monotonic, now)
        self._hangs = Hangs(self._standstills, identity, now, may_tell=self._tells_at_once)
        resolver = _resolver(settings.supervisors)
        self._first_start = FirstStart(cluster, settings.supervisors.replacement_known_within)
        self._server = SupervisorServer(
            settings.supervisors,
            resolver,
            self.pods.get,
            self._reports,
            self._standstills,
            may_promise=self._can_promise,
            must_wait=self._first_start.must_wait,
        )
        self._presence = Presence(cluster, settings.presence, settings.node, now)
        self._hands = None
        if make_hands is not None:
            reach = Reach(
                cluster=cluster,
                node=self.node,
                pods=self.pods,
                resolver=resolver,
                chips_of=self.placements.chips_of,
                identity=identity,
                folder=settings.spool.folder,
                now=now,
                tell=self._tell,
            )
            self._hands = make_hands(reach)
        self._no_socket = ""

    @property
    def sources(self) -> list[Source]:
        """What it adds to the agent's sources."""
        return [self._reports, self._hangs, self._told]

    def lean_on(self, *, has_room: Callable[[], bool], reaches_broker: Callable[[], bool]) -> None:
        """What the spool and the publisher know; before `run`."""
        self._has_room, self._may_promise = has_room, reaches_broker

    async def run(self) -> None:
        """Until cancelled. Raises what an informer's thread raised: an error of ours."""
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[None] = loop.create_future()
        informers = [self.pods.informer, self.node.informer]
        self.pods.hear(lambda pod: self._pod_heard(loop, pod))
        threads = [_follow(informer, loop, failed) for informer in informers]
        doing: list[asyncio.Future[None]] = [failed, loop.create_task(self._listen())]
        if self._settings.presence.enabled:
            doing.append(loop.create_task(self._presence.run()))
        if self._hands is not None:
            doing.append(loop.create_task(self._hands.run()))
        try:
            done, _ = await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for informer in informers:
                informer.stop()
            self._first_start.close()
            for task in doing:
                task.cancel()
            await asyncio.gather(*doing, return_exceptions=True)
            for thread in threads:
                await asyncio.to_thread(thread.join, 2.0)

    def _pod_heard(self, loop: asyncio.AbstractEventLoop, pod: OwnPod) -> None:
        self.placements.heard(pod)
        with suppress(RuntimeError):  # the loop has ended, and this thread will
            loop.call_soon_threadsafe(self._server.pod_changed, pod)

    async def _listen(self) -> None:
        """The socket, tried again: without it the eyes still see."""
        while True:
            try:
                await self._server.run()
            except OSError as error:
                self._no_socket = f"{self._settings.supervisors.socket}: {error}"
                _log.error("no socket for supervisors", error=self._no_socket)
            await asyncio.sleep(self._settings.sources.again_after.total_seconds())
            self._no_socket = ""

    async def _tell(self, signal: Signal, place: str) -> None:
        await self._told.tell(Observation(signal, self._identity.derive(signal.TYPE, place), self._now()))

    def _room(self) -> bool:
        return self._has_room()

    def _tells_at_once(self) -> bool:
        return self._room() and self._can_promise()

    def _can_promise(self) -> bool:
        informer = self.pods.informer
        return informer.synced.is_set() and informer.failing_since is None and self._may_promise()

    # ------------------------------------------------------------ what others see of it

    def add_health(self, health: Health) -> None:
        """Its checks."""
        health.add("api", self._api_answers)
        health.add("supervisors", lambda: self._no_socket or None)
        health.add("reports", self._reports_wait)
        if self._hands is not None:
            health.add("repair", self._hands.trouble)

    def _api_answers(self) -> str | None:
        since = self.pods.informer.failing_since or self.node.informer.failing_since
        silent = 0.0 if since is None else time.monotonic() - since
        return f"the Kubernetes API is away for {silent:.0f} s" if silent > API_SILENT else None

    def _reports_wait(self) -> str | None:
        return None if self._room() else "reports of pods wait: their share of the spool is full"

    def collect(self) -> Iterator[Metric]:
        """Its metrics."""
        yield GaugeMetricFamily(PREFIX + "pods", "Pods of this node.", value=len(self.pods.all()))
        yield GaugeMetricFamily(
            PREFIX + "supervisor_lines", "Supervisors connected.", value=self._server.lines
        )
        yield GaugeMetricFamily(
            PREFIX + "standing_still", "Pods that were told to stand still.", value=self._standstills.standing
        )
        silent = GaugeMetricFamily(
            PREFIX + "silent_seconds",
            "Since the last word of a pod's training processes; pods that run and told a step.",
            labels=["namespace", "pod"],
        )
        for pod, seconds in self._standstills.silences():
            silent.add_metric([pod.namespace, pod.name], seconds)
        yield silent
        ended = CounterMetricFamily(
            PREFIX + "supervisor_trouble", "Lines refused, broken, lost, slowed down.", labels=["what"]
        )
        for what, count in sorted(self._server.counted.items()):
            ended.add_metric([what], count)
        yield ended
        if self._hands is not None:
            acted = CounterMetricFamily(PREFIX + "repairs", "Repairs by their result.", labels=["result"])
            for result, count in sorted(self._hands.counted().items()):
                acted.add_metric([result], count)
            yield acted


def _resolver(settings: SupervisorSettings) -> PodResolver:
    return CgroupPods() if settings.peers_folder is None else NamespacePods(settings.peers_folder)


def _follow(
    informer: Informer, loop: asyncio.AbstractEventLoop, failed: asyncio.Future[None]
) -> threading.Thread:
    def fail(error: Exception) -> None:
        if not failed.done():
            failed.set_exception(error)

    def run() -> None:
        try:
            informer.run()
        except Exception as error:  # noqa: BLE001 - told to the loop, which ends with it
            _log.exception("an informer's callback failed")
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(fail, error)

    thread = threading.Thread(target=run, name="informer", daemon=True)
    thread.start()
    return thread
