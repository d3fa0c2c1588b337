"""What the supervisor costs a container: memory and CPU while the command runs, and the time until it runs.

The zipapp behind its wrapper, with high availability on and an agent that listens, beside the bare command in the same run. Memory is the
proportional set (pages shared with the user's own python3 count by halves), CPU is the scheduler's count of nanoseconds.

Run: python -m benchmarks supervisor
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.report import Row
from supervisor.build import build
from supervisor.wrapper import wrapped

IDLE_SECONDS = 30.0
SETTLE_SECONDS = 2.0
ROUNDS = 15
BARE_PYTHON = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(3600)"]
LONG = ["sleep", "3600"]


def environment(folder: Path) -> dict[str, str]:
    """What injection would write; disks of any size are large enough."""
    small = {f"RELIGHT_CHECK_{name}_GIB": "0" for name in ("ROOT", "SHM", "CACHE")}
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RELIGHT_HA": "on",
        "RELIGHT_RUN": "run",
        "RELIGHT_POD_UID": "pod",
        "RELIGHT_SOCKET": str(folder / "agent.sock"),
        "RELIGHT_WORD_WAIT": "0",  # the agent here answers nothing
        "RELIGHT_VOLUME": str(folder),
        "RELIGHT_SUPERVISOR": str(folder / "supervisor.pyz"),
        **small,
    }


def kib(pid: int) -> int:
    """Proportional set of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def ran(pid: int) -> tuple[int, int]:
    """Nanoseconds on a processor, and how often it was put there."""
    spent, _, times = Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()
    return int(spent), int(times)


def idle(command: list[str], folder: Path) -> tuple[float, float, float]:
    """MiB, CPU per thousand, wake-ups a minute of everything that is not the command `sleep` itself."""
    process = subprocess.Popen(
        command, env=environment(folder), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(SETTLE_SECONDS)
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        ours = [one.pid for one in family if one.name() != "sleep"]
        before = [ran(pid) for pid in ours]
        time.sleep(IDLE_SECONDS)
        after = [ran(pid) for pid in ours]
        memory = sum(kib(pid) for pid in ours) / 1024
        spent = sum(late[0] - early[0] for early, late in zip(before, after, strict=True))
        woken = sum(late[1] - early[1] for early, late in zip(before, after, strict=True))
        return memory, spent / 1e6 / IDLE_SECONDS, woken * 60 / IDLE_SECONDS
    finally:
        for one in psutil.Process(process.pid).children(recursive=True):
            one.kill()
        process.kill()
        process.wait()


def until_started(command: list[str], folder: Path) -> float:
    """Median seconds from the start of the container to the end of a command that does nothing."""
    taken: list[float] = []
    for number in range(ROUNDS):
        volume = folder / f"volume-{number}-{len(command)}"
        volume.mkdir()
        begun = time.perf_counter()
        subprocess.run(
            command,
            env={**environment(folder), "RELIGHT_VOLUME": str(volume)},
            check=True,
            stderr=subprocess.DEVNULL,
        )
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def reaction(agent: socket.socket, folder: Path) -> tuple[float, float]:
    """Median seconds from a stop order to `stopped`, and from a run order to `started`, of a command that obeys TERM at once."""
    where = {**environment(folder), "RELIGHT_VOLUME": ""}
    process = subprocess.Popen(wrapped(LONG), env=where, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    line = agent.accept()[0]
    stops: list[float] = []
    starts: list[float] = []
    with line, line.makefile("rb") as heard:

        def until(**wanted: object) -> float:
            for raw in heard:
                message = json.loads(raw)
                if all(message.get(key) == value for key, value in wanted.items()):
                    return time.perf_counter()
            raise RuntimeError(f"the line ended before {wanted}")

        def order(state: str, attempt: int) -> float:
            said = {"v": 1, "type": "desired", "pod": "pod", "epoch": 1, "attempt": attempt, "state": state}
            line.sendall(json.dumps({**said, "until": time.time() + 60}).encode() + b"\n")
            return time.perf_counter()

        until(type="started")
        for attempt in range(1, ROUNDS + 1):
            time.sleep(SETTLE_SECONDS / 10)
            begun = order("stop", attempt)
            stops.append(until(type="state", state="stopped", attempt=attempt) - begun)
            begun = order("run", attempt)
            starts.append(until(type="started", attempt=attempt) - begun)
        order("release", ROUNDS)
        process.terminate()
        process.wait()
    return statistics.median(stops), statistics.median(starts)


def rows() -> list[Row]:
    """Idle memory, CPU and wake-ups, and what the start is delayed by."""
    with tempfile.TemporaryDirectory(prefix="relight-bench-") as name, socket.socket(socket.AF_UNIX) as agent:
        folder = Path(name)
        build(folder / "supervisor.pyz")
        agent.bind(str(folder / "agent.sock"))
        agent.listen(64)
        stopped, run = reaction(agent, folder)
        memory, cpu, woken = idle(wrapped(LONG), folder)
        floor, floor_cpu, _ = idle(BARE_PYTHON, folder)
        started, bare = until_started(wrapped(["true"]), folder), until_started(["true"], folder)
    python = f"a python3 that sleeps, {floor:.1f} MiB"
    return [
        Row("supervisor", "idle memory, wrapper included", memory, "MiB", python, memory / floor),
        Row("supervisor", "idle CPU", cpu, "ms/s", f"a python3 that sleeps, {floor_cpu:.3f} ms/s"),
        Row("supervisor", "wake-ups while nothing happens", woken, "a minute", "", None, "few"),
        Row("supervisor", "stop order to `stopped`, command ends at once", stopped * 1e3, "ms"),
        Row("supervisor", "run order to `started`", run * 1e3, "ms"),
        Row(
            "supervisor",
            "start and end of a command",
            started * 1e3,
            "ms",
            f"bare, {bare * 1e3:.1f} ms",
            started / bare,
        ),
    ]
