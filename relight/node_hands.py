"""Puts the hands of the node agent together: what it may repair, and who is on a unit by its process table and by the API's pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from actuators.node_agent.chip_repair import ChipRepair
from actuators.node_agent.device_holders import device_holders
from actuators.node_agent.orders import Holder, Unit
from actuators.node_agent.settings import RepairSettings
from producers.on_cluster import Reach
from producers.own_pods import OwnPod, OwnPods
from producers.supervisors.peers import PodResolver

ChipsOf = Callable[[OwnPod], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Occupants:
    """Who is on a unit: processes that hold its devices, and pods of others that were given its chips, started or not."""

    pods: OwnPods
    chips_of: ChipsOf
    resolver: PodResolver
    clock: Callable[[], datetime]
    must_see_all: bool

    def now(self) -> datetime:
        """The node's clock."""
        return self.clock()

    def holders(self, unit: Unit, run: str) -> list[Holder]:
        """Raises HoldersUnknown."""
        processes = device_holders(unit.devices, self._run_of, must_see_all=self.must_see_all)
        return [*processes, *self._pods_of_others(unit, run)]

    def _run_of(self, pid: int) -> str | None:
        peer = self.resolver.pod_of(pid)
        pod = None if peer is None else self.pods.get(peer.uid)
        return None if pod is None else pod.run

    def _pods_of_others(self, unit: Unit, run: str) -> list[Holder]:
        found = []
        for pod in self.pods.all():
            if pod.run == run or pod.over or not (pod.resources or pod.chips):
                continue
            chips = self.chips_of(pod)
            # A pod that holds devices nobody can name may hold these.
            if not chips or chips & set(unit.chips) or "*" in chips:
                found.append(Holder(0, f"pod {pod.namespace}/{pod.name}", pod.run))
        return found


def make_hands(settings: RepairSettings, reach: Reach) -> ChipRepair:
    """Repair of chips for this node."""
    occupants = Occupants(reach.pods, reach.chips_of, reach.resolver, reach.now, settings.must_see_all)
    hands = ChipRepair(
        settings, reach.identity.node, reach.cluster, occupants, reach.folder / "repair", reach.tell
    )
    reach.node.hear(hands.node_changed)
    return hands
