"""Whether the names a signal of another system goes by are in a table, so that a typo is heard of before it is sent, not never.

A condition or code table that no rulebook knows is taken in all the same: it is recorded, and no rule looks at it. A site may have rows of its
own in an overlay, which only its rulebook knows: who publishes these says so (`relight publish --unlisted`). Codes are not checked: one that a
table does not list is decided by its severity.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Final

from rules.errors import nearest
from rules.packaged import default_content
from schemas.envelope import Payload
from schemas.signals import ChipFault, NodeCondition

_NODE: Final = "node"
_NOT_OF_CHIPS: Final = frozenset({_NODE, "exit"})


@cache
def conditions() -> frozenset[str]:
    """Conditions of nodes in the default rulebook."""
    return frozenset(str(row["code"]) for row in default_content()["codes"] if row["namespace"] == _NODE)


@cache
def chip_tables() -> frozenset[str]:
    """Code tables of chips in the default rulebook."""
    return frozenset(str(row["namespace"]) for row in default_content()["codes"]) - _NOT_OF_CHIPS


def unlisted(signal: Payload) -> str | None:
    """What is wrong with the name a signal goes by and what would be right; None where it is listed, or nothing is named."""
    match signal:
        case NodeCondition(condition=name):
            worded = [one for one in conditions() if not one[:1].isdigit()]
            return _missing("condition", name, "condition of a node", conditions(), worded)
        case ChipFault(namespace=name):
            return _missing("namespace", name, "code table of chips", chip_tables(), chip_tables())
        case _:
            return None


def _missing(field: str, name: str, what: str, known: Collection[str], shown: Collection[str]) -> str | None:
    if name in known:
        return None
    near = nearest(name, known)
    right = repr(near) if near else f"one of {', '.join(sorted(shown))}"
    return f"{field}: {name!r} is no {what} in the default rulebook; right would be {right}, or --unlisted for one of your own rulebook"
