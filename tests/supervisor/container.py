"""A container without a container: the zipapp beside a scripted agent, real processes, everything ended with the test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

PATIENCE = 40.0  # seconds a test waits for what should come at once


def eventually(seen: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)


class Agent:
    """Listens, reads lines, says what it is told to; acknowledges nothing by itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line: socket.socket | None = None
        self.pending = b""
        self.heard: list[dict[str, Any]] = []
        self.listen()

    def listen(self) -> None:
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(PATIENCE)
        self.listener.bind(str(self.path))
        self.listener.listen()

    def accept(self) -> dict[str, Any]:
        self.hang_up()
        self.line, _ = self.listener.accept()
        self.line.settimeout(PATIENCE)
        self.pending = b""
        return self.until("hello")

    def next(self) -> dict[str, Any]:
        assert self.line is not None
        while b"\n" not in self.pending:
            chunk = self.line.recv(65536)
            assert chunk, f"the line ended after {self.heard[-3:]}"
            self.pending += chunk
        raw, self.pending = self.pending.split(b"\n", 1)
        message: dict[str, Any] = json.loads(raw)
        assert message["v"] == 1
        self.heard.append(message)
        return message

    def until(self, kind: str, **wanted: object) -> dict[str, Any]:
        while True:
            message = self.next()
            if message["type"] == kind and all(message.get(key) == value for key, value in wanted.items()):
                return message

    def say(self, kind: str, **fields: object) -> None:
        assert self.line is not None
        self.line.sendall(json.dumps({"v": 1, "type": kind, **fields}).encode() + b"\n")

    def order(
        self,
        state: str,
        *,
        epoch: int = 1,
        attempt: int = 1,
        seconds: float = 30.0,
        pod: str = "pod-1",
        **more: object,
    ) -> None:
        fields = {"grace": 1.0, "until": time.time() + seconds, **more}
        self.say("desired", pod=pod, epoch=epoch, attempt=attempt, state=state, **fields)

    def hang_up(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None

    def close(self) -> None:
        self.hang_up()
        self.listener.close()


class Container:
    """Starts entries with the environment injection would write; `files` is the pod's volume, it outlives each of them."""

    def __init__(self, zipapp: Path, folder: Path) -> None:
        self.zipapp = zipapp
        self.folder = folder
        self.files = folder / "volume"
        self.files.mkdir()
        self._started: list[subprocess.Popen[str]] = []

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "RELIGHT_HA": "on",
            "RELIGHT_POD_UID": "pod-1",
            "RELIGHT_RUN": "run-1",
            "RELIGHT_SOCKET": str(self.folder / "agent.sock"),
            "RELIGHT_VOLUME": str(self.files),
            "RELIGHT_SUPERVISOR": str(self.zipapp),
            "RELIGHT_VERDICT_WAIT": "0.3",
            "RELIGHT_WORD_WAIT": "0",
            "RELIGHT_CHECK_ROOT_GIB": "0",
            "RELIGHT_CHECK_SHM_GIB": "0",
            "RELIGHT_CHECK_CACHE_GIB": "0",
            "RELIGHT_VOLCANO": str(self.folder / "no-volcano"),
            "HERE": str(self.folder),
            **more,
        }

    def start(self, script: str, **more: str) -> subprocess.Popen[str]:
        return self.run([sys.executable, "-I", "-S", str(self.zipapp), "--", "sh", "-c", script], **more)

    def run(self, command: Sequence[str], **more: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            list(command),
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        self._started.append(process)
        return process

    def wait_for(self, name: str) -> str:
        """Until the command wrote this file."""
        eventually((self.folder / name).exists, f"the file {name}")
        return (self.folder / name).read_text(encoding="utf-8")

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                lives = below(process)
                groups = {group for one in lives if (group := _group_of(one)) is not None}
                process.send_signal(signal.SIGKILL)
                for group in groups - {
                    os.getpgrp()
                }:  # at once: what a shell is just forking does not get away
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(group, signal.SIGKILL)
                for one in lives:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.kill()
            process.communicate(timeout=PATIENCE)


def _group_of(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return None


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Code, standard output, standard error."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)
