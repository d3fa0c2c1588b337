"""How a rank is told what to do: arguments for what is the same everywhere, the environment for who it is and which start this is."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.training.rendezvous import Member, Place


@dataclass(frozen=True)
class Settings:
    """One rank's, for one start."""

    me: Member
    place: Place
    steps: int
    step_seconds: float
    save_every: int
    keep: int
    checkpoints: Path
    faults: Path | None
    starts: Path | None
    patience: float
    silence: float
    stable_within: float
    seed: int
    devices: tuple[Path, ...]
    schedule_count: str
    start_count: str


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Settings of this start; argparse ends the process with a message if they make no sense."""
    parser = _parser()
    told = parser.parse_args(arguments)
    rank = _number(environment, "RANK", "JOB_COMPLETION_INDEX")
    world = told.world or _number(environment, "WORLD_SIZE") or 1
    if not 0 <= (rank or 0) < world:
        parser.error(f"rank {rank} of {world} ranks")
    port = _number(environment, "MASTER_PORT")
    if told.rendezvous is None and port is None and world > 1:
        parser.error("MASTER_ADDR and MASTER_PORT or --rendezvous must say where the ranks meet")
    return Settings(
        me=Member(told.job, epoch(environment), world, rank or 0),
        place=Place(environment.get("MASTER_ADDR", "127.0.0.1"), port or 0, told.rendezvous),
        steps=told.steps,
        step_seconds=told.step_seconds,
        save_every=told.save_every,
        keep=told.keep,
        checkpoints=told.checkpoints,
        faults=told.faults,
        starts=told.starts,
        patience=told.patience,
        silence=told.silence,
        stable_within=told.stable_within,
        seed=told.seed,
        devices=_devices(told.devices, environment),
        schedule_count=environment.get("MA_SCHEDULE_CNT", ""),
        start_count=environment.get("MA_PROC_START_CNT", ""),
    )


def epoch(environment: Mapping[str, str]) -> int:
    """The issue of the run this process belongs to; without relight there is one."""
    return _number(environment, "RELIGHT_EPOCH") or _number(environment, "MA_SCHEDULE_CNT") or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="train", description=__doc__)
    add = parser.add_argument
    add("--steps", type=int, required=True, help="train up to this step")
    add("--checkpoints", type=Path, required=True, help="folder shared by all ranks")
    add("--job", default="job", help="ranks of another job are turned away")
    add("--world", type=int, help="number of ranks; else WORLD_SIZE, else 1")
    add(
        "--rendezvous",
        type=Path,
        help="shared folder in which rank 0 writes its address; else MASTER_ADDR, MASTER_PORT",
    )
    add("--step-seconds", type=float, default=0.05, help="how long a step takes")
    add("--save-every", type=int, default=10, help="steps between two checkpoints")
    add("--keep", type=int, default=3, help="complete checkpoints to keep")
    add("--faults", type=Path, help="folder in which faults are asked for")
    add("--starts", type=Path, help="file that gets the line of each start and end, too")
    add("--patience", type=float, default=300.0, help="seconds to find the other ranks")
    add(
        "--silence",
        type=float,
        default=1800.0,
        help="seconds without a word after which a rank counts as lost",
    )
    add(
        "--stable-within",
        type=float,
        default=0.1,
        help="share of the usual step time a stable step may differ",
    )
    add(
        "--devices",
        type=Path,
        help="folder of device files, of which those of NVIDIA_VISIBLE_DEVICES are held open",
    )
    add("--seed", type=int, default=1, help="makes the data")
    return parser


def _devices(folder: Path | None, environment: Mapping[str, str]) -> tuple[Path, ...]:
    visible = [name.strip() for name in environment.get("NVIDIA_VISIBLE_DEVICES", "").split(",")]
    return () if folder is None else tuple(folder / f"nvidia{name}" for name in visible if name.isdigit())


def _number(environment: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        value = environment.get(name, "")
        if value.isascii() and value.isdigit():
            return int(value)
    return None
