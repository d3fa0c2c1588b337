"""Settings of the repair of chips, `RELIGHT_REPAIR__COMMAND` and so on. Commands are the operator's, never a rulebook's (finding R48)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from runtime.settings import Duration, Group

PLACEHOLDERS = ("{unit}", "{chips}")


class RepairSettings(Group):
    """How a reset unit is repaired, and when it may not be."""

    command: tuple[str, ...] = ()
    """Resets one unit, as JSON list; `{unit}` and `{chips}` (ids with commas between) are filled in, no shell reads it. Off: empty, every order
    that asks for a reset is answered `failed`."""
    check: tuple[str, ...] = ()
    """Prints the codes that stand on one unit, one a line, with or without their namespace; same placeholders. Off: empty, the command's exit
    code alone says whether it healed, and what heals by waiting cannot be told."""
    timeout: Duration = timedelta(seconds=150)
    """The command, then it is killed. 150 s: what a hot reset of a ring may take at most (mindcluster)."""
    check_timeout: Duration = timedelta(seconds=20)
    """One check."""
    verify_for: Duration = timedelta(seconds=30)
    """How long codes may go on standing after the command before they count as left."""
    verify_every: Duration = timedelta(seconds=3)
    """Between two checks."""
    units: Path | None = None
    """JSON file of reset units: `{"ring-0": {"chips": ["..."], "devices": ["/dev/davinci0", ...]}}`. Off: unset, a unit is the chips of its
    order, and their devices follow `device_pattern`."""
    device_pattern: str = "/dev/davinci{index}"
    """Device file of a chip known by its index, where `units` does not say. A unit whose device files are not known is never reset."""
    must_see_all: bool = True
    """A process the agent may not look into makes a unit unusable for a reset. Off: such processes count as not there, which is right only where
    the process table is not the node's own, in trials."""
    own_wait: Duration = timedelta(seconds=10)
    """How long processes of the run, which are to be gone, may still hold the unit before the repair counts as failed."""
    per_chip: Annotated[int, Field(ge=0)] = 3
    """Resets of one chip within `window`. 3 in 6 h, as in mindcluster's token bucket."""
    per_node: Annotated[int, Field(ge=0)] = 16
    """Resets on the node within `window`: two of each chip of an eight-chip node."""
    window: Duration = timedelta(hours=6)
    """See `per_chip`."""
    at_once: Annotated[int, Field(ge=1)] = 4
    """Units repaired at the same time."""

    @model_validator(mode="after")
    def _says_which_unit(self) -> Self:
        for name, argv in (("command", self.command), ("check", self.check)):
            if argv and not any(place in part for part in argv for place in PLACEHOLDERS):
                raise ValueError(
                    f"repair.{name} names neither {{unit}} nor {{chips}}: it would act on every unit alike; got {list(argv)}"
                )
        return self
