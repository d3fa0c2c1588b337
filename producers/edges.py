"""From scrapes to edges: what stands is told once, when it begins and when it ends (recovery 3).

Guarantees:
- A code that stands is asserted once, however often it is scraped, and across restarts: the state goes to disk with the signals.
- It is cleared only by a scrape that still shows its chip without it. A failed scrape clears nothing, a chip that vanished is not well, and when
  all slots of a chip are taken a code that is missing may only have been pushed out.
- Every edge has a number of its own, from which its id is derived: asserted, cleared and asserted again are three events.

Pure: no clock, no I/O.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from producers.chips import plain_bus
from producers.errors import ScrapeFailed
from producers.exposition import Sample
from producers.identity import Identity
from producers.mapping import ChipLabels, Codes, LastCode, Mapping, Rate, Status
from producers.observation import Observation, State
from producers.rates import Rates
from schemas.signals import ChipFault, ChipRef, FaultState

CHIPS_LIMIT: Final = 1024
STANDING_KEPT: Final = 4096
"""Standing codes remembered, those of chips that are gone included; the oldest are forgotten first."""

HEXADECIMAL_DIGITS: Final = 8

Key = tuple[str, str, str]
"""Row's kind, chip, `namespace/code`."""


@dataclass(slots=True)
class _Chip:
    """A chip of one scrape: who it is, and its samples by series."""

    ref: ChipRef
    product: str | None
    samples: defaultdict[str, list[Sample]]

    def of(self, series: Iterable[str]) -> list[Sample]:
        return [sample for name in series for sample in self.samples.get(name, ())]


class Edges:
    """Edges of one exporter on one node."""

    def __init__(self, identity: Identity, mapping: Mapping, switched_on: Collection[str] = ()) -> None:
        """`switched_on`: sources that are read beside this one; rows that yield to one of them are silent."""
        self._identity = identity
        self._mapping = mapping
        self._rows = [row for row in mapping.signals if row.unless is None or row.unless not in switched_on]
        self._edge = 0
        self._standing: dict[Key, None] = {}
        self._was_good: dict[Key, None] = {}
        self._last: dict[str, str] = {}
        self._rates = Rates()

    def restore(self, state: State | None) -> None:
        """Go on from a state; None: nothing is known."""
        kept = state or {}
        self._edge = int(kept.get("edge", 0))
        self._standing = dict.fromkeys(_key(item) for item in kept.get("standing", ()))
        self._was_good = dict.fromkeys(_key(item) for item in kept.get("good", ()))
        self._last = dict(kept.get("last", {}))
        self._rates = Rates()

    def state(self) -> dict[str, Any]:
        """What must outlive a restart."""
        return {
            "edge": self._edge,
            "standing": [list(key) for key in self._standing],
            "good": [list(key) for key in self._was_good],
            "last": dict(self._last),
        }

    def observe(self, samples: Iterable[Sample], at: datetime) -> list[Observation]:
        """Edges between the last scrape and this one, taken at `at`.

        Raises ScrapeFailed, and changes nothing, when the scrape cannot be of one node.
        """
        found: list[Observation] = []
        for chip in _chips(samples, self._mapping.chip).values():
            for row in self._rows:
                match row:
                    case Codes():
                        found += self._codes(row, chip, at)
                    case LastCode():
                        found += self._last_code(row, chip, at)
                    case Status():
                        found += self._status(row, chip, at)
                    case Rate():
                        found += self._rate(row, chip, at)
        for kept in (self._standing, self._was_good, self._last):
            _forget_oldest(kept)
        return found

    def _codes(self, row: Codes, chip: _Chip, at: datetime) -> list[Observation]:
        samples = chip.of(row.series)
        values = [sample.value for sample in samples if sample.value != row.none]
        codes = {_written(value, row) for value in values}
        now = {code for code in codes if code is not None}
        before = {key[2].partition("/")[2] for key in self._of_row(row, chip)}
        found = [self._begin(row, chip, code, at) for code in sorted(now - before)]
        slots_left = len(values) < len(row.series)
        if None in codes or not slots_left:
            return found
        return found + [self._end(row, chip, code, at) for code in sorted(before - now)]

    def _last_code(self, row: LastCode, chip: _Chip, at: datetime) -> list[Observation]:
        samples = chip.of(row.series)
        if not samples:
            return []
        value = samples[-1].value
        code = "" if value == row.none else _written(value, row)
        if code is None:
            return []
        name = f"{row.namespace}/{chip.ref.id}"
        before = self._last.get(name)
        self._last.pop(name, None)
        self._last[name] = code
        # The first value ever seen is of unknown age: old news.
        if before is None or code in ("", before):
            return []
        return [self._signal(row, chip, code, FaultState.ONCE, at)]

    def _status(self, row: Status, chip: _Chip, at: datetime) -> list[Observation]:
        values = [sample.value for sample in chip.of(row.series) if not math.isnan(sample.value)]
        if not values:
            return []
        good = all(value == row.good for value in values)
        key = self._key_of(row, chip, row.code)
        if good:
            self._was_good[key] = None
        elif row.only_after_good and key not in self._was_good:
            return []
        return self._edge_to(row, chip, row.code, at, stands=not good)

    def _rate(self, row: Rate, chip: _Chip, at: datetime) -> list[Observation]:
        samples = chip.of(row.series)
        if not samples:
            return []
        key = self._key_of(row, chip, row.code)
        growth = self._rates.growth(key, samples, at, row.window)
        if growth.by > row.above:
            return self._edge_to(row, chip, row.code, at, stands=True)
        if growth.whole_window and growth.by <= row.back_at:
            return self._edge_to(row, chip, row.code, at, stands=False)
        return []

    def _edge_to(
        self, row: Status | Rate, chip: _Chip, code: str, at: datetime, *, stands: bool
    ) -> list[Observation]:
        stood = self._key_of(row, chip, code) in self._standing
        if stands == stood:
            return []
        return [self._begin(row, chip, code, at) if stands else self._end(row, chip, code, at)]

    def _begin(self, row: Codes | Status | Rate, chip: _Chip, code: str, at: datetime) -> Observation:
        self._standing[self._key_of(row, chip, code)] = None
        return self._signal(row, chip, code, FaultState.ASSERTED, at)

    def _end(self, row: Codes | Status | Rate, chip: _Chip, code: str, at: datetime) -> Observation:
        del self._standing[self._key_of(row, chip, code)]
        return self._signal(row, chip, code, FaultState.CLEARED, at)

    def _signal(
        self, row: Codes | LastCode | Status | Rate, chip: _Chip, code: str, state: FaultState, at: datetime
    ) -> Observation:
        self._edge += 1
        exporter = self._mapping.exporter
        fault = ChipFault(
            node=self._identity.node,
            chip=chip.ref,
            namespace=row.namespace,
            code=code,
            state=state,
            severity=row.severity,
            product=chip.product,
            detail=f"{exporter}: {row.series[0]}",
        )
        place = (exporter, chip.ref.id, row.namespace, code, state.value, self._edge)
        return Observation(fault, self._identity.derive(*place), at)

    def _of_row(self, row: Codes, chip: _Chip) -> list[Key]:
        begin = f"{row.namespace}/"
        return [
            key
            for key in self._standing
            if key[0] == row.read and key[1] == chip.ref.id and key[2].startswith(begin)
        ]

    @staticmethod
    def _key_of(row: Codes | Status | Rate, chip: _Chip, code: str) -> Key:
        return (row.read, chip.ref.id, f"{row.namespace}/{code}")


