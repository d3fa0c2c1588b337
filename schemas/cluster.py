"""What relight writes on objects of the cluster, once: names of annotations, desired state of a pod, a repair order and its answer.

Three parts speak through these: actuators write desired state and repair orders, the node agent reads them and answers, the watcher reads
who is supervised. Values are small JSON, level-triggered: whoever starts late reads them from a list and is as wise as who saw every edge.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from schemas.errors import DecodeError
from schemas.ids import derive_id
from schemas.signals import CodeText, Name, ShortText

RUN: Final = "relight.dev/run"
"""On a workload and its pod template: the run a rebuilt object belongs to. Absent: the object's own UID is the run."""
EPOCH: Final = "relight.dev/epoch"
"""On a workload and its pod template: MA_SCHEDULE_CNT of the present issue. Absent: 1."""
RETRIES_USED: Final = "relight.dev/job-retries-used"
"""On a workload: mirror of the run's budget, written when it is resumed; read only when its own counters are lost (finding Q35)."""
POD_RETRIES_USED: Final = "relight.dev/pod-retries-used"
"""The same of the pod budget."""
ATTEMPT: Final = "relight.dev/attempt"
"""On a workload: the latest attempt that suspended it. A resume of an older one is old news, however late it is carried out."""
SUSPENDED_UNTIL: Final = "relight.dev/suspended-until"
"""On a workload we suspended: nobody of relight is at it any more after this, and whoever comes may resume it (`relight let-go`)."""
LET_GO: Final = "relight.dev/let-go"
"""On a workload: the attempt whose suspension `relight let-go` ended. What that attempt still wants of the job is over."""
INJECTED: Final = "relight.dev/injected"
"""On a pod template: the version of the injection. Pods that carry it are supervised."""
DESIRED: Final = "relight.dev/desired"
"""On a pod: what its supervisor should do."""
EVICTED_FOR: Final = "relight.dev/evicted-for"
"""On a pod: our mark, set before we evict or delete it (finding Q22)."""
REPAIR: Final = "repair.relight.dev/"
"""Prefix on a node, one annotation a reset unit: the order (finding Q26)."""
REPAIRED: Final = "repaired.relight.dev/"
"""Prefix on a node, one annotation a reset unit: the agent's answer."""
HOLD: Final = "hold.relight.dev/"
"""Prefix on a node: mirrors of the holds of its mailbox."""
ISOLATED: Final = "relight.dev/isolated"
"""Key of our NoSchedule taint, and of the annotation that says that the cordon is ours."""
ISOLATION_ORDER: Final = "relight.dev/isolation-order"
"""On a node: number and name of the command that isolated or released it last; it stays. An earlier one carried out late changes nothing."""
JOB_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
"""What the Job controller writes on each pod: the run, where no annotation says otherwise."""
RANK_LABEL: Final = "batch.kubernetes.io/job-completion-index"
"""What the Job controller writes on each pod of an Indexed Job."""
FIELD_MANAGER: Final = "relight"
"""Field manager of everything we write; a human's has another one."""
LONGEST_NAME: Final = 253
"""Of an object, as Kubernetes has it."""
LARGEST_DESIRED: Final = 512
"""Bytes: 1,250 pods are patched at once (design 8, finding Q44)."""
_KEY: Final = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")


class ProcessOrder(StrEnum):
    """What a supervisor is asked for. In one attempt stop comes before run, and release is last."""

    STOP = "stop"
    RUN = "run"
    RELEASE = "release"


class Small(BaseModel):
    """Base of what stands in an annotation: frozen; unknown fields of a newer release are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    def to_text(self) -> str:
        """Compact JSON, absent fields left out, the same bytes for the same value."""
        return self.model_dump_json(exclude_none=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Raises DecodeError with what is wrong."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "value"
            raise DecodeError(
                f"{cls.__name__}: {place}: {first['msg']} (got {first['input']!r:.100})"
            ) from None


class Desired(Small):
    """Desired state of a pod's processes (design 8), under 512 bytes."""

    epoch: Annotated[int, Field(ge=1)]
    attempt: Annotated[int, Field(ge=0)]
    state: ProcessOrder
    until: AwareDatetime | None = None
    """Stop only: when the order ends by itself."""
    otherwise: Literal["rerun", "exit"] = "exit"
    """Stop only: what the supervisor does at `until`: `rerun` when all pods stay, `exit` when peers change."""
    grace: Annotated[float, Field(ge=0, le=600)] = 30.0
    """Seconds between TERM and KILL."""
    counter: Literal["continue", "reset"] = "continue"
    """Run only: MA_PROC_START_CNT of a retained pod (A29)."""
    command: ShortText = ""
    """Command that wrote it, for the audit trail."""

    def rank(self) -> tuple[int, int, int]:
        """Order of orders: a lower one never replaces a higher one."""
        return (self.epoch, self.attempt, tuple(ProcessOrder).index(self.state))


class RepairOrder(Small):
    """Repair this reset unit, if no foreign process uses it."""

    unit: Name
    chips: tuple[Name, ...]
    codes: tuple[CodeText, ...] = ()
    """`namespace:code` of the faults to be gone afterwards."""
    incident: Name
    attempt: Annotated[int, Field(ge=0)]
    command: ShortText = ""
    run: Name
    """Whose processes are known stopped; any other process on the unit is foreign."""
    heal: ShortText = "reset"
    """How the code table says it heals."""
    until: AwareDatetime
    """Past this the agent does not begin."""
    over_by: AwareDatetime | None = None
    """By then a reset is over, or killed: the stop of the run's processes ends there by itself, and they run again."""


class RepairAnswer(Small):
    """What became of a repair: one answer a unit, incident and attempt. Readers of an older release take a result they do not know for none."""

    unit: Name
    incident: Name
    attempt: Annotated[int, Field(ge=0)]
    result: Literal[
        "under_way", "healed", "still_faulty", "foreign_process", "no_tokens", "failed", "not_done"
    ]
    """`failed`: what was done to the chip went wrong. `not_done`: nothing was, or nobody can say; that is no reason to isolate its node."""
    codes_left: tuple[CodeText, ...] = ()
    detail: ShortText | None = None


def agent_lease(node: str) -> str:
    """Name of the Lease by which a node's agent is heard."""
    name = f"relight-agent-{node}"
    return name if len(name) <= LONGEST_NAME else f"relight-agent-{derive_id('agent', node)}"


def unit_key(prefix: str, unit: str) -> str:
    """Annotation of a reset unit: its name where Kubernetes takes it, else a hash; the value names the unit."""
    return prefix + (unit if _KEY.match(unit) else derive_id("unit", unit))
