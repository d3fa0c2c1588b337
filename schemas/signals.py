"""Signals: what relight's eyes see, one class a kind.

A signal is one observation, stamped at its source with what ran there (`placement`, finding R13). Sources say whether they speak of a
standing state (`asserted`, `cleared`) or of something that happened `once`, such as a kernel-log line (recovery 3).
Facts about runs and nodes stand in `schemas.facts`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, Field

from schemas.envelope import Payload

ShortText = Annotated[str, Field(max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=253)]
LogText = Annotated[str, Field(max_length=2000)]
CodeText = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.:-]+$")]


class NodeRef(Payload):
    """A node: `uid` is its identity, `name` only what people read."""

    uid: Name
    name: Name


class ChipRef(Payload):
    """A chip: `id` is its serial or UUID where there is one, else `index:<n>`; the index moves and is only a label."""

    id: Name
    index: Annotated[int, Field(ge=0)] | None = None
    bus: ShortText | None = None
    unit: ShortText | None = None
    """Reset unit (ring) the chip belongs to; None: the chip alone."""


class Placement(Payload):
    """What ran on the chip or node when the source saw the signal."""

    run: Name
    pod_uid: Name | None = None
    pod: ShortText | None = None
    namespace: ShortText | None = None
    container: ShortText | None = None
    rank: Annotated[int, Field(ge=0)] | None = None
    epoch: Annotated[int, Field(ge=0)] | None = None
    """MA_SCHEDULE_CNT of the pod."""


class FaultState(StrEnum):
    """Edge a source reports. `once` for sources that only see something happen."""

    ASSERTED = "asserted"
    CLEARED = "cleared"
    ONCE = "once"


class Severity(StrEnum):
    """Driver severity (seed 000: notice, minor, major, critical)."""

    NOTICE = "notice"
    MINOR = "minor"
    MAJOR = "major"
    CRITICAL = "critical"


class Signal(Payload):
    """Base of all observations."""

    node: NodeRef | None = None
    placement: Placement | None = None
    clock_offset_seconds: float | None = None
    """Node clock minus broker clock, as last measured; None: not measured."""


class ChipFault(Signal):
    """A chip fault code appeared, went away, or was logged."""

    TYPE: ClassVar[str] = "dev.relight.signal.chip_fault.v1"
    kind: Literal["chip_fault"] = "chip_fault"
    node: NodeRef
    chip: ChipRef
    namespace: CodeText
    """Code table: `ascend`, `xid`, `sxid` or a site's own."""
    code: CodeText
    state: FaultState
    severity: Severity | None = None
    product: ShortText | None = None
    detail: LogText | None = None
    """The line or value it was read from."""


class NodeCondition(Signal):
    """A condition of a node began or ended."""

    TYPE: ClassVar[str] = "dev.relight.signal.node_condition.v1"
    kind: Literal["node_condition"] = "node_condition"
    node: NodeRef
    condition: CodeText
    """Row of the node conditions table, such as `not-ready`."""
    state: FaultState
    severity: Severity | None = None
    detail: LogText | None = None


class ProcessExit(Signal):
    """The user's command ended in one container."""

    TYPE: ClassVar[str] = "dev.relight.signal.process_exit.v1"
    kind: Literal["process_exit"] = "process_exit"
    placement: Placement
    start: Annotated[int, Field(ge=1)]
    """Which start of a process in this pod ended, counted from 1 and never anew (MA_PROC_START_CNT may be reset, A29): (pod, start) is the
    identity of the exit, the same from every reporter."""
    exit_code: Annotated[int, Field(ge=0, le=255)]
    signal: Annotated[int, Field(ge=1, le=64)] | None = None
    oom: bool = False
    ordered_attempt: Annotated[int, Field(ge=0)] | None = None
    """Attempt whose stop order ended it; None: nobody ordered it."""


class ProcessStateName(StrEnum):
    """What a supervisor says of its process."""

    RUNNING = "running"
    STOPPED = "stopped"
    REFUSED = "refused"