def _chips(samples: Iterable[Sample], labels: ChipLabels) -> dict[str, _Chip]:
    """Chips of a scrape: every sample that says which chip it is of, whether its series is mapped or not."""
    chips: dict[str, _Chip] = {}
    for sample in samples:
        name = next((sample.labels[label] for label in labels.id if sample.labels.get(label)), "")
        index = sample.labels.get(labels.index, "")
        if not name and not index:
            continue
        chip_id = name or f"index:{index}"
        if chip_id not in chips:
            chips[chip_id] = _Chip(
                _ref(chip_id, index, sample, labels), _label(sample, labels.product), defaultdict(list)
            )
        chips[chip_id].samples[sample.series].append(sample)
    if len(chips) > CHIPS_LIMIT:
        raise ScrapeFailed(f"the answer speaks of {len(chips):,} chips; at most {CHIPS_LIMIT:,} are a node's")
    return chips


def _ref(chip_id: str, index: str, sample: Sample, labels: ChipLabels) -> ChipRef:
    bus = _label(sample, labels.bus)
    return ChipRef(
        id=chip_id[:253],
        index=int(index) if index.isdecimal() and len(index) < HEXADECIMAL_DIGITS else None,
        bus=(plain_bus(bus) or bus) if bus else None,
    )


def _label(sample: Sample, label: str | None) -> str | None:
    value = sample.labels.get(label, "")[:200] if label else ""
    return value or None


def _written(value: float, row: Codes | LastCode) -> str | None:
    """A code as tables write it; None for what is no code."""
    if not math.isfinite(value) or value < 0 or value != int(value) or value >= 1 << 63:
        return None
    if row.write_as == "decimal":
        return str(int(value))
    return f"{int(value):0{HEXADECIMAL_DIGITS}X}"


def _key(item: Iterable[str]) -> Key:
    kind, chip, code = item
    return (kind, chip, code)


def _forget_oldest(kept: dict[Any, Any]) -> None:
    while len(kept) > STANDING_KEPT:
        del kept[next(iter(kept))]
