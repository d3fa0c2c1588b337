"""Checkpoints in a folder that all ranks share.

Each rank writes its part (temporary file, fsync, rename) and tells rank 0 its digest; rank 0 writes the manifest with all digests last, under
the fence. Guarantees: a checkpoint is complete when its manifest stands, verified when every digest agrees; a crash at any moment leaves the
older ones as they were; what is torn is passed over, never repaired; the newest `keep` complete ones stay.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.training.errors import Unreadable
from sandbox.training.fence import Fence

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Saved:
    """A complete, verified checkpoint."""

    folder: Path
    step: int
    epoch: int
    step_seconds: float | None
    """Median length of a step before it, if enough had been seen: what "as fast as before" is measured by."""


class Checkpoints:
    """The checkpoints of one run, as one rank sees them."""

    def __init__(self, folder: Path, *, rank: int, world: int, epoch: int, keep: int) -> None:
        self._folder = folder
        self._rank = rank
        self._world = world
        self._keep = keep
        self.fence = Fence(folder, epoch)

    def newest(self) -> Saved | None:
        """The newest that is complete and verified, for this number of ranks."""
        for folder in sorted(self._folder.glob("step-*"), reverse=True):
            saved = self._verified(folder)
            if saved is not None:
                return saved
        return None

    def named(self, name: str) -> Saved:
        """The one rank 0 chose, verified again where this rank reads it.

        Raises:
            Unreadable: it is not complete or not verified here.
        """
        saved = self._verified(self._folder / name)
        if saved is None:
            raise Unreadable(f"{self._folder / name} was chosen, and cannot be verified here")
        return saved

    def read_part(self, saved: Saved) -> bytes:
        """This rank's own bytes."""
        return (saved.folder / _part(self._rank)).read_bytes()

    def write_part(self, step: int, body: bytes) -> str:
        """This rank's own bytes; returns their digest, for the manifest."""
        folder = self.folder_of(step)
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / _part(self._rank), body)
        return _digest(body)

    def publish(self, step: int, digests: list[str], step_seconds: float | None) -> None:
        """Rank 0's part, when every rank has written: the checkpoint exists from here on.

        Raises:
            Outdated: a newer epoch owns the folder; nothing was published.
        """
        manifest = {
            "step": step,
            "epoch": self.fence.epoch,
            "parts": {_part(rank): digest for rank, digest in enumerate(digests)},
            "step_seconds": step_seconds,
        }
        body = json.dumps(manifest).encode()
        new = self.folder_of(step) / f"{MANIFEST}.new"
        _write(new, json.dumps({"manifest": manifest, "digest": _digest(body)}).encode())
        with self.fence.held():
            new.replace(new.with_name(MANIFEST))
            _sync(new.parent)
        self._forget_old()

    def folder_of(self, step: int) -> Path:
        """Where this epoch saves a step: what a process of an old epoch still writes is never mixed with it."""
        return self._folder / f"step-{step:09d}-epoch-{self.fence.epoch:06d}"

    def _verified(self, folder: Path) -> Saved | None:
        try:
            outer = json.loads((folder / MANIFEST).read_bytes())
            manifest: dict[str, Any] = outer["manifest"]
            if _digest(json.dumps(manifest).encode()) != outer["digest"]:
                return None
            if set(manifest["parts"]) != {_part(rank) for rank in range(self._world)}:
                return None
            for name, digest in manifest["parts"].items():
                if _digest((folder / name).read_bytes()) != digest:
                    return None
            return Saved(folder, manifest["step"], manifest["epoch"], manifest["step_seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _forget_old(self) -> None:
        complete = sorted(path.parent for path in self._folder.glob(f"step-*/{MANIFEST}"))
        for folder in complete[: -self._keep]:
            (folder / MANIFEST).unlink(missing_ok=True)  # first: what is half removed is not complete
            shutil.rmtree(folder, ignore_errors=True)


def _part(rank: int) -> str:
    return f"rank-{rank:05d}.state"


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _write(path: Path, body: bytes) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """A rename is safe against loss of power only once its folder is on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
