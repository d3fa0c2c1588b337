"""start_processes: every pod of the issue is told to run its command again, in the same container.

A rank without a pod - somebody deleted it, and the Job controller makes it anew after its own back-off - would leave the others waiting for it:
until every rank has one nothing is told to the core, and a look tells the newcomer. Where none comes in time the start has failed.
"""

from __future__ import annotations

from typing import Literal

from actuators.jobs.run_objects import RunArguments, RunObject, find_run
from actuators.pods.desired_state import tell
from actuators.pods.issue_pods import issue_pods, need_all_supervised
from actuators.pods.telling import reply_of
from actuators.reply import Reply, pending
from actuators.step import Step, arguments_of
from actuators.world import Words, World
from runtime.kubernetes import Object
from schemas.cluster import Desired, ProcessOrder
from schemas.commands import Command
from schemas.wording import agreeing, counted


class StartArguments(RunArguments):
    """As `recovery.steps` sends them."""

    counter: Literal["continue", "reset"] = "continue"


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same: tell whoever has not been told, pods that came meanwhile included."""
    given = arguments_of(StartArguments, command)
    run = find_run(command, given, world)
    pods = issue_pods(run, world)
    need_all_supervised(run, pods)
    order = Desired(
        epoch=run.epoch,
        attempt=command.attempt,
        state=ProcessOrder.RUN,
        counter=given.counter,
        command=command.command,
    )

    def start(pod: Object) -> Desired:
        del pod
        return order

    if command.action == "begin":
        text = f"Starting the processes of {counted(len(pods.tellable), 'pod')} again: {command.reason}"
        world.voice.say(Words(run.job, "StartingProcesses", text, key=command.command))
    reply = reply_of(tell(pods.tellable, start, world), "run", world)
    missing = _ranks(run) - len(pods.tellable)
    if missing > 0:
        detail = f"{counted(missing, 'rank')} {agreeing(missing, 'has', 'have')} no pod"
        return pending("pods_missing", again=world.again, detail=detail, effects=reply.effects)
    return reply


def _ranks(run: RunObject) -> int:
    """How many pods the issue has when it is whole."""
    spec, status = run.job["spec"], run.job.get("status") or {}
    at_once = int(spec.get("parallelism", 1))
    left = int(spec.get("completions") or at_once) - int(status.get("succeeded") or 0)
    return min(at_once, left)


STEP = Step(begin=act, look=act)
