"""Pods of a run's present issue, sorted by whether they can be told anything."""

from __future__ import annotations

from dataclasses import dataclass

from actuators.jobs.run_objects import (
    RunObject,
    epoch_of,
    has_ended,
    is_leaving,
    is_supervised,
    pods_of,
)
from actuators.reply import Refused, Unsupported
from actuators.world import World
from runtime.kubernetes import Object
from schemas.wording import agreeing, counted


@dataclass(frozen=True, slots=True)
class IssuePods:
    """Pods of one epoch that have not ended, and how many ended well."""

    tellable: list[Object]
    leaving: list[Object]
    """Being deleted: their processes may still live, and they answer nobody."""
    unsupervised: list[Object]
    succeeded: int


def issue_pods(run: RunObject, world: World) -> IssuePods:
    """Read them now."""
    issue = [pod for pod in pods_of(run, world) if epoch_of(pod) == run.epoch]
    alive = [pod for pod in issue if not has_ended(pod)]
    staying = [pod for pod in alive if not is_leaving(pod)]
    return IssuePods(
        tellable=[pod for pod in staying if is_supervised(pod)],
        leaving=[pod for pod in alive if is_leaving(pod)],
        unsupervised=[pod for pod in staying if not is_supervised(pod)],
        succeeded=sum((pod.get("status") or {}).get("phase") == "Succeeded" for pod in issue),
    )


def need_all_supervised(run: RunObject, pods: IssuePods) -> None:
    """An order that reaches only a part of the ranks must not be counted as one that reached all."""
    if pods.unsupervised:
        names = ", ".join(str(pod["metadata"]["name"]) for pod in pods.unsupervised[:3])
        bare = len(pods.unsupervised)
        carry = agreeing(bare, "carries", "carry")
        raise Unsupported("not_injected", f"{counted(bare, 'pod')} {carry} no supervisor ({names})")
    if not pods.tellable and not pods.leaving:
        spec = run.job.get("spec") or {}
        if pods.succeeded >= int(spec.get("completions") or spec.get("parallelism") or 1):
            raise Refused("succeeded", f"every rank of {run.title} has ended well, {pods.succeeded} in all")
        raise Refused("no_pods", f"{run.title} has no pod at epoch {run.epoch}")
