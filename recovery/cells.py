"""Cells: the small pieces of a subject's state.

What one event costs must not grow with the pods of a job or the faults of the past (design 5), so every list here has a cap and
membership is one cell a pod. A cell that wants to be woken carries `due`. Names of cells are made by the functions at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rules.model import FaultOrigin, LadderClass, Step
from schemas.mailbox import HoldCause
from schemas.records import FaultDomain, IncidentResult, IncidentState
from schemas.signals import ChipRef, NodeRef

EVIDENCE_KEPT: Final = 32
SEEN_KEPT: Final = 16
TARGETS_KEPT: Final = 64
WAITING_KEPT: Final = 16
ASKERS_KEPT: Final = 16
BURST_KEPT: Final = 8
UNBOUND: Final = NodeRef(uid="unbound", name="unbound")
"""Where a pod is whose supervisor was heard before the watcher."""


@dataclass(frozen=True, slots=True)
class OriginCell:
    """Highest origin seen of one source partition: at or below it is a duplicate (design 5, finding Q1)."""

    offset: int
    index: int
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunCell:
    """What the run is: facts of the watcher, and when it ended."""

    run: str
    known: bool = False
    namespace: str = ""
    name: str = ""
    workload: str = ""
    object_uid: str = ""
    size: int = 0
    annotations: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()
    supervised: bool = False
    supported: bool = True
    suspended: bool = False
    suspended_by_others: bool = False
    """Somebody else suspended it, so somebody else resumes it."""
    pods: int = 0
    early_pods: int = 0
    """Pods whose supervisors were heard and that are not known to be bound."""
    incomplete: bool = False
    reports_progress: bool = False
    progress_step: int = -1
    progress_at: datetime | None = None
    let_go: bool = False
    """relight has said that it has nothing to add, or failed the job: the next Failed ends the run."""
    orders: tuple[str, ...] = ()
    """Ids of the last orders of operators that were obeyed."""
    ordered_at: datetime | None = None
    """When the newest of them was given."""
    failed_at: datetime | None = None
    ends_as: str = "failed"
    """How it has ended when nobody rebuilds it."""
    ended: str = ""
    ended_at: datetime | None = None
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class CountersCell:
    """Budgets (life of the run) and chains (in a row) of recovery 2."""

    job_retries_used: int = 0
    pod_retries_used: int = 0
    unconditional_chain: int = 0
    hang_chain: int = 0
    schedule_count: int = 1
    attempts: int = 0
    """Attempts of the run so far: a supervisor refuses a lower one, so they never start anew (design 8)."""
    running: int = 0
    """Attempt that the processes say they belong to: the last that restarted them. 0: pods that were given no order."""
    in_place_since_progress: int = 0
    same_step_resumes: int = 0
    last_resume_step: int = -1
    furthest_step: int = -1
    awaiting_first_step: bool = False
    last_restart_at: datetime | None = None
    charged_at: datetime | None = None
    """When a strategy last took its cost: steps of before then are no progress since."""
    seconds_to_stable: float = 0.0
    last_end_code: int = 0
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class PaceCell:
    """How long the steps of the run's lowest rank took: before the fault, and since the restart."""

    rank: int
    before: tuple[float, ...] = ()
    since: tuple[float, ...] = ()
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class PodCell:
    """One pod of the run: where it is and what its supervisor last said."""

    node: NodeRef
    rank: int = -1
    epoch: int = 0
    stopped_attempt: int = -1
    running_attempt: int = -1
    last_exit_start: int = 0
    running_start: int = 0
    """Start of the process its supervisor last started; signals of an earlier one are old news."""
    still: int = 0
    """Start of the process that was told to stand still and not to move again; 0: none."""
    unfenced: bool = False
    """Its object vanished and nobody has said that its processes are gone: they may still run."""
    due: datetime | None = None

    @property
    def bound(self) -> bool:
        """The watcher has said where it is."""
        return self.node != UNBOUND


@dataclass(frozen=True, slots=True)
class FaultCell:
    """One (chip or node, code): is it standing, and which events of it were seen."""

    standing: bool = False
    asserted_at: datetime | None = None
    last_at: datetime | None = None
    seen: tuple[str, ...] = ()
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class WindowCell:
    """Occurrences of one key in one counted rule's window, sorted by event time."""

    times: tuple[datetime, ...] = ()
    anchor: datetime | None = None
    """Occurrence that fired last: what folds into it is no occurrence of the cleared window either."""
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class ChipCell:
    """In-place recoveries of one chip, and the code it had last (for `mode: strict`)."""

    in_place_at: tuple[datetime, ...] = ()
    all_user: bool = True
    last_code: str = ""
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class BurstItem:
    """One recent occurrence of a code in the run."""

    at: datetime
    place: str
    """`node/chip`."""
    windows: tuple[str, ...]
    """Names of the windows it was counted in, to take it out again."""