class ProcessState(Signal):
    """A supervisor's answer to desired state (epoch, attempt)."""

    TYPE: ClassVar[str] = "dev.relight.signal.process_state.v1"
    kind: Literal["process_state"] = "process_state"
    placement: Placement
    epoch: Annotated[int, Field(ge=1)]
    attempt: Annotated[int, Field(ge=0)]
    state: ProcessStateName
    start: Annotated[int, Field(ge=0)] = 0
    detail: LogText | None = None


class LongPhase(StrEnum):
    """Phases that are long by nature and have their own hang budget (recovery 6)."""

    START_UP = "start_up"
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    COMPILATION = "compilation"


class Progress(Signal):
    """The run moved on: a training step, or the edge of a long phase."""

    TYPE: ClassVar[str] = "dev.relight.signal.progress.v1"
    kind: Literal["progress"] = "progress"
    placement: Placement
    step: Annotated[int, Field(ge=0)] | None = None
    step_seconds: Annotated[float, Field(gt=0)] | None = None
    phase: LongPhase | None = None
    phase_edge: Literal["begin", "end"] | None = None
    attempt: Annotated[int, Field(ge=0)] | None = None


class HangEvidence(Signal):
    """An instance, or all instances, stopped moving or moved again. Flatness is judged at the node: only edges travel."""

    TYPE: ClassVar[str] = "dev.relight.signal.hang.v1"
    kind: Literal["hang"] = "hang"
    placement: Placement
    state: Literal["stalled", "moving"]
    method: ShortText
    """Which rule saw it: `steps` (the node agent's: silence after steps), `io-and-utilisation`, `all-instances`, `node-signal`."""
    last_progress: AwareDatetime
    """t_fault of a hang (recovery 6)."""
    start: Annotated[int, Field(ge=0)] = 0
    """Start of the process that stands still, numbered as `ProcessExit.start`; a second stall of it is a second event. 0: not known."""


class PreCheckItem(Signal):
    """Result of one environment check before the user's command (seed 001, table 3)."""

    TYPE: ClassVar[str] = "dev.relight.signal.pre_check.v1"
    kind: Literal["pre_check"] = "pre_check"
    node: NodeRef
    placement: Placement
    item: ShortText
    result: Literal["passed", "failed", "skipped"]
    reason: LogText | None = None
    duration_seconds: Annotated[float, Field(ge=0)]
    devices_granted: Annotated[int, Field(ge=0)] | None = None
    devices_found: Annotated[int, Field(ge=0)] | None = None


class CheckpointTier(StrEnum):
    """Where a checkpoint lies (seed 002, section 4)."""

    LOCAL = "local"
    REMOTE = "remote"
    ARCHIVE = "archive"


class CheckpointContent(StrEnum):
    """The nine things a lossless restart needs (seed 002, section 3)."""

    MODEL = "model"
    OPTIMIZER = "optimizer"
    LR_SCHEDULER = "lr_scheduler"
    STEP = "step"
    RNG = "rng"
    SAMPLER = "sampler"
    SCALER = "scaler"
    SHARDING = "sharding"
    VERSIONS = "versions"


class Checkpoint(Signal):
    """A rank began or ended saving, or a checkpoint was verified, restored, or found broken."""

    TYPE: ClassVar[str] = "dev.relight.signal.checkpoint.v1"
    kind: Literal["checkpoint"] = "checkpoint"
    placement: Placement
    edge: Literal["begin", "end", "verified", "restored", "broken"]
    step: Annotated[int, Field(ge=0)]
    tier: CheckpointTier
    path: LogText
    manifest_digest: ShortText | None = None
    contents: frozenset[CheckpointContent] = frozenset()
    readable_from: tuple[Name, ...] = ()
    """Node UIDs that can read it; empty: every node."""


class MilestoneName(StrEnum):
    """Boundaries that end a phase of the RTO (seed 002, section 2). One list feeds views, reports and docs (recovery 8)."""

    DETECTED = "detected"
    TERMINATED = "terminated"
    SCHEDULED = "scheduled"
    COMMAND_STARTED = "command_started"
    CHECKPOINT_LOADED = "checkpoint_loaded"
    COMMUNICATION_READY = "communication_ready"
    FIRST_STEP = "first_step"
    STABLE = "stable"


