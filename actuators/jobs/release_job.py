"""release_job: supervisors end with the original code; a job nobody supervises is let go by leaving it alone.

Where only the stored manifest of a rebuild is left, the job is given back: running, or Failed where it had failed before we took it away.
"""

from __future__ import annotations

from dataclasses import replace

from actuators.jobs import rebuild
from actuators.jobs.letting_go import let_go
from actuators.jobs.run_objects import RunArguments, RunGone, find_run
from actuators.pods.telling import reply_of
from actuators.reply import Reply
from actuators.step import Step, arguments_of
from actuators.world import Words, World
from schemas.commands import Command


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same."""
    given = arguments_of(RunArguments, command)
    try:
        run = rebuild.put_right(find_run(command, given, world), world)
    except RunGone as gone:
        run = rebuild.bring_back(command, given, gone, world, fails=False)
    if command.action == "begin":
        why = f" ({given.cause})" if given.cause else ""
        text = f"Nothing to add{why}: the job goes on as Kubernetes decides. {command.reason}"
        world.voice.say(Words(run.job, "Released", text, key=command.command))
    return replace(reply_of(let_go(command, run, world), "release", world), told=None)


STEP = Step(begin=act, look=act)
