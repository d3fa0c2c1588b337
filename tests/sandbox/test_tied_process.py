"""A tied process ends with the one that started it, even when that one is killed; the end of a thread is no end."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from sandbox import tied_process

SECONDS = 20.0
SLEEPER = ["sleep", "600"]

STARTS_A_SLEEPER = """
import sys
from sandbox import tied_process
child = tied_process.start(["sleep", "600"])
print(child.pid, flush=True)
sys.stdin.read()
"""

HANGS_WITH_A_BROKER = """
import sys

def test_that_hangs(kafka):
    print()  # after the dots of pytest
    print("broker", kafka.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_killed_parent_takes_its_child_along() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_A_SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))

        parent.kill()

        child.wait(SECONDS)
    assert not child.is_running()


@pytest.mark.slow
def test_a_stopped_child_is_taken_along_too() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_A_SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        child.suspend()

        parent.kill()

        child.wait(SECONDS)
    assert not child.is_running()


@pytest.mark.slow
def test_the_end_of_the_thread_that_asked_is_not_the_end_of_the_child() -> None:
    with ThreadPoolExecutor(max_workers=1) as pool:
        child = pool.submit(tied_process.start, SLEEPER).result()
    # The pool's thread is gone; a child bound to it would be gone within milliseconds.

    try:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(1.0)
    finally:
        child.kill()
        child.wait()


def test_signals_reach_the_command_itself() -> None:
    child = tied_process.start(SLEEPER)

    child.terminate()

    assert child.wait(SECONDS) == -signal.SIGTERM


def test_a_child_whose_parent_is_already_gone_does_not_begin() -> None:
    not_our_parent, standard_error = "1", "2"
    begun = subprocess.run(
        [sys.executable, str(tied_process.SMALL_PROGRAM), not_our_parent, standard_error, "echo", "begun"],
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )

    assert begun.returncode == 1
    assert begun.stdout == b""


def test_a_command_that_is_not_there_is_an_error_of_the_caller() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        tied_process.start(["no-such-command"])


@pytest.mark.real
def test_a_test_run_that_is_killed_leaves_no_broker(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(HANGS_WITH_A_BROKER, encoding="utf-8")
    command = [
        sys.executable, "-m", "pytest", "-q", "-s", "-c", os.devnull, "--rootdir", str(tmp_path),
        "--basetemp", str(tmp_path / "base"), "-p", "no:cacheprovider", "-p", "tests.real.kafka", "test_inner.py",
    ]  # fmt: skip
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        pid = next(line.split()[1] for line in iter(run.stdout.readline, "") if line.startswith("broker "))
        broker = psutil.Process(int(pid))
        assert broker.name() == "java"

        run.kill()

        broker.wait(SECONDS)
    assert not broker.is_running()
