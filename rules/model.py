"""The rulebook's document: what people write in YAML, as pydantic models.

These models fix the vocabulary (and the JSON Schema editors complete from); positions, overlays and conditions are
the loader's and the compiler's. Every number a seed fixes stands in `rules/default/`, never here: a default given
here is only "absent means off".
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from rules.symbols import RuleKind
from schemas.commands import StepName

FORMAT: Final = 1

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: object) -> object:
    """`90s`, `1h30m`, `24h`, `2d` to a timedelta; anything else is refused with what would be right."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        text = value.replace(" ", "")
        parts = _DURATION.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            return timedelta(seconds=sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts))
    raise ValueError(
        f"{value!r} is no duration; write a number with its unit, such as 30s, 10m, 24h or 1h30m"
    )


def format_duration(value: timedelta) -> str:
    """Shortest text that `parse_duration` reads back."""
    milliseconds = round(value.total_seconds() * 1000)
    if milliseconds % 1000:
        return f"{milliseconds}ms"
    seconds = milliseconds // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


Duration = Annotated[
    timedelta, BeforeValidator(parse_duration), PlainSerializer(format_duration, return_type=str)
]
Flag = Annotated[bool, Field(strict=True)]
"""true or false; the words yes, no, on, off and the numbers 0, 1 are refused rather than read as one of them."""
Identifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
Prose = Annotated[str, Field(min_length=1, max_length=500)]


class Document(BaseModel):
    """Base: unknown keys are refused, so that a mistyped key never goes unseen."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, use_attribute_docstrings=True
    )


class LadderClass(StrEnum):
    """What follows from a fault (recovery 0)."""

    RECORD = "record"
    SELF_HEAL_WAIT = "self_heal_wait"
    SELF_HEAL_RESET = "self_heal_reset"
    DEFERRED = "deferred"
    ISOLATE = "isolate"


class FaultOrigin(StrEnum):
    """Who caused a fault. Mixed counts as hardware."""

    HARDWARE = "hardware"
    SOFTWARE = "software"
    USER = "user"
    UNKNOWN = "unknown"


class Mode(StrEnum):
    """Whether a rule takes part."""

    OFF = "off"
    SHADOW = "shadow"
    """Judged and recorded, decides nothing."""
    ENFORCE = "enforce"


class CountBy(StrEnum):
    """What an occurrence count is kept by."""

    RUN = "run"
    NODE = "node"
    CHIP = "chip"
    CODE = "code"


class Count(Document):
    """Occurrences in a sliding window, closed at both ends, on event time (recovery 3)."""

    at_least: Annotated[int, Field(strict=True, ge=2, le=1000)]
    within: Duration
    by: Annotated[tuple[CountBy, ...], Field(min_length=1)]
    after_fire: Literal["reset", "slide"] = "reset"
    """`reset`: the window is cleared when it fires. `slide`: it fires again at each further occurrence."""
    mode: Literal["rolling", "strict"] = "rolling"
    """`strict`: another code of the chip in between breaks the row."""
    fold: Duration = timedelta(0)
    """Occurrences this close to the first one are one."""
    from_table: Flag = False
    """Under `escalation: table` the code's own numbers replace `at_least` and `within`, where its row has some."""


class Verb(StrEnum):
    """What a rule can do besides a strategy."""

    RECORD = "record"
    MERGE = "merge"
    """Add to the open incident; plan anew only if what this event alone would need is more than the plan covers."""
    ATTRIBUTE = "attribute"
    """Wait the attribution window before judging how the run ended."""
    HOLD = "hold"
    """On a node: isolate it for this cause."""


class ChainEffect(StrEnum):
    """What a decision does to a chain of restarts in a row."""

    KEEP = "keep"
    ADD = "add"
    RESET = "reset"
    RESET_IF_HARDWARE = "reset_if_hardware"


class Rule(Document):
    """One rule. Rules of a subject stand in order; the first that matches decides."""

    id: Identifier
    title: Prose
    row: Annotated[str, Field(max_length=8)] = ""
    """Row of the ladder it implements."""
    subject: Literal["run", "node"] = "run"
    on: Annotated[tuple[RuleKind, ...], Field(min_length=1)]
    when: str = "true"
    count: Count | None = None
    then: Annotated[tuple[str, ...], Field(min_length=1)]
    """Verbs or strategies in order of preference: the first that is enabled, possible and affordable."""
    otherwise: str = "fail_job"
    """A verb or strategy for when none of `then` is possible or affordable."""
    isolate: Flag = False
    """Hold the event's node for this cause, whatever becomes of the strategy."""
    unconditional_chain: ChainEffect | None = None
    """Overrides what the strategy says of the unconditional chain."""
    keep_off: Flag = False
    """Keep the rebuilt run off the event's node without isolating it (soft exclusion)."""
    cause: Annotated[str, Field(max_length=64)] = ""
    """Result cause for `fail_job` and `release_job`."""
    reason: Prose
    """What people read in the decision."""
    notify: Flag = False
    mode: Mode = Mode.ENFORCE
    trust: Literal["internal", "external"] = "internal"
    """`external`: may act on signals of other systems as well."""
    owner: str = ""
    runbook: str = ""


