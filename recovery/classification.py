"""From a code to what the ladder knows of it: table first, driver severity second, unknown last (recovery 0, 4)."""

from __future__ import annotations

from dataclasses import dataclass

from rules.compiled import CompiledRulebook
from rules.escalation import Repeat
from rules.model import CodeRow, FaultOrigin, LadderClass
from rules.symbols import FaultSymbols
from schemas.envelope import Event, TimeQuality
from schemas.mailbox import NodeNews
from schemas.records import FaultDomain
from schemas.signals import ChipFault, ChipRef, NodeCondition, NodeRef

NODE_NAMESPACE = "node"
_SELF_HEAL = frozenset({LadderClass.SELF_HEAL_RESET, LadderClass.SELF_HEAL_WAIT})
_NETWORK_SCOPES = frozenset({"link", "rack"})


@dataclass(frozen=True, slots=True)
class Fault:
    """One report of a fault, of a chip or of a node, with what the tables say of it."""

    event: Event
    node: NodeRef
    chip: ChipRef | None
    namespace: str
    code: str
    state: str
    ladder_class: LadderClass | None
    row: CodeRow | None
    severity: str
    detail: str
    repeat: Repeat | None = None
    """Repeat rule of its own table, under `escalation: table`."""

    @property
    def evidence(self) -> str:
        """Id of the observation itself, the same in every mailbox it reaches."""
        data = self.event.data
        return data.evidence if isinstance(data, NodeNews) else self.event.id

    @property
    def epoch(self) -> int | None:
        """MA_SCHEDULE_CNT of the pods it was seen under; None where the source does not know."""
        placement = getattr(self.event.data, "placement", None)
        return placement.epoch if placement is not None else None

    @property
    def self_heals(self) -> bool:
        """Restarting the processes, with or without a reset, can cure it."""
        return self.ladder_class in _SELF_HEAL

    @property
    def acts(self) -> bool:
        """Its class calls for an action now."""
        return self.self_heals or self.ladder_class is LadderClass.ISOLATE

    @property
    def origin(self) -> FaultOrigin:
        """Who caused it."""
        return self.row.origin if self.row else FaultOrigin.UNKNOWN

    @property
    def user(self) -> bool:
        """Plain user class: only 80C98002 and 80CB8002 in seed 000."""
        return self.origin is FaultOrigin.USER

    @property
    def scope(self) -> str:
        """How far it reaches: chip, ring, node, link, rack."""
        if self.row and self.row.scope:
            return self.row.scope
        return "chip" if self.chip else "node"

    @property
    def heal(self) -> str:
        """How it heals: wait or reset."""
        if self.row and self.row.heal in {"wait", "reset"}:
            return self.row.heal
        return "wait" if self.ladder_class is LadderClass.SELF_HEAL_WAIT else "reset"

    @property
    def domain(self) -> FaultDomain:
        """Fault domain of decisions about it (seed 002, section 1)."""
        return FaultDomain.NETWORK if self.scope in _NETWORK_SCOPES else FaultDomain.NODE

    @property
    def clamped(self) -> bool:
        """Its time was implausible and replaced: never counted."""
        return self.event.timequality is TimeQuality.CLAMPED

    def symbols(self, *, filtered: bool = False, filtered_again: bool = False) -> FaultSymbols:
        """The `fault` group of conditions."""
        return FaultSymbols(
            code=self.code,
            namespace=self.namespace,
            class_=self.ladder_class.value if self.ladder_class else "none",
            level=self.row.level if self.row else "",
            origin=self.origin.value,
            scope=self.scope,
            severity=self.severity,
            known=self.row is not None,
            self_heals=self.self_heals,
            acts=self.acts,
            on_chip=self.chip is not None,
            counted=not self.clamped and not filtered and (self.row is None or self.row.repeat != "never"),
            filtered=filtered,
            filtered_again=filtered_again,
            escalates_to=self.repeat.ladder_class.value if self.repeat else "none",
            trust=self.event.trust.value,
            state=self.state,
        )


def read_fault(event: Event, rulebook: CompiledRulebook) -> Fault:
    """Classify a chip fault, a node condition, or the news of either."""
    data = event.data
    if isinstance(data, ChipFault):
        place: tuple[NodeRef, ChipRef | None, str, str] = (data.node, data.chip, data.namespace, data.code)
    elif isinstance(data, NodeCondition):
        place = (data.node, None, NODE_NAMESPACE, data.condition)
    elif isinstance(data, NodeNews):
        place = (data.node, data.chip, data.namespace, data.code)
    else:
        raise TypeError(f"a {type(data).__name__} is no report of a fault")
    node, chip, namespace, code = place
    severity = str(
        data.severity.value if isinstance(data, ChipFault | NodeCondition) and data.severity else ""
    )
    if isinstance(data, NodeNews):
        severity = data.severity or ""
    row = rulebook.row(namespace, code)
    return Fault(
        event=event,
        node=node,
        chip=chip,
        namespace=namespace,
        code=code,
        state=str(data.state),
        ladder_class=_ladder_class(row, severity, rulebook),
        row=row,
        severity=severity,
        detail=data.detail or "",
        repeat=rulebook.repeat(namespace, code),
    )


def _ladder_class(row: CodeRow | None, severity: str, rulebook: CompiledRulebook) -> LadderClass | None:
    if row is not None and row.class_ is not None:
        return row.class_
    if severity:
        return rulebook.settings.severity_fallback.get(severity)  # type: ignore[call-overload, no-any-return]
    return None
