"""Which processes have the device files of a unit open or mapped, by the whole node's process table.

A device is known by its number, since containers see it under other names. A process table that cannot be read whole - not all processes of
the node, not all files of a process - is no proof that a device is free: `HoldersUnknown`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from actuators.node_agent.orders import Holder

PROC: Final = Path("/proc")
NameRun = Callable[[int], str | None]
"""Run of a process; None: of no run we know."""
Identity = tuple[str, int, int]


class HoldersUnknown(Exception):  # noqa: N818 - says what happened
    """Who holds a device cannot be said."""


def device_holders(
    devices: Iterable[str], run_of: NameRun, *, must_see_all: bool = True, proc: Path = PROC
) -> list[Holder]:
    """Living processes on any of the devices, ourselves left out. Raises HoldersUnknown.

    Without `must_see_all`, processes that cannot be looked into count as not on them.
    """
    paths = tuple(devices)
    wanted = {_identity(Path(path).stat()) for path in _there(paths)}
    found: list[Holder] = []
    for process in proc.iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            holds = _has_open(process, wanted) or _has_mapped(process, paths)
        except PermissionError as error:
            if must_see_all:
                raise HoldersUnknown(f"process {process.name} cannot be looked into: {error}") from error
            continue
        if holds:
            pid = int(process.name)
            found.append(Holder(pid, _name(process), run_of(pid)))
    return sorted(found, key=lambda holder: holder.pid)


def _there(paths: tuple[str, ...]) -> tuple[str, ...]:
    missing = [path for path in paths if not Path(path).exists()]
    if missing or not paths:
        raise HoldersUnknown(f"device files {missing or 'none'} are not there")
    return paths


def _identity(status: os.stat_result) -> Identity:
    if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        return ("device", stat.S_IFMT(status.st_mode), status.st_rdev)
    return ("file", status.st_dev, status.st_ino)


def _has_open(process: Path, wanted: set[Identity]) -> bool:
    try:
        files = list((process / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return False  # it ended meanwhile
    for file in files:
        try:
            if _identity(file.stat()) in wanted:
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue  # closed meanwhile, or a file that was removed
    return False


def _has_mapped(process: Path, paths: tuple[str, ...]) -> bool:
    """A device may stay mapped after its file was closed. Maps show the name it was opened by."""
    try:
        text = (process / "maps").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(line.endswith(path) for line in text.splitlines() for path in paths)


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()[:32]
    except OSError:
        return "?"