@dataclass(frozen=True, slots=True)
class BurstCell:
    """Recent occurrences of one code over the chips of the run (software filter)."""

    items: tuple[BurstItem, ...] = ()
    filtered_at: datetime | None = None
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """A fault that could explain an abnormal end."""

    event: str
    at: datetime
    namespace: str
    code: str
    ladder_class: LadderClass
    origin: FaultOrigin
    node: NodeRef
    chip: ChipRef | None
    epoch: int
    standing: bool = False
    handled: bool = False
    filtered: bool = False
    """Looks like software: it came on several chips of the run at once."""


@dataclass(frozen=True, slots=True)
class EvidenceCell:
    """Faults of the present issue that may explain an abnormal end."""

    items: tuple[EvidenceItem, ...] = ()
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class CheckCell:
    """Node on which an environment check failed last."""

    node_uid: str
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class WaitingCell:
    """Encoded events that wait for the run's first fact, for what ran there, or for a companion fault."""

    events: tuple[str, ...] = ()
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class PauseCell:
    """An operator froze the clock of this subject's incident."""

    since: datetime
    by: str
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class GapCell:
    """Messages of this mailbox were lost; what was known before is to be revalidated."""

    since: datetime
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class NoticeCell:
    """People were told of this; until it is forgotten they are told again only in another incident."""

    name: str
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class ChipTarget:
    """A chip to heal."""

    node: NodeRef
    chip: ChipRef
    namespace: str
    code: str
    heal: str
    user: bool


@dataclass(frozen=True, slots=True)
class HoldTarget:
    """A node to be held for a cause, and what it answered."""

    node: NodeRef
    cause: HoldCause
    state: str = "wanted"
    """wanted, asked, held, blocked, refused."""
    answer: str = ""
    rule: str = ""
    """The rule that wants it, and why: one merged into an incident has its own, not the incident's."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Charge:
    """What an attempt took from budgets and chains, so that it can be given back."""

    job_retries: int = 0
    pod_retries: int = 0
    chain_before: int = 0
    hang_before: int = 0
    chain_added: bool = False
    in_place: int = 0


@dataclass(frozen=True, slots=True)
class IncidentCell:
    """The open recovery of a run, or the one just closed (kept for a late correction)."""

    id: str
    state: IncidentState
    opened_at: datetime
    fault_time: datetime
    trigger: str
    domain: FaultDomain
    rulebook: str
    rule: str = ""
    reason: str = ""
    heals: bool = False
    """The fault that began it is of a self-heal class."""
    user: bool = False
    """All faults of it are user class."""
    attempt: int = 0
    epoch: int = 0
    """MA_SCHEDULE_CNT when the attempt began."""
    resumed: int = 0
    """Epoch that a resume of this incident has begun to start: the job is there, or at the one before."""
    strategy: str = ""
    covers: tuple[str, ...] = ()
    merge_before: str = ""
    steps: tuple[Step, ...] = ()
    index: int = 0
    begun: bool = False
    answered: bool = False
    """The step under way is over: its actuator said how it ended, or the world showed it."""
    look: int = 0
    look_at: datetime | None = None
    deadline: datetime | None = None
    held_since: datetime | None = None
    """Since when a barrier or the API holds it up."""
    unreachable: bool = False
    heard_at: datetime | None = None
    """When an actuator last said anything of the step under way: from its silence nothing is concluded."""
    touched: bool = False
    """An attempt before this one stopped processes or suspended the job, and nothing started them since."""
    started_at: datetime | None = None
    """When the step that starts the processes was begun; none in a plan that has not come to it."""
    stable_at: datetime | None = None
    """When the run said that it is stable, while that step was not answered yet."""
    acted: bool = False
    """The step under way may have had an effect: its actuator goes on with it, wrote something, or could not reach the API."""
    told: int = -1
    reported: int = 0
    chips: tuple[ChipTarget, ...] = ()
    holds: tuple[HoldTarget, ...] = ()
    excluded: tuple[NodeRef, ...] = ()
    new_issue: bool = False
    healed: bool = False
    evicted: bool = False
    preempted: bool = False
    exit_code: int = 0
    exit_signal: int = 0
    oom: bool = False
    hang: bool = False
    """Nothing but processes that stood still has led to the attempt under way, and none before it is left unfinished."""
    merged: int = 0
    charge: Charge = Charge()
    decided_at: datetime | None = None
    cause: str = ""
    result: IncidentResult | None = None
    closed_at: datetime | None = None
    due: datetime | None = None

    @property
    def open(self) -> bool:
        """Anything but closed."""
        return self.state is not IncidentState.CLOSED

    @property
    def step(self) -> Step | None:
        """The step under way; None past the last one or before the first plan."""
        return self.steps[self.index] if self.index < len(self.steps) else None


@dataclass(frozen=True, slots=True)
class NodeCell:
    """What the node is."""

    node: NodeRef
    known: bool = False
    ready: bool = True
    cordoned: bool = False
    our_taint: bool = False
    protected: bool = False
    gone: bool = False
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class BoundCell:
    """A pod that lives, or lived within the last 24 h, on this node."""

    run: str
    pod_uid: str
    since: datetime
    until: datetime | None = None
    chips: tuple[str, ...] = ()
    epoch: int = 0
    rank: int = -1
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class ConditionCell:
    """A condition of the node that stands, and whether its runs were told."""

    since: datetime
    event: str
    """Encoded where it isolates, for it is judged, and told to who comes later; else its id."""
    isolates: bool = False
    told: bool = False
    detail: str = ""
    severity: str = ""
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class Asker:
    """A run that asked for a hold and wants an answer."""

    run: str
    incident: str
    attempt: int


@dataclass(frozen=True, slots=True)
class HoldCell:
    """A cause for which the node is isolated: outlives the incident, ends by release (recovery 5)."""

    cause: HoldCause
    since: datetime
    rule: str
    reason: str
    state: str = "wanted"
    """wanted, held, blocked, given_up."""
    askers: tuple[Asker, ...] = ()
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class IsolationCell:
    """The command that brings the node's isolation in line with its holds."""

    wish: str
    """isolate or release."""
    sequence: int
    command: str
    deadline: datetime
    look: int = 0
    tries: int = 0
    pending: bool = True
    due: datetime | None = None


