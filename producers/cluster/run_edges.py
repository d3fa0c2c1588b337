"""What is told of runs and their pods, in the order a mailbox needs: the run, its pods, their ends, its end.

A pod waits untold until its run was told and the node of that name is known; nothing is inherited by a name, so a pod that was bound before the
node was made belongs to a node that is gone. What ended long ago and was never told is not told: nobody may act on it (recovery 1).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from producers.cluster.book import PodTold, RunTold
from producers.cluster.evictions import eviction
from producers.cluster.exits import exits
from producers.cluster.node_edges import NodeEdges
from producers.cluster.pods import Pod, read_pod
from producers.cluster.present import Present
from producers.cluster.runs import Run, read_run
from producers.cluster.settings import WatchSettings
from producers.cluster.telling import Teller
from runtime import logs
from runtime.informer import Difference
from schemas.facts import IssueState, PodBound, PodEnded, RunEnded

_log = logs.get(__name__)


class RunEdges:
    """Differences of Jobs and pods to facts and signals."""

    def __init__(
        self,
        teller: Teller,
        present: Present,
        nodes: NodeEdges,
        settings: WatchSettings,
        *,
        recent: timedelta,
    ) -> None:
        """`recent`: ends younger than this are told although their beginning never was."""
        self._teller = teller
        self._present = present
        self._nodes = nodes
        self._settings = settings
        self._recent = recent
        self._whole = False

    # ------------------------------------------------------------ Jobs

    def job_changed(self, difference: Difference) -> None:
        """A Job is new, other, or gone."""
        devices = self._settings.devices
        if difference.new is None:
            self._job_gone(read_run(difference.object, devices))
            return
        run = read_run(difference.new, devices)
        if not self._is_watched(run):
            return
        is_new = run.uid not in self._present.jobs
        self._present.jobs[run.uid] = run
        current = self._present.workload_of(run.run)
        if current is None or current.uid == run.uid or _is_newer(run, current):
            self._present.objects[run.run] = run.uid
            self._job(run, is_new=is_new)

    def _is_watched(self, run: Run) -> bool:
        known = run.uid in self._present.jobs or run.run in self._teller.book.runs
        return (
            known or self._settings.every_job or run.holds_devices or run.supervised or bool(run.annotations)
        )

    def _job(self, run: Run, *, is_new: bool) -> None:
        told = self._teller.book.runs.get(run.run)
        if told is not None and (told.ended_with(run.uid) or self._is_over(told, run)):
            return
        if told is None and run.end is not None and not self._is_recent(run.end.at):
            return
        seen = run.seen(1 if told is None else told.seen.epoch)
        if told is None or told.ended is not None or told.seen != seen:
            self._teller.state(seen, run.run)
        if is_new:
            for uid in sorted(self._present.pods_of_job.get(run.uid, ())):
                if uid not in self._teller.book.pods:
                    self._pod(self._present.pods[uid])
        if run.end is None:
            self.tell_issue(run.run)
        elif self._whole:  # before everything was listed its pods are not known: their ends come first
            self._tell_end_of(run)

    def _tell_end_of(self, run: Run) -> None:
        told = self._teller.book.runs.get(run.run)
        if run.end is not None and told is not None and told.ended is None:
            self._end(run, run.end.how, run.end.at, run.end.detail)

    def _is_over(self, told: RunTold, run: Run) -> bool:
        if told.is_over and run.end is None:
            _log.warning(
                "a workload names a run that has ended", run=run.run, workload=f"{run.namespace}/{run.name}"
            )
        return told.is_over

    def _job_gone(self, run: Run) -> None:
        present = self._present
        present.jobs.pop(run.uid, None)
        if present.objects.get(run.run) != run.uid:
            return
        del present.objects[run.run]
        told = self._teller.book.runs.get(run.run)
        if told is not None and told.ended is None and not run.being_rebuilt:
            self._end(run, "deleted", None, "")

    def _end(self, run: Run, how: str, at: datetime | None, detail: str) -> None:
        fact = RunEnded(run=run.run, object_uid=run.uid, how=how, detail=detail or None)  # type: ignore[arg-type] # one of three
        self._teller.edge(fact, run.run, run.uid, how, at=at)

    # ------------------------------------------------------------ pods

    def pod_changed(self, difference: Difference) -> None:
        """A pod is new, other, or gone."""
        pod = read_pod(difference.object)
        if difference.new is not None:
            self._present.put_pod(pod)
            self._pod(pod)
            return
        self._present.drop_pod(pod)
        self._pod(pod, gone=True)

    def node_came(self, name: str) -> None:
        """Pods that waited for the node are told."""
        for uid in sorted(self._present.pods_by_node_name.get(name, ())):
            if uid not in self._teller.book.pods:
                self._pod(self._present.pods[uid])

    def _pod(self, pod: Pod, *, gone: bool = False) -> None:
        book = self._teller.book
        if pod.uid not in book.pods and not self._tell_bound(pod):
            return
        told = book.pods[pod.uid]
        if told.ended is None:
            self._tell_eviction(pod, told)
            self._tell_exits(pod, told)
        self._tell_end(pod, told, gone=gone)
        self._place(pod, told)
        if gone:
            book.forget_pod(pod.uid)

    def _tell_bound(self, pod: Pod) -> bool:
        job = self._present.jobs.get(pod.job_uid)
        node = self._present.node_named(pod.node) if pod.node else None
        run = self._teller.book.runs.get(job.run) if job is not None else None
        if job is None or node is None or run is None or run.ended is not None:
            return False
        if pod.ended is not None and not self._is_recent(pod.ended_at):
            return False
        if pod.bound_at is not None and node.made_at is not None and pod.bound_at < node.made_at:
            return False
        self._teller.edge(pod.bound(job.run, node.ref), pod.uid, at=pod.bound_at)
        self._present.place(pod.uid, job.run, node.uid, is_member=True, lives=True)
        self._nodes.tell_notices(node)
        return True

    def _tell_eviction(self, pod: Pod, told: PodTold) -> None:
        if told.evicted:
            return
        run, ref = told.bound.placement.run, told.bound.node
        node = self._present.nodes.get(ref.uid)
        found = eviction(pod, run, ref, node, self._present.workload_of(run))
        if found is not None:
            self._teller.edge(found, pod.uid, found.reason.value, at=pod.disrupted_at)

    def _tell_exits(self, pod: Pod, told: PodTold) -> None:
        agent = self._present.agent_on(pod.node, self._teller.now())
        for found, end in exits(pod, told.bound.placement.run, told.bound.node, told.start, agent):
            if pod.supervised:
                self._teller.container_end(found, pod.uid, end.restarts, at=end.at)
            else:
                self._teller.edge(found, pod.uid, found.start, at=end.at)

    def _tell_end(self, pod: Pod, told: PodTold, *, gone: bool) -> None:
        how = pod.ended or (("deleted" if pod.deleting else "lost") if gone else None)
        if how is None:
            return
        is_news = told.ended is None or (pod.processes_gone and not told.ended.processes_gone)
        if not is_news:
            return
        fact = PodEnded(
            node=told.bound.node,
            placement=told.bound.placement,
            how=how,
            processes_gone=pod.processes_gone,
        )
        at = pod.ended_at if pod.processes_gone else None
        self._teller.edge(fact, pod.uid, how, str(pod.processes_gone), at=at)

    def _place(self, pod: Pod, told: PodTold) -> None:
        run = told.bound.placement.run
        succeeded = told.ended is not None and told.ended.how == "succeeded"
        lives = told.ended is None
        self._present.place(
            pod.uid,
            run,
            told.bound.node.uid,
            is_member=succeeded or (lives and not pod.deleting),
            lives=lives,
        )
        self.tell_issue(run)

    # ------------------------------------------------------------ issues

    def tell_issue(self, run: str) -> None:
        """Tell whether all pods are there, when that changed. Not before everything was listed: what is unlisted is not missing."""
        told, workload = self._teller.book.runs.get(run), self._present.workload_of(run)
        if (
            not self._whole
            or told is None
            or told.ended is not None
            or workload is None
            or workload.suspended
        ):
            return
        missing = max(0, told.seen.size - len(self._present.members.get(run, ())))
        state = IssueState(
            run=run,
            epoch=told.seen.epoch,
            state="incomplete" if missing else "complete",
            missing=missing,
        )
        last = told.issue
        if last is None or (last.epoch, last.state) != (state.epoch, state.state):
            self._teller.state(state, run)

    def missing(self) -> None:
        """Everything was listed: who was told of and is not there any more has ended, nobody saw how."""
        book = self._teller.book
        for uid, told in list(book.pods.items()):
            if uid in self._present.pods:
                continue
            if told.ended is None:
                self._tell_lost(uid, told.bound)
            book.forget_pod(uid)
        for run, known in list(book.runs.items()):
            if known.ended is None and run not in self._present.objects:
                uid = known.seen.object_uid
                fact = RunEnded(run=run, object_uid=uid, how="deleted", detail="vanished while nobody looked")
                self._teller.edge(fact, run, uid, "deleted", at=None)
        self._whole = True
        for run, uid in list(self._present.objects.items()):
            self._tell_end_of(self._present.jobs[uid])
            self.tell_issue(run)

    def _tell_lost(self, uid: str, bound: PodBound) -> None:
        fact = PodEnded(node=bound.node, placement=bound.placement, how="lost", processes_gone=False)
        self._teller.edge(fact, uid, "lost", str(False), at=None)
        self._present.place(uid, bound.placement.run, bound.node.uid, is_member=False, lives=False)

    # ------------------------------------------------------------ again

    def repeat_run(self, run: str) -> None:
        """Tell again how a run stands."""
        told = self._teller.book.runs.get(run)
        if told is None or told.ended is not None:
            return
        self._teller.state(told.seen, run)
        if told.issue is not None and told.issue.epoch == told.seen.epoch:
            self._teller.state(told.issue, run)

    def repeat_pod(self, uid: str) -> None:
        """Tell again, in the same words, where a pod is bound."""
        told, pod = self._teller.book.pods.get(uid), self._present.pods.get(uid)
        run = self._teller.book.runs.get(told.bound.placement.run) if told is not None else None
        if told is None or pod is None or told.ended is not None or run is None or run.ended is not None:
            return
        self._teller.edge(told.bound, uid, at=pod.bound_at)

    def _is_recent(self, at: datetime | None) -> bool:
        return at is not None and self._teller.now() - at <= self._recent


def _is_newer(one: Run, other: Run) -> bool:
    return one.made_at is not None and (other.made_at is None or one.made_at >= other.made_at)
