"""Chips of a node as files: device files that processes hold, codes that stand, and the vendor's tool that resets a chip and lists its codes.

The tool is this file, run as an operator's command would be: `python3 simulated_chips.py FOLDER reset|check CHIP`. It writes down each reset
with the processes that held the chip at that moment, so that a test sees at the chip itself whether anything ran when it was reset.
Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DEVICE = "nvidia"
LOOK_AGAIN = 0.05  # seconds
WELL: dict[str, Any] = {"codes": [], "heals": True, "seconds": 0.2, "resets": [], "shows": {}}


@dataclass(frozen=True)
class Reset:
    """One reset, as the chip saw it."""

    at: float
    """Unix seconds at which it began."""
    done: float
    holders: list[int]
    """Processes that had the chip open."""


class SimulatedChips:
    """The chips of one node, by their UUIDs in the order of their indexes."""

    def __init__(self, folder: Path, uuids: Sequence[str]) -> None:
        self.folder = folder
        self.uuids = tuple(uuids)

    def make(self) -> None:
        """Device files, and chips without a fault."""
        self.devices.mkdir(parents=True)
        for index, uuid in enumerate(self.uuids):
            self.device(index).touch()
            _write(self._state_file(uuid), WELL)

    @property
    def devices(self) -> Path:
        """Folder of the device files: what `/dev` is on a real node."""
        return self.folder / "dev"

    def device(self, index: int) -> Path:
        """Device file of a chip."""
        return self.devices / f"{DEVICE}{index}"

    def units(self) -> dict[str, dict[str, list[str]]]:
        """Reset units, as the node agent's table wants them: each chip is one of its own."""
        return {
            uuid: {"chips": [uuid], "devices": [str(self.device(index))]}
            for index, uuid in enumerate(self.uuids)
        }

    def command(self, word: str) -> list[str]:
        """The tool's command line for one unit."""
        return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(self.folder), word, "{unit}"]

    # ------------------------------------------------------------------ what happens to a chip

    def fault(self, uuid: str, code: str) -> None:
        """A code begins to stand."""
        state = self._state(uuid)
        self._set(uuid, codes=sorted({*state["codes"], code}))

    def show(self, uuid: str, series: str, value: float) -> None:
        """What an exporter shows of it from now on."""
        self._set(uuid, shows={**self._state(uuid)["shows"], series: value})

    def shown(self, uuid: str, series: str) -> float:
        """What an exporter shows of it; 0 for a chip that is well."""
        return float(self._state(uuid)["shows"].get(series, 0))

    def mend(self, uuid: str) -> None:
        """As new."""
        self._set(uuid, **WELL)

    def behave(self, uuid: str, *, heals: bool = True, seconds: float = 0.2) -> None:
        """Whether a reset cures it, and how long it takes."""
        self._set(uuid, heals=heals, seconds=seconds)

    def resets(self, uuid: str) -> list[Reset]:
        """All resets so far."""
        return [Reset(**each) for each in self._state(uuid)["resets"]]

    # ------------------------------------------------------------------ the tool

    def reset(self, uuid: str) -> int:
        """Reset one chip; the exit code says whether it healed."""
        began, holders = time.time(), self._holders(uuid)
        while time.time() - began < self._state(uuid)["seconds"]:  # read again: it may be told to be quicker
            time.sleep(LOOK_AGAIN)
        state = self._state(uuid)
        done = Reset(began, time.time(), holders)
        codes = [] if state["heals"] else state["codes"]
        self._set(uuid, codes=codes, resets=[*state["resets"], asdict(done)])
        return 0 if state["heals"] else 1

    def check(self, uuid: str) -> int:
        """Print the codes that stand."""
        sys.stdout.writelines(f"{code}\n" for code in self._state(uuid)["codes"])
        return 0

    def _holders(self, uuid: str) -> list[int]:
        wanted = self.device(self.uuids.index(uuid)).stat()
        found = []
        for process in Path("/proc").iterdir():
            try:
                opened = (
                    [each.stat() for each in (process / "fd").iterdir()] if process.name.isdigit() else []
                )
            except OSError:
                continue  # it ended, or one of its files went
            if any((each.st_dev, each.st_ino) == (wanted.st_dev, wanted.st_ino) for each in opened):
                found.append(int(process.name))
        return found

    def _state_file(self, uuid: str) -> Path:
        return self.folder / f"{uuid}.json"

    def _state(self, uuid: str) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._state_file(uuid).read_text(encoding="utf-8"))
        return state

    def _set(self, uuid: str, **changed: object) -> None:
        _write(self._state_file(uuid), {**self._state(uuid), **changed})


def _write(file: Path, state: dict[str, Any]) -> None:
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.write_text(json.dumps(state), encoding="utf-8")
    new.replace(file)


def main(arguments: Sequence[str]) -> int:
    """The tool. The order of chips is that of their device files."""
    folder, word, uuid = arguments
    chips = SimulatedChips(Path(folder), sorted(file.stem for file in Path(folder).glob("*.json")))
    return chips.reset(uuid) if word == "reset" else chips.check(uuid)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