AnyCell = (
    OriginCell
    | RunCell
    | CountersCell
    | PaceCell
    | PodCell
    | FaultCell
    | WindowCell
    | ChipCell
    | BurstCell
    | EvidenceCell
    | CheckCell
    | WaitingCell
    | PauseCell
    | GapCell
    | NoticeCell
    | IncidentCell
    | NodeCell
    | BoundCell
    | ConditionCell
    | HoldCell
    | IsolationCell
)

RUN_CELL: Final = "run"
COUNTERS_CELL: Final = "counters"
PACE_CELL: Final = "pace"
INCIDENT_CELL: Final = "incident"
EVIDENCE_CELL: Final = "evidence"
NODE_CELL: Final = "node"
ISOLATION_CELL: Final = "isolation"
WAITING_CELL: Final = "waiting"
PAUSE_CELL: Final = "pause"
GAP_CELL: Final = "gap"


def origin_name(stage: str, partition: int) -> str:
    """Name of the cell that keeps the highest origin of a source partition."""
    return f"origin/{stage}/{partition}"


def pod_name(pod_uid: str) -> str:
    """Name of a pod's cell in its run."""
    return f"pod/{pod_uid}"


def exit_name(pod_uid: str) -> str:
    """Name of the cell that keeps, past a pod's end, which of its exits was heard of."""
    return f"exit/{pod_uid}"


def place_name(node_uid: str, chip: str | None) -> str:
    """`node/chip`, or `node/-` for the node itself."""
    return f"{node_uid}/{chip or '-'}"


def fault_name(place: str, namespace: str, code: str) -> str:
    """Name of the cell of a fault at a place."""
    return f"fault/{place}/{namespace}/{code}"


def chip_name(place: str) -> str:
    """Name of a chip's cell."""
    return f"chip/{place}"


def burst_name(namespace: str, code: str) -> str:
    """Name of a code's cell for the software filter."""
    return f"burst/{namespace}/{code}"


def bound_name(pod_uid: str) -> str:
    """Name of a pod's cell in its node."""
    return f"bound/{pod_uid}"


def condition_name(condition: str) -> str:
    """Name of a standing condition's cell."""
    return f"condition/{condition}"


def hold_name(cause: HoldCause) -> str:
    """Name of a hold's cell: chip or condition, and code."""
    return f"hold/{cause.namespace}/{cause.code}/{cause.chip.id if cause.chip else '-'}"
