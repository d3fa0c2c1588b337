"""The shape of a step: begin, look, cancel, each a function of a command and the world.

All three are idempotent and level-triggered: they read the world, write what is missing under conditions, and answer by what they read. So a
command that comes twice has one effect, and `look` mends what `begin` could not do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from actuators.reply import Refused, Reply, Unsupported
from actuators.world import World
from schemas.commands import Command

Act = Callable[[Command, World], Reply]


def nothing_to_cancel(command: Command, world: World) -> Reply:
    """The step leaves nothing behind that would go on by itself."""
    del command, world
    raise Unsupported("nothing_to_cancel", "this step has no part that goes on by itself")


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `harms`: it stops, isolates or ends something, so that an operator's pause forbids it."""

    begin: Act
    look: Act
    cancel: Act = nothing_to_cancel
    harms: bool = False
    writes: bool = True

    def act(self, command: Command) -> Act:
        """The function the command asks for."""
        return {"begin": self.begin, "look": self.look, "cancel": self.cancel}[command.action]


class Arguments(BaseModel):
    """Base of a step's arguments; fields of a newer core are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


A = TypeVar("A", bound=Arguments)


def arguments_of(kind: type[A], command: Command) -> A:
    """The command's arguments, typed. Raises Refused: a command that cannot be read is nothing one can do."""
    try:
        return kind.model_validate(command.arguments)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "arguments"
        raise Refused("bad_arguments", f"{place}: {first['msg']}") from None
