"""Ends of containers that their supervisors did not live to tell: the kernel killed both, for memory or by a KILL from outside.

The kubelet's word comes with this node's pods. It is believed once no line of the pod is up any more and what was said on the last one had time
to be read; whether the exit was told by then is the source's to know, since it has the order of all reports. The container of a pod that is
being taken away did not end by itself. Nothing of it is kept here: an agent that starts hears every pod again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from producers.own_pods import OwnPod
from producers.supervisors.source import ContainerEnded, SupervisorReports

LOOKS: Final = 30
"""Times a line that is still up is waited for: what was said on it may be slowed by the pod's allowance. Then it is a process that kept the
socket open, and no supervisor."""


class ContainerEnds:
    """On the event loop."""

    def __init__(self, source: SupervisorReports, has_line: Callable[[str], bool], within: timedelta) -> None:
        self._source = source
        self._has_line = has_line
        self._within = within.total_seconds()
        self._waiting: dict[str, asyncio.Task[None]] = {}

    def heard(self, pod: OwnPod) -> None:
        """The API says something new of a pod, or that it is gone."""
        if pod.run is None or pod.leaving or not pod.terminated or pod.uid in self._waiting:
            return
        container = self._source.supervised(pod.uid)
        if container is None or container not in pod.terminated:
            return
        ended = ContainerEnded(pod, container, pod.terminated[container])
        task = asyncio.get_running_loop().create_task(self._tell(ended))
        self._waiting[pod.uid] = task
        task.add_done_callback(lambda _: self._waiting.pop(pod.uid, None))

    def close(self) -> None:
        """Tell no more; the next agent hears of them again."""
        for task in self._waiting.values():
            task.cancel()

    async def _tell(self, ended: ContainerEnded) -> None:
        for _ in range(LOOKS):
            await asyncio.sleep(self._within)
            if not self._has_line(ended.pod.uid):
                break
        await self._source.offer(ended)
