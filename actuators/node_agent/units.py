"""Which chips and device files a reset unit has: the operator's table, else the chips of the order by a pattern."""

from __future__ import annotations

import json
from pathlib import Path

from actuators.node_agent.orders import Unit
from actuators.node_agent.settings import RepairSettings
from schemas.cluster import RepairOrder

INDEX = "index:"


class UnitUnknown(Exception):  # noqa: N818 - says what happened
    """The device files of a unit cannot be told: who uses it cannot be either."""


def find_unit(settings: RepairSettings, order: RepairOrder) -> Unit:
    """The unit of an order; its chips are all that a reset touches. Raises UnitUnknown."""
    if settings.units is not None:
        return _from_table(settings.units, order)
    devices = []
    for chip in order.chips:
        if not chip.startswith(INDEX):
            raise UnitUnknown(
                f"no device file is known for chip {chip}; right would be a table, RELIGHT_REPAIR__UNITS"
            )
        devices.append(settings.device_pattern.replace("{index}", chip[len(INDEX) :]))
    if not devices:
        raise UnitUnknown(f"the order for unit {order.unit} names no chips")
    return Unit(order.unit, order.chips, tuple(devices))


def _from_table(path: Path, order: RepairOrder) -> Unit:
    try:
        row = json.loads(path.read_bytes())[order.unit]
        unit = Unit(order.unit, tuple(map(str, row["chips"])), tuple(map(str, row["devices"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnitUnknown(f"{path} says nothing of unit {order.unit}: {error!r:.80}") from error
    strangers = sorted(set(order.chips) - set(unit.chips))
    if strangers or not unit.devices:
        raise UnitUnknown(f"{path}: unit {order.unit} has no device files, or not the chips {strangers}")
    return unit
