"""The shell line: it runs the command bare where we cannot, once, and is otherwise not to be noticed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from supervisor.wrapper import wrapped
from tests.supervisor.container import Agent, Container, below, ended, eventually

pytestmark = pytest.mark.slow
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    path = shutil.which(str(request.param))
    assert path is not None
    return path


def start(container: Container, shell: str, script: str, **more: str) -> subprocess.Popen[str]:
    name, *arguments = wrapped(["/bin/sh", "-c", script])
    assert name == "sh"
    return container.run([shell, *(["sh"] if shell.endswith("busybox") else []), *arguments], **more)


def test_it_supervises(container: Container, agent: Agent, shell: str) -> None:
    process = start(
        container,
        shell,
        'echo "$MA_PROC_START_CNT${RELIGHT_MARK-}"; [ $MA_PROC_START_CNT = 2 ] && exit 3; touch "$HERE/up"; sleep 60',
    )
    agent.accept()
    container.wait_for("up")
    agent.order("stop")
    agent.until("state", state="stopped")
    agent.order("run")

    assert ended(process)[:2] == (3, "1\n2\n")
    assert not list(container.files.glob(".relight-mark*"))


def test_a_command_that_failed_is_not_run_a_second_time(container: Container, shell: str) -> None:
    assert ended(start(container, shell, "echo ran; exit 3"))[:2] == (3, "ran\n")


@pytest.mark.parametrize(("number", "code"), [(9, 137), (15, 143), (11, 139)])
def test_the_end_by_a_signal_is_128_and_its_number(
    container: Container, shell: str, number: int, code: int
) -> None:
    assert ended(start(container, shell, f"kill -{number} $$"))[0] == code


def test_standard_input_reaches_the_command(container: Container, shell: str) -> None:
    name, *arguments = wrapped(["cat"])
    done = subprocess.run(
        [shell, *(["sh"] if shell.endswith("busybox") else []), *arguments],
        env=container.environment(),
        input="said\n",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert (name, done.returncode, done.stdout) == ("sh", 0, "said\n")


@pytest.mark.parametrize("broken", ["no python3", "old python3", "damaged", "missing", "crashes"])
def test_the_command_runs_bare_and_once_where_we_cannot(
    container: Container, shell: str, broken: str
) -> None:
    tools = container.folder / "bin"
    tools.mkdir()
    for tool in ("rm", "touch", "sh"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    zipapp = container.folder / "other.pyz"
    zipapp.write_bytes(b"PK\x03\x04 not a zip" if broken == "damaged" else container.zipapp.read_bytes())
    if broken == "missing":
        zipapp.unlink()
    said = {"old python3": "echo 'SyntaxError' >&2; exit 1", "crashes": "kill -SEGV $$"}.get(broken)
    if said:
        (tools / "python3").write_text(f"#!/bin/sh\n{said}\n", encoding="utf-8")
        (tools / "python3").chmod(0o755)
    elif broken != "no python3":
        (tools / "python3").symlink_to(str(shutil.which("python3")))
    process = start(container, shell, "echo ran; exit 3", PATH=str(tools), RELIGHT_SUPERVISOR=str(zipapp))

    assert ended(process)[:2] == (3, "ran\n")


def test_a_mark_that_cannot_be_made_by_the_supervisor_runs_the_command_once(
    container: Container, shell: str
) -> None:
    tools = container.folder / "bin"
    tools.mkdir()
    # The volume goes between the wrapper's look and the supervisor's mark.
    (tools / "python3").write_text(
        f'#!/bin/sh\nrm -rf "$RELIGHT_VOLUME"\nexec {shutil.which("python3")} "$@"\n', encoding="utf-8"
    )
    (tools / "python3").chmod(0o755)
    process = start(container, shell, "echo ran; exit 3", PATH=f"{tools}:{os.environ['PATH']}")
    code, out, err = ended(process)

    assert (code, out) == (3, "ran\n")
    assert "cannot supervise" in err


def test_a_volume_that_takes_no_mark_is_passed_over(container: Container, shell: str) -> None:
    process = start(
        container, shell, "echo ran $MA_PROC_START_CNT; exit 0", RELIGHT_VOLUME="/proc/self/fdinfo"
    )

    assert ended(process)[:2] == (0, "ran 1\n")


def test_term_reaches_the_command_through_the_wrapper(container: Container, shell: str) -> None:
    process = start(
        container, shell, 'trap "echo saved; exit 5" TERM; touch "$HERE/up"; while :; do sleep 0.05; done'
    )
    container.wait_for("up")
    process.send_signal(signal.SIGTERM)

    assert ended(process)[:2] == (5, "saved\n")


def test_another_signal_reaches_the_command_and_does_not_end_the_wrapper(
    container: Container, shell: str
) -> None:
    process = start(
        container,
        shell,
        'trap "touch $HERE/usr1" USR1; trap "exit 0" INT; touch "$HERE/up"; while :; do sleep 0.05; done',
    )
    container.wait_for("up")
    process.send_signal(signal.SIGUSR1)
    container.wait_for("usr1")
    time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)

    assert ended(process)[0] == 0


def test_told_to_end_before_the_command_began_it_does_not_begin(container: Container, shell: str) -> None:
    tools = container.folder / "bin"
    tools.mkdir()
    (tools / "python3").write_text('#!/bin/sh\ntouch "$HERE/early"; exec sleep 30\n', encoding="utf-8")
    (tools / "python3").chmod(0o755)
    process = start(container, shell, "echo ran", PATH=f"{tools}:{os.environ['PATH']}")
    container.wait_for("early")
    process.send_signal(signal.SIGTERM)

    assert ended(process)[:2] == (143, "")


def test_the_supervisor_killed_after_the_start_ends_the_container_and_not_a_second_command(
    container: Container, agent: Agent, shell: str
) -> None:
    process = start(container, shell, 'echo ran; touch "$HERE/up"; exec sleep 60')
    agent.accept()
    container.wait_for("up")
    supervisor = psutil.Process(process.pid).children()[0]
    command = supervisor.children()[0]
    supervisor.kill()
    eventually(lambda: process.poll() is not None, "the wrapper ends")  # and with PID 1 its whole container
    command.kill()

    assert ended(process)[:2] == (137, "ran\n")


def test_pythons_own_variables_of_the_user_do_not_reach_us(
    container: Container, agent: Agent, shell: str
) -> None:
    trap = container.folder / "trap"
    trap.mkdir()
    for name in ("json.py", "socket.py", "sitecustomize.py"):
        Path(trap, name).write_text("raise SystemExit(99)\n", encoding="utf-8")
    process = start(
        container,
        shell,
        'echo "$PYTHONPATH"; exit 0',
        PYTHONPATH=str(trap),
        PYTHONSTARTUP=str(trap / "json.py"),
    )
    agent.accept()

    assert ended(process)[:2] == (0, f"{trap}\n")


def test_a_closed_standard_input_is_no_reason_not_to_start(container: Container, shell: str) -> None:
    name, *arguments = wrapped(["sh", "-c", "echo ran; exit 3"])
    process = container.run(["sh", "-c", 'exec "$@" <&-', name, shell, *arguments])

    assert ended(process)[:2] == (3, "ran\n")


def isolated() -> list[str] | None:
    """A command prefix that makes what follows PID 1 of its own namespace, where this machine allows it."""
    prefix = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]
    if shutil.which("unshare") is None:
        return None
    allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    return prefix if allowed else None


@pytest.mark.skipif(isolated() is None, reason="no PID namespaces for this user")
class TestAsPidOne:
    """As in a container: nobody above, signals without a default, orphans adopted by the shell if by nobody else."""

    @pytest.mark.parametrize(
        ("script", "code"), [("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    )
    def test_the_wrapper_ends_with_the_commands_code(
        self, container: Container, shell: str, script: str, code: int
    ) -> None:
        prefix = isolated() or []

        assert ended(container.run([*prefix, shell, *wrapped(["sh", "-c", script])[1:]]))[0] == code

    @pytest.mark.parametrize(
        ("script", "code"), [("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    )
    def test_the_zipapp_itself_ends_with_the_commands_code(
        self, container: Container, script: str, code: int
    ) -> None:
        prefix = isolated() or []
        entry = [sys.executable, "-I", "-S", str(container.zipapp), "--", "sh", "-c", script]

        assert ended(container.run([*prefix, *entry]))[0] == code

    def test_orphans_are_ended_and_the_stop_is_whole(self, container: Container, agent: Agent) -> None:
        prefix = isolated() or []
        script = '[ $MA_PROC_START_CNT = 2 ] && exit 0; (setsid sleep 60 &); touch "$HERE/up"; sleep 60'
        process = container.run(
            [*prefix, sys.executable, "-I", "-S", str(container.zipapp), "--", "sh", "-c", script]
        )
        agent.accept()
        container.wait_for("up")
        agent.order("stop")
        agent.until("state", state="stopped")
        assert len(below(process)) == 1, "the zipapp alone"
        agent.order("run")

        assert ended(process)[0] == 0