class StepFailure(Document):
    """What a step's failure leads to."""

    then: Annotated[tuple[str, ...], Field(min_length=1)]
    """Strategies in order, or one of: abnormal_end, barrier, continue, fail_job, stay."""
    isolate: Flag = False
    """Hold the nodes the step failed on. Only `heal_chips` may say so (recovery 1, going down)."""
    cause: str = ""
    unconditional_chain: ChainEffect | None = None


def _read_failure(value: object) -> object:
    if isinstance(value, str):
        return {"then": [value]}
    if isinstance(value, list | tuple):
        return {"then": list(value)}
    return value


Failure = Annotated[StepFailure, BeforeValidator(_read_failure)]


class Step(Document):
    """One step of a strategy: an action with a deadline and what its failure leads to."""

    step: StepName
    timeout: Duration
    grace: Duration | None = None
    look_every: Duration = timedelta(seconds=2)
    on_failure: Failure = StepFailure(then=("fail_job",))
    on_cause: dict[str, Failure] = Field(default_factory=dict)
    """By cause of the failure, before `on_failure`."""
    only_if: Literal["always", "fault_heals", "isolating", "spare_decides"] = "always"
    """`fault_heals`: only when the incident's fault is of a self-heal class; `isolating`: when a node is isolated;
    `spare_decides`: when a node is isolated and `no_spare` says for its class anything but to isolate and wait."""
    arguments: dict[str, Any] = Field(default_factory=dict)


def _read_step(value: object) -> object:
    if isinstance(value, dict) and len(value) == 1 and "step" not in value:
        (name, body), *_ = value.items()
        if body is None or isinstance(body, dict):
            return {"step": name, **(body or {})}
    if isinstance(value, str):
        return {"step": value}
    return value


class Effects(Document):
    """What a strategy does to budgets, chains and counters (recovery 2)."""

    job_retries: Annotated[int, Field(strict=True, ge=0, le=1)] = 0
    pod_retries: Annotated[int, Field(strict=True, ge=0, le=1)] = 0
    unconditional_chain: ChainEffect = ChainEffect.KEEP
    hang_chain: ChainEffect = ChainEffect.KEEP
    new_issue: Flag = False
    """Pods are made anew: MA_SCHEDULE_CNT grows by one when the issue's processes start, MA_PROC_START_CNT is 1."""
    in_place: Flag = False
    """Counts against the limits of in-place recovery per chip and per run."""


class Strategy(Document):
    """An ordered list of steps, with what it needs, covers and costs."""

    id: Identifier
    title: Prose
    enabled: Flag = True
    disabled_because: str = ""
    supervised: Flag = False
    """Needs relight's supervisor in every pod."""
    whole_issue: Flag = False
    """Needs every pod to exist and every node of the run to be Ready."""
    flag: Literal["", "pod_retry"] = ""
    switch: Literal["", "in_place", "isolated_job", "pre_check"] = ""
    """Must stand in `settings.retry_num_implies` (A24); empty: has a flag of its own."""
    covers: tuple[str, ...] = ()
    """Strategies and verbs that are not needed any more while this one is under way."""
    merge_before: StepName | None = None
    """Further faults join until this step begins; after it they begin a new attempt."""
    effects: Effects = Effects()
    phases: tuple[str, ...] = ()
    """Phases of the RTO it has (recovery 8); the others are not applicable."""
    steps: Annotated[tuple[Annotated[Step, BeforeValidator(_read_step)], ...], Field(min_length=1)]


class SoftwareFilter(Document):
    """Same code on several chips of one run in a short time: not counted towards isolation (recovery 3)."""

    chips: Annotated[int, Field(strict=True, ge=0)]
    """0 switches it off."""
    within: Duration
    exempt_scopes: tuple[str, ...]
    memory: Duration
    """How long an occurrence that was kept out is remembered for "came again"."""


class InPlacePerChip(Document):
    """Limit of in-place recoveries per chip, whatever the code."""

    at_most: Annotated[int, Field(strict=True, ge=1)]
    within: Duration


