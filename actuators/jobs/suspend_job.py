"""suspend_job: the same object, the same UID, only a patch; its pods end and free their nodes (design 8, findings R10, Q7).

*Suspended* means: the Job controller says so, no pod is active or terminating, and every pod of the issue is terminal - or its node is known
to be powered off (out-of-service taint), whereupon the pod is deleted by UID without waiting for a kubelet that will never speak. A pod
object that vanished by itself proves nothing about its processes (recovery 5), so nothing else is ever forced.
"""

from __future__ import annotations

from typing import Final

from actuators.jobs.ownership import need_ours_to_suspend
from actuators.jobs.run_objects import (
    RunArguments,
    RunObject,
    condition_of,
    find_run,
    has_ended,
    is_leaving,
    pods_of,
)
from actuators.reply import Refused, Reply, Unsupported, done, pending
from actuators.rewriting import rewrite
from actuators.step import Step, arguments_of
from actuators.world import Words, World
from runtime import paths
from runtime.errors import ApiConflict, ApiNotFound
from runtime.kubernetes import Object
from schemas.commands import Command

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""Set by a human or a fencing command: the node is known to be off."""
OVER: Final = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same."""
    run = find_run(command, arguments_of(RunArguments, command), world)
    need_ours_to_suspend(command, run, world)
    need_resumable(run)
    if command.action == "begin":
        text = f"Suspending the job to make its pods anew: {command.reason}"
        world.voice.say(Words(run.job, "SuspendingJob", text, key=command.command))
    job, written = rewrite(run.job, run.path, _suspend, world)
    effects = ("suspended",) if written else ()
    waiting = what_is_left(RunObject(job, run.run, run.epoch), world)
    if waiting:
        return pending("terminating", again=world.again, detail=waiting, effects=effects)
    return done(effects=effects)


def need_resumable(run: RunObject) -> None:
    """Raises Unsupported where only a new object would help, Refused when the run is over."""
    for kind in OVER:
        if condition_of(run.job, kind):
            cause = "needs_rebuild" if kind.startswith("Fail") else "succeeded"
            raise (Unsupported if kind.startswith("Fail") else Refused)(
                cause, f"{run.title} is {kind}: a new object would have to be made"
            )
    completed = (run.job.get("status") or {}).get("completedIndexes")
    if completed:
        text = f"ranks {completed} of {run.title} have ended and would not be started again"
        raise Unsupported("needs_rebuild", text)


def what_is_left(run: RunObject, world: World) -> str:
    """What keeps the job from being suspended, in words; empty when nothing does."""
    status = run.job.get("status") or {}
    if not condition_of(run.job, "Suspended"):
        return "the Job controller has not said so yet"
    for count in ("active", "terminating"):
        if status.get(count):
            _force_what_is_off(run, world)
            return f"{status[count]} pods are {count}"
    alive = [pod for pod in pods_of(run, world) if not has_ended(pod)]
    return f"{len(alive)} pods have not ended" if alive else ""


def _suspend(job: Object) -> Object | None:
    return None if job["spec"].get("suspend") else {"spec": {"suspend": True}}


def _force_what_is_off(run: RunObject, world: World) -> None:
    """Delete by UID the leaving pods whose node is known to be off."""
    leaving = [pod for pod in pods_of(run, world) if is_leaving(pod) and not has_ended(pod)]
    off: dict[str, bool] = {}
    for pod in leaving:
        name = str(pod["spec"].get("nodeName") or "")
        if name not in off:
            off[name] = bool(name) and _is_off(name, world)
        if off[name]:
            try:
                world.api.delete(pod, paths.pods(run.namespace, pod["metadata"]["name"]), grace=0)
            except (ApiNotFound, ApiConflict):
                continue


def _is_off(name: str, world: World) -> bool:
    try:
        node = world.api.get(paths.nodes(name))
    except ApiNotFound:
        return False  # the garbage collector of Kubernetes has the pod
    return any(taint.get("key") == OUT_OF_SERVICE for taint in node["spec"].get("taints") or [])


STEP = Step(begin=act, look=act, harms=True)
