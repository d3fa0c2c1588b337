"""What a rule's condition can speak of: every symbol, its type and meaning.

A condition such as `fault.class == "isolate" and run.ha` reads attributes of these groups. The checker types
conditions by the annotations here and refuses a group that does not exist for the rule's `on:` kinds; `recovery`
fills the groups in. `class` is a Python keyword, so the field is `class_` and rule authors write `class`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class RuleKind(StrEnum):
    """What a rule can be `on`."""

    CHIP_FAULT = "chip_fault"
    NODE_FAULT = "node_fault"
    """A condition of the node, beyond its grace; on a run: the news of it."""
    PROCESS_EXIT = "process_exit"
    RUN_FAILED = "run_failed"
    """The workload object became Failed by itself."""
    ABNORMAL_END = "abnormal_end"
    """The attribution window of an exit, failure or eviction is over."""
    HANG = "hang"
    PRE_CHECK_FAILED = "pre_check_failed"
    PREEMPTION = "preemption"
    EVICTION = "eviction"


@dataclass(frozen=True, slots=True)
class FaultSymbols:
    """`fault`: the chip fault or node condition."""

    code: str = ""
    namespace: str = ""
    class_: str = "none"
    """Ladder class: record, self_heal_wait, self_heal_reset, deferred, isolate; `none` where nobody knows."""
    level: str = ""
    origin: str = "unknown"
    scope: str = ""
    severity: str = ""
    known: bool = False
    """The code has a row in a table."""
    self_heals: bool = False
    acts: bool = False
    """Its class calls for an action now: self-heal or isolate."""
    on_chip: bool = False
    counted: bool = True
    """False: flagged by clock, kept out by the software filter, or a companion of another fault."""
    filtered: bool = False
    """The software filter kept this occurrence out of the count."""
    filtered_again: bool = False
    """The software filter kept out an occurrence of this code in this run before, within its memory (24 h)."""
    escalates_to: str = "none"
    """Class that repeating makes of it by its own table, under `escalation: table`; `none` without, and where its row says nothing."""
    trust: str = "internal"
    state: str = "once"


@dataclass(frozen=True, slots=True)
class ExitSymbols:
    """`exit`: how a process, or the run, ended."""

    code: int = 0
    signal: int = 0
    oom: bool = False
    evicted: bool = False
    preempted: bool = False


@dataclass(frozen=True, slots=True)
class FoundSymbols:
    """`found`: unhandled faults that stand on the run's chips and nodes, or came within the lookback, when it ended."""

    isolate: bool = False
    deferred: bool = False
    hardware: bool = False
    """A self-heal class fault of hardware origin."""
    user: bool = False
    """Only user class faults."""


@dataclass(frozen=True, slots=True)
class HangSymbols:
    """`hang`: which rule saw the stall."""

    method: str = ""


@dataclass(frozen=True, slots=True)
class CheckSymbols:
    """`check`: the failed environment check."""

    item: str = ""
    devices_missing: bool = False
    failed_elsewhere: bool = False
    """The same item failed on another node of this run before."""


@dataclass(frozen=True, slots=True)
class EvictionSymbols:
    """`eviction`: why a pod was moved off."""

    reason: str = ""
    ours: bool = False
    draining: bool = False
    requeued: bool = False


@dataclass(frozen=True, slots=True)
class RunSymbols:
    """`run`: the job run."""

    known: bool = False
    ha: bool = False
    """`fault-tolerance/job-retry-num` is 1 or more."""
    unconditional: bool = False
    hang_retry: bool = False
    budget_left: int = 0
    pod_budget_left: int = 0
    supervised: bool = False
    supported: bool = True
    all_pods: bool = False
    nodes_ready: bool = True
    in_place_since_progress: int = 0
    same_step_resumes: int = 0


@dataclass(frozen=True, slots=True)
class ChainSymbols:
    """`chain`: restarts in a row."""

    unconditional: int = 0
    hang: int = 0


@dataclass(frozen=True, slots=True)
class ChipSymbols:
    """`chip`: the chip of the fault."""

    in_place_count: int = 0
    """In-place recoveries for this chip within the limit's window, whatever the code."""
    all_user: bool = True
    """All of them, and this fault, were user class."""


@dataclass(frozen=True, slots=True)
class IncidentSymbols:
    """`incident`: the run's open incident."""

    open: bool = False
    attributing: bool = False
    acting: bool = False
    stabilising: bool = False


@dataclass(frozen=True, slots=True)
class NodeSymbols:
    """`node`: the node, for rules with `subject: node`."""

    known: bool = False
    ready: bool = True
    held: bool = False
    protected: bool = False
    occupied: bool = False
    """Runs live on it."""


@dataclass(frozen=True, slots=True)
class LimitSymbols:
    """`limits`: numbers of the rulebook's settings."""

    in_place_per_chip: int = 0
    in_place_per_run: int = 0
    same_step_resumes: int = 0
    unconditional_in_a_row: int = 0
    hang_in_a_row: int = 0
    drain_is_reschedule: bool = True


@dataclass(frozen=True, slots=True)
class Symbols:
    """All groups; those that do not apply to a kind keep their neutral values and cannot be named in its rules."""

    fault: FaultSymbols = field(default_factory=FaultSymbols)
    exit: ExitSymbols = field(default_factory=ExitSymbols)
    found: FoundSymbols = field(default_factory=FoundSymbols)
    hang: HangSymbols = field(default_factory=HangSymbols)
    check: CheckSymbols = field(default_factory=CheckSymbols)
    eviction: EvictionSymbols = field(default_factory=EvictionSymbols)
    run: RunSymbols = field(default_factory=RunSymbols)
    chain: ChainSymbols = field(default_factory=ChainSymbols)
    chip: ChipSymbols = field(default_factory=ChipSymbols)
    incident: IncidentSymbols = field(default_factory=IncidentSymbols)
    node: NodeSymbols = field(default_factory=NodeSymbols)
    limits: LimitSymbols = field(default_factory=LimitSymbols)


_RUN_GROUPS: Final = frozenset({"run", "chain", "incident", "limits"})

GROUPS_OF_RUN_RULES: Final[dict[RuleKind, frozenset[str]]] = {
    RuleKind.CHIP_FAULT: _RUN_GROUPS | {"fault", "chip"},
    RuleKind.NODE_FAULT: _RUN_GROUPS | {"fault"},
    RuleKind.PROCESS_EXIT: _RUN_GROUPS | {"exit"},
    RuleKind.RUN_FAILED: _RUN_GROUPS | {"exit"},
    RuleKind.ABNORMAL_END: _RUN_GROUPS | {"exit", "found"},
    RuleKind.HANG: _RUN_GROUPS | {"hang", "found"},
    RuleKind.PRE_CHECK_FAILED: _RUN_GROUPS | {"check", "found"},
    RuleKind.PREEMPTION: _RUN_GROUPS,
    RuleKind.EVICTION: _RUN_GROUPS | {"eviction"},
}
"""Groups a rule with `subject: run` may name, by kind; a rule on several kinds may name what all of them have."""

GROUPS_OF_NODE_RULES: Final[dict[RuleKind, frozenset[str]]] = {
    RuleKind.CHIP_FAULT: frozenset({"fault", "node", "limits"}),
    RuleKind.NODE_FAULT: frozenset({"fault", "node", "limits"}),
}
