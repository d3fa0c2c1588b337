"""The versions the stage was proven with: its recipe leans on Faust's order of hooks and on two names that are not public.

`Consumer._commit`, the order revoked - assigned - rebalance complete - seek, and what a cancelled agent does were measured at these versions.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from runtime.errors import PinError

PROVEN: Final = {"faust-streaming": "0.15.3", "aiokafka": "0.14.0"}


def check_pins() -> None:
    """Raise PinError when a library is at another version."""
    found = {name: version(name) for name in PROVEN}
    wrong = [
        f"{name} is {found[name]}, proven is {proven}"
        for name, proven in PROVEN.items()
        if found[name] != proven
    ]
    if wrong:
        raise PinError(
            f"{'; '.join(wrong)}. Run the torture tests with it and change `streams.pins`, "
            "or set RELIGHT_CHECK_PINS=false at your own risk"
        )
