"""What is particular to one kind: defaults, checks, how it is deleted. The plain kind has none of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.kubernetes import Object
from sandbox.cluster_standin.refusals import Cause

if TYPE_CHECKING:
    from sandbox.cluster_standin.store import Store


@dataclass(frozen=True, slots=True)
class World:
    """What a kind may look at.

    Args:
        store: what there is.
        unreachable_toleration: seconds pods stay on a node that is NotReady or unreachable.
    """

    store: Store
    unreachable_toleration: int = 300


class Kind:
    """A kind with nothing particular to it."""

    def prepare_create(self, item: Object, world: World) -> None:
        """Fill in what the server fills in, and drop what a client may not set."""

    def admit(self, item: Object, world: World) -> None:
        """Add what admission adds, which is nobody's. Raises Refusal for what may not be."""

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Keep what this way of writing may not change: the status on the object itself, all else on its status."""
        kept = "spec" if subresource == "status" else "status"
        if kept in old:
            new[kept] = old[kept]
        else:
            new.pop(kept, None)

    def validate(self, item: Object) -> list[Cause]:
        """What is wrong with a new object."""
        del item
        return []

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """What is wrong with a change."""
        del new, old, subresource
        return []

    def grace(self, item: Object, asked: int | None) -> int | None:
        """Seconds until it may be taken away; None where deleting is at once."""
        del item, asked
        return None
