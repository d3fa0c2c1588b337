"""start_processes: every pod of the issue is told to run its command again, in the same container."""

from __future__ import annotations

from typing import Literal

from actuators.jobs.run_objects import RunArguments, find_run
from actuators.pods.desired_state import tell
from actuators.pods.issue_pods import issue_pods, need_all_supervised
from actuators.pods.telling import reply_of
from actuators.reply import Reply
from actuators.step import Step, arguments_of
from actuators.world import Words, World
from runtime.kubernetes import Object
from schemas.cluster import Desired, ProcessOrder
from schemas.commands import Command


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
        text = f"Starting the processes of {len(pods.tellable)} pods again: {command.reason}"
        world.voice.say(Words(run.job, "StartingProcesses", text, key=command.command))
    return reply_of(tell(pods.tellable, start, world), "run", world)


STEP = Step(begin=act, look=act)
