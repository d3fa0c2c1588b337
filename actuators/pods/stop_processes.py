"""stop_processes: every pod of the issue is told to stop its processes; the core counts their reports down (finding R17).

`told` is how many reports to wait for. While a pod is being deleted nothing is told to the core: its processes may still live and it
reports to nobody, so that the barrier must not be met without it. A look tells new pods, mends what failed, and renews `until`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from actuators.jobs.run_objects import RunArguments, find_run
from actuators.pods.desired_state import tell
from actuators.pods.issue_pods import issue_pods, need_all_supervised
from actuators.pods.telling import reply_of
from actuators.reply import Refused, Reply, pending
from actuators.step import Step, arguments_of
from actuators.world import Words, World
from runtime.kubernetes import Object
from schemas.cluster import Desired, ProcessOrder
from schemas.commands import Command
from schemas.wording import counted


class StopArguments(RunArguments):
    """As `recovery.steps` sends them."""

    until: AwareDatetime
    otherwise: Literal["rerun", "exit"] = "exit"
    grace_seconds: Annotated[float, Field(ge=0, le=600)] = 30.0


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same: tell whoever has not been told."""
    given = arguments_of(StopArguments, command)
    if (
        given.until <= world.now()
    ):  # supervisors would refuse it, and a pod made since would be told for nothing
        raise Refused("too_late", f"the order ended by itself at {given.until.isoformat()}")
    run = find_run(command, given, world)
    pods = issue_pods(run, world)
    need_all_supervised(run, pods)
    order = Desired(
        epoch=run.epoch,
        attempt=command.attempt,
        state=ProcessOrder.STOP,
        until=given.until,
        otherwise=given.otherwise,
        grace=given.grace_seconds,
        command=command.command,
    )

    def stop(pod: Object) -> Desired:
        del pod
        return order

    if command.action == "begin":
        text = f"Stopping the processes of {counted(len(pods.tellable), 'pod')}, containers stay: {command.reason}"
        world.voice.say(Words(run.job, "StoppingProcesses", text, key=command.command))
    tally = tell(pods.tellable, stop, world)
    reply = reply_of(tally, "stop", world)
    if pods.leaving and tally.superseded == 0:
        names = ", ".join(str(pod["metadata"]["name"]) for pod in pods.leaving[:3])
        return pending("pods_leaving", again=world.again, detail=names, effects=reply.effects)
    return reply


STEP = Step(begin=act, look=act, harms=True)
