"""Where real parts are kept between runs, and how one gets there: whole or not at all, and once.

Guarantees: a folder with the final name is complete (it is filled under another name and renamed last); two
that ask at once fill once (a file lock); what a killed run left does not count, and the next run clears it away.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """The user's folder for real parts: ``$XDG_CACHE_HOME/relight``, by default ``~/.cache/relight``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path is to be ignored.
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "relight"


def provide(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Return `folder`, which `fill` has filled once. What `fill` raises is passed on and leaves nothing that counts."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(folder):
        if not folder.is_dir():
            _fill(folder, fill)
    return folder


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the process, however that ends
        yield


def _fill(folder: Path, fill: Callable[[Path], None]) -> None:
    prefix = f".{folder.name}.part-"
    for leftover in folder.parent.glob(f"{prefix}*"):  # of a run that was killed: we hold the lock
        shutil.rmtree(leftover)
    part = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        whole = part / "whole"
        whole.mkdir()
        fill(whole)
        whole.rename(folder)
    finally:
        shutil.rmtree(part)