class Milestone(Signal):
    """A run reached a boundary after a restart."""

    TYPE: ClassVar[str] = "dev.relight.signal.milestone.v1"
    kind: Literal["milestone"] = "milestone"
    placement: Placement
    name: MilestoneName
    attempt: Annotated[int, Field(ge=0)] | None = None
    step: Annotated[int, Field(ge=0)] | None = None


class PreemptionNotice(Signal):
    """A node or pod will be taken away at a known time (seed 002, section 7)."""

    TYPE: ClassVar[str] = "dev.relight.signal.preemption_notice.v1"
    kind: Literal["preemption_notice"] = "preemption_notice"
    deadline: AwareDatetime
    by: Literal["cloud", "scheduler", "queue"]


class EvictionReason(StrEnum):
    """Reasons of the pod's DisruptionTarget condition, as Kubernetes writes them."""

    EVICTION_API = "EvictionByEvictionAPI"
    KUBELET = "TerminationByKubelet"
    TAINT_MANAGER = "DeletionByTaintManager"
    POD_GC = "DeletionByPodGC"
    SCHEDULER = "PreemptionByScheduler"
    QUEUE = "PreemptionByQueue"


class Eviction(Signal):
    """A pod of a run was moved off its node."""

    TYPE: ClassVar[str] = "dev.relight.signal.eviction.v1"
    kind: Literal["eviction"] = "eviction"
    node: NodeRef
    placement: Placement
    reason: EvictionReason
    ours: bool = False
    """Our mark was on the pod before the call (finding Q22)."""
    draining: bool = False
    """The node was cordoned by somebody else: a drain."""
    requeued: bool = False
    """A queue puts the workload back by itself."""


class RepairResult(Signal):
    """The node agent's word on a chip repair: one answer a reset unit and attempt."""

    TYPE: ClassVar[str] = "dev.relight.signal.repair_result.v1"
    kind: Literal["repair_result"] = "repair_result"
    node: NodeRef
    unit: Name
    incident: Name
    attempt: Annotated[int, Field(ge=0)]
    result: Literal["healed", "still_faulty", "foreign_process", "no_tokens", "failed", "not_done"]
    """`failed`: what was done to the chip went wrong. `not_done`: nothing was, or nobody can say."""
    codes_left: tuple[CodeText, ...] = ()
    detail: LogText | None = None


class Heartbeat(Signal):
    """A node agent lives: folded, one a minute and node. Changes no cell."""

    TYPE: ClassVar[str] = "dev.relight.signal.heartbeat.v1"
    kind: Literal["heartbeat"] = "heartbeat"
    node: NodeRef
    boot_id: Name
    started_at: AwareDatetime
    sources: tuple[ShortText, ...] = ()
    """Sources that work; a missing one is blind."""
    folded: dict[ShortText, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """Counters since the last heartbeat: lines read, samples scraped, signals spooled."""


class SignalGap(Signal):
    """The agent had to drop signals, or could not read a span of a source: what is missing is said, not hidden."""

    TYPE: ClassVar[str] = "dev.relight.signal.gap.v1"
    kind: Literal["gap"] = "gap"
    node: NodeRef
    lost_class: Literal["fault", "exit", "metric", "unknown"]
    lost: Annotated[int, Field(ge=0)] | None = None
    """How many; None: unknown (a log rotated away unread)."""
    reason: LogText


SIGNALS: tuple[type[Signal], ...] = (
    ChipFault,
    NodeCondition,
    ProcessExit,
    ProcessState,
    Progress,
    HangEvidence,
    PreCheckItem,
    Checkpoint,
    Milestone,
    PreemptionNotice,
    Eviction,
    RepairResult,
    Heartbeat,
    SignalGap,
)

OTHERS_MAY_TELL: tuple[type[Signal], ...] = (
    ChipFault,
    NodeCondition,
    HangEvidence,
    Checkpoint,
    PreemptionNotice,
)
"""What other systems may put on `external-signals.v1`: what they see. How our own processes stand, only our own eyes tell."""
