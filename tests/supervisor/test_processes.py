"""The zipapp with real processes and an agent that follows a script: every way to fail open."""

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.build import build
from supervisor.wrapper import wrapped

pytestmark = pytest.mark.slow
ROOM = Path(__file__).resolve().parents[2] / "supervisor"


@pytest.fixture(scope="module")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("zipapp") / "supervisor.pyz"
    build(out)
    return out


class Agent:
    """Listens, reads lines, says what it is told to."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(10)
        self.listener.bind(str(path))
        self.listener.listen()
        self.line: socket.socket | None = None
        self.pending = b""

    def accept(self) -> dict[str, Any]:
        self.line, _ = self.listener.accept()
        self.line.settimeout(10)
        return self.until("hello")

    def until(self, kind: str, **wanted: object) -> dict[str, Any]:
        assert self.line is not None
        while True:
            while b"\n" not in self.pending:
                chunk = self.line.recv(65536)
                assert chunk, f"the line ended before {kind} {wanted}"
                self.pending += chunk
            raw, self.pending = self.pending.split(b"\n", 1)
            message: dict[str, Any] = json.loads(raw)
            if message["type"] == kind and all(message.get(key) == value for key, value in wanted.items()):
                return message

    def order(
        self, state: str, *, attempt: int = 1, seconds: float = 5.0, pod: str = "pod-1", **more: object
    ) -> None:
        assert self.line is not None
        message = {"v": 1, "type": "desired", "pod": pod, "epoch": 1, "attempt": attempt, "state": state}
        message |= {"until": time.time() + seconds, "grace": 1.0, **more}
        self.line.sendall(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        if self.line is not None:
            self.line.close()
        self.listener.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    listening = Agent(tmp_path / "agent.sock")
    yield listening
    listening.close()


def start(zipapp: Path, folder: Path, script: str, **more: str) -> subprocess.Popen[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "RELIGHT_HA": "on",
        "RELIGHT_POD_UID": "pod-1",
        "RELIGHT_RUN": "run-1",
        "RELIGHT_SOCKET": str(folder / "agent.sock"),
        "RELIGHT_VOLUME": str(folder),
        "RELIGHT_VERDICT_WAIT": "0.3",
        "RELIGHT_CHECK_ROOT_GIB": "0",
        "RELIGHT_CHECK_SHM_GIB": "0",
        "RELIGHT_CHECK_CACHE_GIB": "0",
        **more,
    }
    command = [sys.executable, str(zipapp), "--", "sh", "-c", script]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)


def wait_for(path: Path) -> None:
    end = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < end, f"no {path}"
        time.sleep(0.01)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err


def test_every_line_is_python_3_8() -> None:
    for path in ROOM.glob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_the_same_sources_give_the_same_bytes(zipapp: Path, tmp_path: Path) -> None:
    build(tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == zipapp.read_bytes()


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("exit 0", 0), ("kill -TERM $$", -15)])
def test_without_ha_it_ends_as_the_command_does(zipapp: Path, tmp_path: Path, script: str, code: int) -> None:
    got, _, err = ended(start(zipapp, tmp_path, script, RELIGHT_HA="off", RELIGHT_VERDICT_WAIT="60"))
    assert got == code
    assert "item" not in err, "no pre-check without HA"


def test_without_an_agent_an_exit_is_held_and_then_kept(zipapp: Path, tmp_path: Path) -> None:
    assert ended(start(zipapp, tmp_path, "exit 5"))[0] == 5


def test_a_volume_that_is_none_and_a_socket_that_is_none_stop_nothing(zipapp: Path, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    code, out, _ = ended(
        start(
            zipapp,
            tmp_path,
            "echo $MA_PROC_START_CNT; exit 4",
            RELIGHT_VOLUME=missing,
            RELIGHT_SOCKET=missing,
        )
    )
    assert (code, out) == (4, "1\n")


def test_a_failed_precheck_says_so_and_the_command_does_not_run(zipapp: Path, tmp_path: Path) -> None:
    code, out, err = ended(start(zipapp, tmp_path, "echo ran", RELIGHT_CHECK_ROOT_GIB="99999999"))
    assert (code, out) == (1, "")
    assert "item disk-size root: failed" in err
    assert err.rstrip().endswith("error,exiting")


def test_stopped_whole_then_started_again_with_honest_counters(
    zipapp: Path, tmp_path: Path, agent: Agent
) -> None:
    script = "echo start $MA_PROC_START_CNT $RELIGHT_ATTEMPT; [ $MA_PROC_START_CNT = 2 ] && exit 0; setsid sleep 60 & sleep 60"
    process = start(zipapp, tmp_path, script)
    assert agent.accept()["pod"] == "pod-1"
    agent.until("started", starts=1)
    agent.order("stop")
    agent.until("state", state="stopped")
    agent.order("run")
    agent.until("started", starts=2)
    code, out, _ = ended(process)
    assert (code, out) == (0, "start 1 0\nstart 2 1\n")


def test_orders_of_another_pod_and_older_ones_are_refused(zipapp: Path, tmp_path: Path, agent: Agent) -> None:
    process = start(zipapp, tmp_path, "sleep 60")
    agent.accept()
    agent.until("started")
    agent.order("stop", pod="pod-2")
    assert agent.until("refused")["reason"] == "not this pod"
    agent.order("run", attempt=5)
    agent.until("state", attempt=5)
    agent.order("stop", attempt=4)
    assert agent.until("refused", attempt=5)["state"] == "running"
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == -15


@pytest.mark.parametrize(("otherwise", "code", "starts"), [("rerun", 9, "12"), ("exit", -15, "1")])
def test_relight_killed_between_stop_and_start_leaves_it_to_otherwise(
    zipapp: Path, tmp_path: Path, agent: Agent, otherwise: str, code: int, starts: str
) -> None:
    up = tmp_path / "up"
    script = f"printf $MA_PROC_START_CNT; [ $MA_PROC_START_CNT = 2 ] && exit 9; touch {up}; exec sleep 60"
    process = start(zipapp, tmp_path, script)
    agent.accept()
    agent.until("started")
    wait_for(up)
    agent.order("stop", seconds=0.6, otherwise=otherwise)
    agent.until("state", state="stopping")
    agent.close()
    got, out, _ = ended(process)
    assert (got, out) == (code, starts)


def test_garbage_on_the_socket_ends_the_line_and_not_the_command(
    zipapp: Path, tmp_path: Path, agent: Agent
) -> None:
    process = start(zipapp, tmp_path, "sleep 0.5; exit 6")
    agent.accept()
    assert agent.line is not None
    agent.line.sendall(b"\x00\xff garbage\n[]\n")
    assert ended(process)[0] == 6


def wrapper(zipapp: Path, folder: Path, script: str, path: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "RELIGHT_SUPERVISOR": str(zipapp), "RELIGHT_VOLUME": str(folder)}
    command = ["/bin/sh", *wrapped(["/bin/sh", "-c", script])[1:]]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)


def test_the_wrapper_runs_the_command_bare_without_python(zipapp: Path, tmp_path: Path) -> None:
    done = wrapper(zipapp, tmp_path, "echo ran; exit 3", str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "ran\n")


def test_the_wrapper_runs_the_command_bare_when_the_zipapp_is_broken(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pyz"
    broken.write_bytes(b"PK not a zip")
    done = wrapper(broken, tmp_path, "echo ran; exit 3", os.environ["PATH"])
    assert (done.returncode, done.stdout) == (3, "ran\n")


def test_the_wrapper_does_not_run_a_command_that_failed_a_second_time(zipapp: Path, tmp_path: Path) -> None:
    done = wrapper(zipapp, tmp_path, "echo ran; exit 3", os.environ["PATH"])
    assert (done.returncode, done.stdout) == (3, "ran\n")
