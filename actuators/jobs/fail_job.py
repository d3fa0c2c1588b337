"""fail_job: no more retries, then let go: supervisors end with the original code and the Job controller sets Failed (finding Q6).

Where that does not end it - a process that hangs, a pod that never started, nobody supervised - the Job is ended by its deadline shortly
before ours passes. Done when the Job controller has said Failed, or FailureTarget, from which there is no way back. Where only the stored
manifest of a rebuild is left, the job is made once more without a pod, to be found Failed by its user.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from actuators.jobs import rebuild
from actuators.jobs.letting_go import let_go
from actuators.jobs.run_objects import RunArguments, RunGone, condition_of, find_run
from actuators.reply import Refused, Reply, done, pending
from actuators.rewriting import rewrite
from actuators.step import Step, arguments_of
from actuators.world import Words, World
from runtime.kubernetes import Object
from schemas.commands import Command

LAST_RESORT: Final = timedelta(seconds=60)
"""So long before the step's deadline the Job's own deadline is used: half of what the default rulebook gives the step."""
LOST: Final = ("Failed", "FailureTarget")
WON: Final = ("Complete", "SuccessCriteriaMet")


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same."""
    given = arguments_of(RunArguments, command)
    try:
        run = rebuild.put_right(find_run(command, given, world), world)
    except RunGone as gone:
        run = rebuild.bring_back(command, given, gone, world, fails=True)
    if command.action == "begin":
        text = f"Failing the job ({given.cause or 'no cause given'}): {command.reason}"
        world.voice.say(Words(run.job, "FailingJob", text, key=command.command, warning=True))
    hurry = command.deadline - world.now() <= LAST_RESORT

    def judge(job: Object) -> Object | None:
        if any(condition_of(job, kind) for kind in WON):
            raise Refused("succeeded", f"{run.title} has succeeded")
        if any(condition_of(job, kind) for kind in LOST):
            return None
        spec: Object = {}
        if job["spec"].get("backoffLimit") != 0:
            spec["backoffLimit"] = 0
        if hurry and job["spec"].get("activeDeadlineSeconds") != 1:
            spec["activeDeadlineSeconds"] = 1
        if hurry and job["spec"].get("suspend"):
            # A suspended job has no start, so its deadline never passes. It starts without a pod: what is left of the old ones may still run.
            spec |= {"suspend": False, "parallelism": 0}
        return {"spec": spec} if spec else None

    job, written = rewrite(run.job, run.path, judge, world)
    effects = ("backoffLimit 0" + (", activeDeadlineSeconds 1" if hurry else ""),) if written else ()
    if any(condition_of(job, kind) for kind in LOST):
        return done(effects=effects)
    tally = let_go(command, run, world)
    return pending("failing", again=world.again, effects=(*effects, tally.in_words("release")))


STEP = Step(begin=act, look=act, harms=True)
