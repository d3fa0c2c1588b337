"""What ran on a chip, by the pods of this node: an interval a pod and chip, kept for the longest window after the pod went (finding R13).

A chip belongs to the pod whose annotations or whose grants name it. Without either, a pod that holds as many devices as the node has holds
them all; else nobody knows, and the node's mailbox has a history of its own (design 5). Answers are by event time: a fault told late is
stamped with what ran when it happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from producers.device_grants import Grants, nobody_knows
from producers.own_pods import OwnPod
from producers.placement import HISTORY, INTERVALS_KEPT, Placements
from schemas.signals import Placement

EVERY_CHIP: Final = "*"


@dataclass(frozen=True, slots=True)
class _Stay:
    """A pod with its chips, from `since` until before `until`."""

    placement: Placement
    chips: frozenset[str]
    since: datetime
    until: datetime | None

    def holds(self, chip: str | None, time: datetime) -> bool:
        if chip is None or not (chip in self.chips or EVERY_CHIP in self.chips):
            return False
        return self.since <= time and (self.until is None or time < self.until)


class PodPlacements:
    """Placements by pods; `heard` is called for each difference, from the informer's thread."""

    def __init__(
        self,
        now: Callable[[], datetime],
        grants: Grants = nobody_knows,
        before: Placements | None = None,
        node_resources: Callable[[], dict[str, int]] = dict,
    ) -> None:
        """`before` is asked first: a file that people wrote themselves. `node_resources`: what the node has to give."""
        self._now = now
        self._grants = grants
        self._before = before
        self._node_resources = node_resources
        self._lock = threading.Lock()
        self._pods: dict[str, OwnPod] = {}
        self._stays: dict[str, _Stay] = {}

    def heard(self, pod: OwnPod) -> None:
        """A pod is new, changed, or gone."""
        placement = pod.placement()
        if placement is None:
            return
        ended = pod.ended or (self._now() if pod.gone or pod.over else None)
        with self._lock:
            stay = self._stays.get(pod.uid)
            known = frozenset() if stay is None else stay.chips
            chips = self.chips_of(pod) or known  # grants are forgotten by the kubelet once the pod is over
            until = ended if stay is None or stay.until is None else min(stay.until, ended or stay.until)
            self._stays[pod.uid] = _Stay(placement, chips, pod.started, until)
            self._pods[pod.uid] = pod
            if ended is not None:
                self._forget_old()

    def at(self, chip: str | None, time: datetime) -> Placement | None:
        """What ran there then; the pod that came last, should two claim one chip."""
        if self._before is not None and (found := self._before.at(chip, time)) is not None:
            return found
        with self._lock:
            self._learn_grants()
            held = [stay for stay in self._stays.values() if stay.holds(chip, time)]
        return max(held, key=lambda stay: stay.since).placement if held else None

    def _learn_grants(self) -> None:
        """The kubelet writes a grant a moment after the pod is seen bound."""
        for uid, stay in self._stays.items():
            if stay.until is None and not stay.chips and (chips := self.chips_of(self._pods[uid])):
                self._stays[uid] = _Stay(stay.placement, chips, stay.since, stay.until)

    def chips_of(self, pod: OwnPod) -> frozenset[str]:
        """Chips a pod was given; `*`: all of the node; empty: none, or nobody can name them."""
        if not pod.resources and not pod.chips:
            return frozenset()
        named = pod.chips or self._grants(pod.uid)
        if named:
            return frozenset(named)
        there = self._node_resources()
        whole = all(there.get(name, 0) == amount for name, amount in pod.resources.items())
        return frozenset({EVERY_CHIP}) if whole else frozenset()

    def _forget_old(self) -> None:
        oldest = self._now() - HISTORY
        old = [uid for uid, stay in self._stays.items() if stay.until is not None and stay.until < oldest]
        kept = sorted(
            (uid for uid, stay in self._stays.items() if stay.until is not None and uid not in old),
            key=lambda uid: self._stays[uid].since,
        )
        for uid in (*old, *kept[: max(0, len(kept) - INTERVALS_KEPT)]):
            del self._stays[uid], self._pods[uid]
