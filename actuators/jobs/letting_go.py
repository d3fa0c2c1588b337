"""Telling supervisors that relight has nothing to add: they end with the original code and Kubernetes' own policy decides."""

from __future__ import annotations

from actuators.jobs.run_objects import RunObject, epoch_of, has_ended, is_leaving, is_supervised, pods_of
from actuators.pods.desired_state import Tally, order_of, tell
from actuators.world import World
from runtime.kubernetes import Object
from schemas.cluster import Desired, ProcessOrder
from schemas.commands import Command


def let_go(command: Command, run: RunObject, world: World) -> Tally:
    """Tell every supervised pod, of whichever epoch: nobody may be left waiting for us.

    Release is last whatever was said before: it takes the attempt that stands on the pod where that one is higher, since a halted run's
    release knows no attempt (finding Q27).
    """

    def release(pod: Object) -> Desired:
        stands = order_of(pod)
        epoch = epoch_of(pod)
        attempt = max(command.attempt, stands.attempt if stands and stands.epoch == epoch else 0)
        return Desired(epoch=epoch, attempt=attempt, state=ProcessOrder.RELEASE, command=command.command)

    pods = [
        pod
        for pod in pods_of(run, world)
        if is_supervised(pod) and not has_ended(pod) and not is_leaving(pod)
    ]
    return tell(pods, release, world)