class Stabilising(Document):
    """How long a restarted run has to become stable."""

    at_least: Duration
    times_last: Annotated[float, Field(ge=1)]
    steps: Annotated[int, Field(strict=True, ge=1, le=100)]
    """Steps in a row that must be as fast as before the fault."""
    within: Annotated[float, Field(gt=0, le=1)]
    """How far from the median, as a share of it."""
    of_last: Annotated[int, Field(strict=True, ge=1, le=500)]
    """The median is of the last so many steps before the fault."""


class Barrier(Document):
    """What to do when pods stay silent at a stop or start barrier (design 8)."""

    few_silent: Annotated[int, Field(strict=True, ge=0)]
    """Up to so many silent pods on nodes that are not Ready are a fault of those nodes."""
    hold: Duration
    """How long an incident holds when many are silent or the API is away; then it ends by its shortest safe end."""


class NoSpare(Document):
    """What follows when no spare node is found, by class."""

    self_heal: Literal["stay", "wait", "fail"]
    isolate: Literal["wait", "fail"]


class Settings(Document):
    """Numbers and choices the ladder speaks of. Every one has its row in `rules/default/settings.yaml`."""

    attribution_window: Duration
    attribution_lookback: Duration
    late_correction: Duration
    unplaced_wait: Duration
    healthy_is_progress: Duration
    stabilising: Stabilising
    in_place_per_chip: InPlacePerChip
    in_place_per_run: Annotated[int, Field(strict=True, ge=1)]
    same_step_resumes: Annotated[int, Field(strict=True, ge=1)]
    unconditional_in_a_row: Annotated[int, Field(strict=True, ge=1)]
    unconditional_same_problem_by: Literal["any", "exit_code"]
    hang_in_a_row: Annotated[int, Field(strict=True, ge=1)]
    software_filter: SoftwareFilter
    severity_fallback: dict[Literal["notice", "minor", "major", "critical"], LadderClass]
    escalation: Literal["off", "table"]
    no_spare: NoSpare
    retry_num_implies: tuple[Literal["in_place", "isolated_job", "pre_check"], ...]
    pod_retry_default: Annotated[int, Field(strict=True, ge=0)]
    drain_is: Literal["reschedule", "fail"]
    rank_zero_in_pod_reschedule: Flag
    retained_pod_counter: Literal["continue", "reset"]
    user_class_heal_failed: Literal["isolate", "unconditional"]
    node_grace: Duration
    barrier: Barrier
    api_hold: Duration
    command_patience: Duration
    """How long after its deadline a command may still be obeyed if nothing changed (`not_after`)."""
    stop_margin: Duration
    """An ordered stop ends by itself this long after the plan's remaining deadlines: what a job waits when relight is gone."""
    unfenced_pod: Duration
    """How long a stop waits for a pod that vanished while nobody says that its processes are gone."""
    failed_run_ends_after: Duration
    cells_kept_after_end: Duration
    max_excluded_nodes: Annotated[int, Field(strict=True, ge=1, le=64)]
    hold_retry: Duration
    """How long a node waits before it asks again for an isolation that was blocked or not answered."""
    hold_tries: Annotated[int, Field(strict=True, ge=1)]
    """After so many tries a human is asked."""


class CodeRow(Document):
    """One row of a code table; columns are explained in `rules/default/tables/README.md`."""

    code: str
    namespace: str
    name: str = ""
    class_: LadderClass | None = Field(default=None, alias="class")
    level: str = ""
    origin: FaultOrigin = FaultOrigin.UNKNOWN
    heal: Literal["wait", "reset", "none", ""] = ""
    scope: Literal["chip", "ring", "node", "link", "rack", ""] = ""
    severity: str = ""
    product: str = ""
    repeat: str = ""
    companion_of: str = ""
    release: str = ""
    escalation: str = ""
    notify: Flag = False


class RulebookDocument(Document):
    """A whole rulebook after overlays were merged: what `relight rules release` publishes."""

    format: Literal[1] = FORMAT
    title: str = ""
    settings: Settings
    rules: tuple[Rule, ...]
    strategies: tuple[Strategy, ...]
    codes: tuple[CodeRow, ...] = ()

    @model_validator(mode="after")
    def _names_are_unique(self) -> RulebookDocument:
        for what, names in (
            ("rule", [r.id for r in self.rules]),
            ("strategy", [s.id for s in self.strategies]),
        ):
            twice = [name for name, times in Counter(names).items() if times > 1]
            if twice:
                raise ValueError(f"{what} id {twice[0]!r} stands twice; ids must be unique")
        return self
