"""suspend_job: the same object, the same UID, only a patch; its pods end and free their nodes (design 8, findings R10, Q7).

*Suspended* means: the Job controller says so, no pod is active or terminating, and every pod of the issue is terminal - or its node is known
to be powered off or presumed gone (`actuators.pods.fence`). A job that has failed already is left as it is; its pods are waited for in the
same way. Whether it is resumed or made anew afterwards is `resume_job`'s.

The suspension carries an end, renewed by looks: after it whoever comes may resume the job (`actuators.jobs.forgotten`).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actuators.jobs import rebuild
from actuators.jobs.forgotten import until_of, was_let_go
from actuators.jobs.ownership import need_ours_to_suspend
from actuators.jobs.run_objects import (
    RunArguments,
    RunGone,
    RunObject,
    attempt_of,
    condition_of,
    find_run,
    has_ended,
    need_latest,
    pods_of,
)
from actuators.pods.fence import Fenced, force_what_is_off
from actuators.reply import Refused, Reply, done, pending
from actuators.rewriting import rewrite
from actuators.step import Step, arguments_of
from actuators.world import Words, World
from runtime.kubernetes import Object
from schemas.cluster import ATTEMPT, LET_GO, SUSPENDED_UNTIL
from schemas.commands import Command
from schemas.wording import agreeing, counted

WON: Final = ("Complete", "SuccessCriteriaMet")
LOST: Final = ("Failed", "FailureTarget")
OUT_OF_TIME: Final = "DeadlineExceeded"
NODES_NAMED: Final = 3
RENEWED: Final = 10
"""The end of a suspension is written again when a tenth of its time has passed."""
IF_GONE: Final = "should relight not resume it: `relight let-go`, or kubectl patch with spec.suspend false"


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same."""
    given = arguments_of(RunArguments, command)
    try:
        run = find_run(command, given, world)
    except RunGone as gone:
        stored = rebuild.stored_for(command, given, gone, world)
        return done(effects=(f"nothing is left to suspend, the manifest is in {stored.path}",))
    need_ours_to_suspend(command, run, world)
    need_not_over(run)
    if command.action == "begin":
        text = f"Suspending the job to make its pods anew ({IF_GONE}): {command.reason}"
        world.voice.say(Words(run.job, "SuspendingJob", text, key=command.command))
    was_suspended = bool(run.job["spec"].get("suspend"))
    job, written = rewrite(run.job, run.path, partial(_suspend, command, world), world)
    effects: tuple[str, ...] = ("suspended",) if written and not was_suspended else ()
    suspended = RunObject(job, run.run, run.epoch)
    fenced = force_what_is_off([pod for pod in pods_of(suspended, world) if not has_ended(pod)], world)
    effects += fenced.effects
    waiting = what_is_left(suspended, fenced)
    if waiting:
        return pending("terminating", again=world.again, detail=waiting, effects=effects)
    return done(effects=effects)


def need_not_over(run: RunObject) -> None:
    """Raises Refused when the run is over as its user wanted: it has succeeded, or the time he gave it has passed."""
    for kind in WON:
        if condition_of(run.job, kind):
            raise Refused("succeeded", f"{run.title} is {kind}")
    for kind in LOST:
        if (condition_of(run.job, kind) or {}).get("reason") == OUT_OF_TIME:
            raise Refused("deadline_exceeded", f"{run.title} has ended by its own activeDeadlineSeconds")


def what_is_left(run: RunObject, fenced: Fenced) -> str:
    """What keeps the job from being suspended, in words; empty when nothing does."""
    status = run.job.get("status") or {}
    if not condition_of(run.job, "Suspended") and not condition_of(run.job, "Failed"):
        return "the Job controller has not said so yet"
    why = "".join(f"; {wait}" for wait in fenced.waits[:NODES_NAMED])
    for count in ("active", "terminating"):
        if status.get(count):
            number = int(status[count])
            return f"{counted(number, 'pod')} {agreeing(number, 'is', 'are')} {count}{why}"
    left = len(fenced.left)
    return f"{counted(left, 'pod')} {agreeing(left, 'has', 'have')} not ended{why}" if left else ""


def _suspend(command: Command, world: World, job: Object) -> Object | None:
    """Suspend it until, and note for which attempt, so that no older one resumes it. What was resumed since is not taken down a second time."""
    marks: Object = {LET_GO: None} if was_let_go(job) else {}
    need_latest(command, job)
    if any(condition_of(job, kind) for kind in LOST):
        return None
    if attempt_of(job) == command.attempt and not job["spec"].get("suspend"):
        who = "`relight let-go`" if was_let_go(job) else "somebody"
        # Said as an effect, since the answer that told of it may have been lost: a job that nothing was done to would be let go.
        effects = (f"suspended before, and resumed by {who} since",)
        raise Refused(
            "not_suspended", f"{who} has resumed it since, and its processes go on", effects=effects
        )
    change: Object = {} if job["spec"].get("suspend") else {"spec": {"suspend": True}}
    if attempt_of(job) < command.attempt:
        marks[ATTEMPT] = str(command.attempt)
    lasts = world.settings.suspended_at_most
    until, stands = world.now() + lasts, until_of(job)
    if change or (stands is not None and until - stands > lasts / RENEWED):
        marks[SUSPENDED_UNTIL] = until.isoformat(timespec="seconds")
    if marks:
        change["metadata"] = {"annotations": marks}
    return change or None


STEP = Step(begin=act, look=act, harms=True)
