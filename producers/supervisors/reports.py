"""A supervisor's reports made into signals: pure.

Who and where is the API's word (`OwnPod`), how it went is the supervisor's. (pod, launch) is the identity of a start and of its exit: `launch`
is never set back, MA_PROC_START_CNT may be (A29), and an exit that looked like an earlier one would change nothing. Milestones that are not the
training process's to reach are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from producers.identity import Identity
from producers.observation import Observation
from producers.own_pods import OwnPod, Terminated
from producers.supervisors.line import (
    Boundary,
    Exit,
    Hello,
    Loose,
    Phase,
    PreCheck,
    Refused,
    Report,
    Said,
    Saved,
    Started,
    State,
    Step,
)
from producers.told_ends import LAST_SIGNAL, SIGNALLED, container_end_id
from schemas.signals import (
    Checkpoint,
    Milestone,
    MilestoneName,
    Placement,
    PreCheckItem,
    ProcessExit,
    ProcessState,
    ProcessStateName,
    Progress,
    Signal,
    SignalGap,
)

OLDEST: Final = timedelta(days=7)
"""A report that claims to be older than the topics keep anything is a clock that was wrong."""
HELD: Final = "held"
CHECKING: Final = "checking"
WAITING: Final = "waiting"
_ANSWERS: Final = {"running": ProcessStateName.RUNNING, "stopped": ProcessStateName.STOPPED}
_REACHED: Final = frozenset(
    {
        MilestoneName.CHECKPOINT_LOADED,
        MilestoneName.COMMUNICATION_READY,
        MilestoneName.FIRST_STEP,
        MilestoneName.STABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who speaks, as the kernel and the API have it."""

    pod: OwnPod
    placement: Placement
    spool: str
    """Name of the supervisor's numbering, by its own word: it tells its reports from their repetitions, nothing else."""

    @property
    def key(self) -> str:
        """What numbers are unique in: a pod cannot spend another one's."""
        return f"{self.pod.uid}/{self.spool}"


class Translation:
    """Makes observations of one node's supervisors."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def of_report(self, peer: Peer, report: Report, seq: int, now: datetime) -> tuple[Observation, ...]:
        """What a kept report tells; nothing for states on the way."""
        at, stamped = _time(report, peer.pod, now)
        return tuple(
            Observation(
                self._seen_here(signal),
                self._identity.derive("supervisor", peer.key, seq, place),
                at,
                stamped=stamped,
            )
            for place, signal in enumerate(self._signals(peer, report))
        )

    def of_end(self, pod: OwnPod, container: str, end: Terminated, start: int, now: datetime) -> Observation:
        """What killed a supervisor with its command: the end is the kubelet's word, the number of the start is what the supervisor said last.

        The id is of the container's end, whoever tells it (see `producers.cluster.exits`).
        """
        placement = pod.placement(container=container)
        assert placement is not None  # noqa: S101 - who is of no run is not heard
        number = end.exit_code - SIGNALLED
        signal = ProcessExit(
            placement=placement,
            start=start,
            exit_code=end.exit_code,
            signal=number if 0 < number <= LAST_SIGNAL else None,
            oom=end.oom,
        )
        identity = container_end_id(self._identity.cluster, pod.uid, end.restarts)
        return Observation(self._seen_here(signal), identity, end.at or now, stamped=end.at is not None)

    def of_loose(self, peer: Peer, said: Loose, now: datetime) -> Observation:
        """What is said once: a step, or a refusal."""
        at, stamped = _time(said, peer.pod, now)
        signal: Signal
        if isinstance(said, Step):
            signal = Progress(
                placement=peer.placement,
                step=said.step,
                step_seconds=said.step_seconds,
                attempt=said.attempt,
            )
        else:
            signal = _answer(peer, said, ProcessStateName.REFUSED, said.reason)
        place = said.step if isinstance(said, Step) else said.reason
        identity = self._identity.derive("supervisor", peer.key, said.type, str(said.at), str(place))
        return Observation(self._seen_here(signal), identity, at, stamped=stamped)

    def of_loss(self, peer: Peer, lost: int, before: int, now: datetime) -> Observation:
        """The supervisor had to drop reports: what is missing is said, not hidden."""
        signal = SignalGap(
            node=self._identity.node,
            lost_class="exit",
            lost=lost - before,
            reason=f"the supervisor of pod {peer.pod.namespace}/{peer.pod.name} had no room for its reports",
        )
        return Observation(signal, self._identity.derive("supervisor-lost", peer.key, lost), now)

    def _seen_here(self, signal: Signal) -> Signal:
        return signal.model_copy(update={"node": self._identity.node})

    def _signals(self, peer: Peer, report: Report) -> Iterator[Signal]:
        placement, attempt = peer.placement, report.attempt
        match report:
            case Exit():
                yield ProcessExit(
                    placement=placement,
                    start=max(1, report.launch),
                    exit_code=report.code,
                    signal=report.signal or None,
                    oom=bool(report.oom),
                    ordered_attempt=attempt if report.ordered else None,
                )
            case State():
                if report.state in _ANSWERS:
                    yield _answer(peer, report, _ANSWERS[report.state], "")
            case Started():
                yield _answer(peer, report, ProcessStateName.RUNNING, "")
                yield Milestone(placement=placement, name=MilestoneName.COMMAND_STARTED, attempt=attempt)
            case PreCheck():
                yield PreCheckItem(
                    node=self._identity.node,
                    placement=placement,
                    item=report.item,
                    result=report.result,
                    reason=report.reason[:2000] or None,
                    duration_seconds=report.seconds,
                    devices_granted=report.granted,
                    devices_found=report.found,
                )
            case Boundary():
                if report.name in _REACHED:
                    yield Milestone(placement=placement, name=report.name, attempt=attempt, step=report.step)
            case Phase():
                yield Progress(
                    placement=placement,
                    step=report.step,
                    phase=report.name,
                    phase_edge=report.edge,
                    attempt=attempt,
                )
            case Saved():
                yield _saved(placement, report)


def _saved(placement: Placement, report: Saved) -> Signal:
    if report.tier is None or report.path is None:
        # Where it lies is not said, so nobody can restart from it: it only shows that the run came so far.
        return Progress(placement=placement, step=report.step, attempt=report.attempt)
    return Checkpoint(
        placement=placement,
        edge=report.edge,
        step=report.step,
        tier=report.tier,
        path=report.path,
        manifest_digest=report.manifest_digest,
        contents=report.contents,
    )


def _answer(peer: Peer, said: Said, state: ProcessStateName, detail: str) -> ProcessState:
    return ProcessState(
        placement=peer.placement,
        epoch=max(1, said.epoch),
        attempt=said.attempt,
        state=state,
        start=said.launch,
        detail=detail[:2000] or None,
    )


def _time(said: Said, pod: OwnPod, now: datetime) -> tuple[datetime, bool]:
    """When it was made, by this node's clock, which the pod shares; never later than now, never before its pod."""
    if said.at <= 0:
        return now, False
    at = datetime.fromtimestamp(said.at, UTC)
    if at < now - OLDEST:
        return now, False
    return min(max(at, min(pod.started, now)), now), True


__all__ = ["CHECKING", "HELD", "WAITING", "Hello", "Peer", "Refused", "Translation"]
