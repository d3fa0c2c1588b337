"""resume_job: the next epoch into the suspended template, then off with the suspension, then wait until every pod runs.

Where that would wait for something that never comes, the job is deleted and created instead (`actuators.jobs.rebuild`).

Two patches, each conditional, each harmless to crash after: the epoch and the nodes to keep off while it is suspended, the suspension last. A
look finds by the epoch on the job how far it came. Servers before 1.36 take a change of the template of a job that had begun only when its
start time is taken off first (finding Q8); that needs rights on jobs/status. What is used of the run's budgets is mirrored on the job with
the epoch, for a core that has lost its own counters (finding Q35).
"""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

from pydantic import Field

from actuators.jobs import rebuild
from actuators.jobs.forgotten import was_let_go
from actuators.jobs.keeping_off import KEPT_OFF, affinity_without
from actuators.jobs.ownership import need_ours_to_suspend
from actuators.jobs.run_objects import (
    RunArguments,
    RunGone,
    RunObject,
    condition_of,
    epoch_of,
    find_run,
    is_leaving,
    need_latest,
    pods_of,
    run_object,
    size_of,
)
from actuators.jobs.suspend_job import need_not_over
from actuators.reply import Refused, Reply, done, failed, pending
from actuators.rewriting import rewrite
from actuators.step import Step, arguments_of
from actuators.world import Words, World
from runtime import paths
from runtime.errors import ApiInvalid
from runtime.kubernetes import Object
from schemas.cluster import EPOCH, POD_RETRIES_USED, RETRIES_USED, RUN, SUSPENDED_UNTIL
from schemas.commands import Command
from schemas.records import Counters
from schemas.wording import agreeing, counted

WAITING = "Pending"


class ResumeArguments(RunArguments):
    """As `recovery.steps` sends them."""

    epoch: Annotated[int, Field(ge=2)]
    """Of the issue to start."""
    counters: Counters = Counters()
    """As they stand after the decision."""


def act(command: Command, world: World) -> Reply:
    """Begin and look are the same: whatever is missing is done."""
    given = arguments_of(ResumeArguments, command)
    run, effects = _at_next_epoch(command, given, world)
    if run.epoch < given.epoch:
        return _progress(run, world, (*effects, "`relight let-go` had resumed it as the issue it was"))
    if condition_of(run.job, "Failed"):
        return failed("ended_again", detail=f"{run.title} has failed again as issue {given.epoch}")
    if command.action == "begin":
        text = f"Resuming the job as issue {given.epoch}: {command.reason}"
        world.voice.say(Words(run.job, "ResumingJob", text, key=command.command))
    job, written = rewrite(run.job, run.path, partial(_resume, command), world)
    if written:
        effects = (*effects, "resumed")
    return _progress(run_object(job), world, effects)


def _at_next_epoch(
    command: Command, given: ResumeArguments, world: World
) -> tuple[RunObject, tuple[str, ...]]:
    """The object of the issue to start, patched or made anew where it was not yet; and what was written.

    One that was let go while nobody of relight was there runs as the issue before, and is left so: it was restarted, as was wanted.
    """
    issue = rebuild.Issue(given.epoch, tuple(_names(given, world.settings.most_nodes)), _used(given))
    made = (f"epoch {given.epoch}, in a new object",)
    try:
        run = find_run(command, given, world, epochs=(given.epoch,))
    except RunGone as gone:
        return rebuild.go_on(command, given, issue, gone, world), made
    need_ours_to_suspend(command, run, world)
    need_latest(command, run.job)
    need_not_over(run)
    if run.epoch == given.epoch:
        return rebuild.put_right(run, world), ()
    if was_let_go(run.job) and not condition_of(run.job, "Failed"):
        return run, ()
    why = rebuild.why_anew(run, pods_of(run, world))
    if why:
        return rebuild.make_anew(command, run, issue, why, world), made
    if not run.job["spec"].get("suspend"):
        raise Refused("not_suspended", f"{run.title} is not suspended; somebody resumed it")
    return _next_epoch(rebuild.put_right(run, world), given, world), (f"epoch {given.epoch}",)


