"""Is this new pod fit to train (seed 001, table 3)? One log line per item with the word `item`; a failure ends with `error,exiting`.

An item whose subject does not exist is skipped with the reason and passes; so is one that breaks by itself. Sizes are GiB of the whole file
system, limits are in ulimit's own units (KiB for locked memory and stack), unlimited is more than any number, all comparisons are strict.
"""

from __future__ import annotations

import os
import resource
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Mapping, NamedTuple, Optional

from supervisor.settings import number
from supervisor.words import say

GIB = 1024**3
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Found(NamedTuple):
    """What one item saw; devices say how many there should be and how many there are."""

    result: str
    reason: str
    granted: Optional[int] = None  # noqa: UP045 - NamedTuple evaluates it
    found: Optional[int] = None  # noqa: UP045


@dataclass(frozen=True)
class Result:
    """One item: how it went, why, and how long it took."""

    item: str
    result: str
    reason: str
    seconds: float
    granted: int | None = None
    found: int | None = None


def dns(environment: Mapping[str, str]) -> Found:
    """The peers' names resolve, those that do not are tried again for a while."""
    missing = peers(environment)
    if not missing:
        return Found(SKIPPED, "no peers are named")
    told = f"{len(missing)} names"
    end = time.monotonic() + number(environment, "RELIGHT_CHECK_DNS_SECONDS", 60.0)
    while True:
        # A name server that is away takes seconds for each name: past the end the rest counts as missing, unasked.
        missing = [name for name in missing if time.monotonic() >= end or not _resolves(name)]
        if not missing:
            return Found(PASSED, told)
        if time.monotonic() >= end:
            return Found(FAILED, f"{len(missing)} of {told} do not resolve: " + ", ".join(missing[:5]))
        time.sleep(min(1.0, max(0.0, end - time.monotonic())))


def peers(environment: Mapping[str, str]) -> list[str]:
    """Names the job's kind gives (RELIGHT_PEERS) and those of Volcano's hosts files (seed 001, table 3)."""
    names = environment.get("RELIGHT_PEERS", "").replace(",", " ").split()
    for path in sorted(Path(environment.get("RELIGHT_VOLCANO", "/etc/volcano")).glob("*.host")):
        names += path.read_text(encoding="utf-8", errors="replace").split()
    return sorted(set(names))


def disk(environment: Mapping[str, str], name: str, default_path: str, least: float) -> Found:
    """The file system is larger than the least size."""
    path = environment.get(f"RELIGHT_{name.upper()}_PATH", default_path)
    if not os.path.isdir(path):
        return Found(SKIPPED, f"no folder {path}")
    wanted = number(environment, f"RELIGHT_CHECK_{name.upper()}_GIB", least)
    stat = os.statvfs(path)
    size = stat.f_blocks * stat.f_frsize / GIB
    return Found(PASSED if size > wanted else FAILED, f"{path} is {size:.1f} GiB, wanted > {wanted:g}")


def ulimit(environment: Mapping[str, str]) -> Found:
    """Limits that RDMA needs; unlimited is more than any number."""
    rdma = environment.get("RELIGHT_CHECK_RDMA", "auto")
    # The container's own devices: /sys shows the node's, which the job may not use.
    if rdma == "off" or (rdma != "on" and not any(_dev(environment).glob("infiniband/uverbs*"))):
        return Found(SKIPPED, "no InfiniBand")
    wanted = (
        ("memlock", resource.RLIMIT_MEMLOCK, 1024, 16000.0),
        ("nofile", resource.RLIMIT_NOFILE, 1, 1000000.0),
        ("stack", resource.RLIMIT_STACK, 1024, 8000.0),
        ("nproc", resource.RLIMIT_NPROC, 1, 1000000.0),
    )
    low = []
    for name, limit, unit, default in wanted:
        soft = resource.getrlimit(limit)[0]
        least = number(environment, f"RELIGHT_CHECK_{name.upper()}", default)
        if soft != resource.RLIM_INFINITY and soft / unit <= least:
            low.append(f"{name} is {soft // unit}, wanted > {least:g}")
    return Found(FAILED, "; ".join(low)) if low else Found(PASSED, "enough")


def devices(environment: Mapping[str, str], variable: str, pattern: str) -> Found:
    """As many devices are found as were granted."""
    granted = int(number(environment, variable, 0.0))
    if granted == 0:
        return Found(SKIPPED, "none granted")
    names = (path.name[len(pattern) :] for path in _dev(environment).glob(pattern + "*"))
    found = sum(1 for name in names if name.isdigit())
    return Found(PASSED if found >= granted else FAILED, f"found {found} of {granted}", granted, found)


def items(environment: Mapping[str, str]) -> dict[str, Callable[[], Found]]:
    """All items by name."""
    return {
        "dns": lambda: dns(environment),
        "disk-size root": lambda: disk(environment, "root", "/", 32.0),
        "disk-size shm": lambda: disk(environment, "shm", "/dev/shm", 1.0),  # noqa: S108 - the file system itself
        "disk-size cache": lambda: disk(environment, "cache", "/cache", 32.0),
        "ulimit": lambda: ulimit(environment),
        "gpu-check": lambda: devices(environment, "RELIGHT_GPUS", "nvidia"),
        "npu-check": lambda: devices(environment, "RELIGHT_NPUS", "davinci"),
    }


def check(environment: Mapping[str, str], tell: Callable[[Result], None]) -> list[Result]:
    """Run all items; an item that breaks by itself is skipped, since a fault of ours must not stop a job."""
    results: list[Result] = []
    for name, look in items(environment).items():
        begun = time.monotonic()
        try:
            seen = look()
        except Exception as error:  # noqa: BLE001 - fails open
            seen = Found(SKIPPED, f"could not be checked: {error!r}")
        seconds = round(time.monotonic() - begun, 3)
        results.append(Result(name, seen.result, seen.reason, seconds, seen.granted, seen.found))
        tell(results[-1])
        say(f"item {name}: {seen.result} ({seen.reason})")
    if any(result.result == FAILED for result in results):
        say("error,exiting")
    return results


def _dev(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("RELIGHT_DEV", "/dev"))


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True