def cancel(command: Command, world: World) -> Reply:
    """A job that was resumed runs, one that was not stays suspended for who asked; one that was to be deleted is not any more."""
    given = arguments_of(ResumeArguments, command)
    try:
        rebuild.put_right(find_run(command, given, world, epochs=(given.epoch,)), world)
    except RunGone:
        return done(effects=("the job is not there; whoever goes on finds its manifest",))
    return done()


def template_change(run: RunObject, given: ResumeArguments, most_nodes: int) -> Object:
    """The patch of a suspended job: epoch and run on the job and on its template, and the nodes to keep off."""
    names = _names(given, most_nodes)
    carried = {EPOCH: str(given.epoch), RUN: run.run}
    template = {
        "metadata": {"annotations": carried},
        "spec": {"affinity": _replacing(run.job, affinity_without(run.job, names))},
    }
    annotations = {**carried, **_used(given), KEPT_OFF: json.dumps(names) if names else None}
    return {"metadata": {"annotations": annotations}, "spec": {"template": template}}


def _used(given: ResumeArguments) -> dict[str, str]:
    return {
        RETRIES_USED: str(given.counters.job_retries_used),
        POD_RETRIES_USED: str(given.counters.pod_retries_used),
    }


def _names(given: ResumeArguments, most_nodes: int) -> list[str]:
    return [node["name"] for node in given.keep_off if node.get("name")][:most_nodes]


def _replacing(job: Object, affinity: Object | None) -> Object | None:
    """A merge patch merges maps: what is no longer wanted has to be named."""
    old = job["spec"]["template"]["spec"].get("affinity") or {}
    return None if affinity is None else {**dict.fromkeys(old), **affinity, **_node_part(old, affinity)}


def _node_part(old: Object, new: Object) -> Object:
    node_old, node_new = old.get("nodeAffinity") or {}, new.get("nodeAffinity")
    return {} if node_new is None else {"nodeAffinity": {**dict.fromkeys(node_old), **node_new}}


def _next_epoch(run: RunObject, given: ResumeArguments, world: World) -> RunObject:
    def judge(job: Object) -> Object | None:
        found = run_object(job)
        if found.epoch == given.epoch or was_let_go(job):
            return None
        if not job["spec"].get("suspend"):
            raise Refused("not_suspended", f"{run.title} is not suspended; somebody resumed it")
        return template_change(found, given, world.settings.most_nodes)

    try:
        job, _ = rewrite(run.job, run.path, judge, world)
    except ApiInvalid:
        if not (run.job.get("status") or {}).get("startTime"):
            raise
        started = world.api.get(run.path)
        world.api.merge(started, paths.status(run.path), {"status": {"startTime": None}})
        job, _ = rewrite(world.api.get(run.path), run.path, judge, world)
    return run_object(job)


def _resume(command: Command, job: Object) -> Object | None:
    need_latest(command, job)
    if not job["spec"].get("suspend"):
        return None
    return {"spec": {"suspend": False}, "metadata": {"annotations": {SUSPENDED_UNTIL: None}}}


def _progress(run: RunObject, world: World, effects: tuple[str, ...]) -> Reply:
    """How many pods of the issue run. Those that failed before a suspension may still be there where the issue is the same."""
    wanted = size_of(run)
    issue = [pod for pod in pods_of(run, world) if epoch_of(pod) == run.epoch and not is_leaving(pod)]
    phases = [(pod.get("status") or {}).get("phase", WAITING) for pod in issue]
    running = sum(phase not in {WAITING, *_not_of_now(run)} for phase in phases)
    if running >= wanted:
        return done(epoch=run.epoch, effects=effects)
    detail = (
        f"{running} of {counted(wanted, 'pod')} run, {len(issue)} {agreeing(len(issue), 'is', 'are')} there"
    )
    return pending("requeue", again=world.again, detail=detail, effects=effects)


def _not_of_now(run: RunObject) -> tuple[str, ...]:
    return ("Failed",) if was_let_go(run.job) else ()


STEP = Step(begin=act, look=act, cancel=cancel)
