"""A container is enclosed: a layer, mounts and processes of its own, an exit code that is true, and nothing left behind."""

import os
import signal
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from sandbox.errors import StartFailed
from sandbox.kubelet import process
from sandbox.kubelet.command import Command, Mount
from sandbox.kubelet.process import ContainerProcess, Way

SECONDS = 20.0
ENV = {"PATH": "/usr/bin:/bin"}

pytestmark = pytest.mark.usefixtures("containers")


def run(folder: Path, script: str, *mounts: Mount, argv: list[str] | None = None) -> tuple[int, str]:
    """Run a shell script to its end; return its exit code and what it said."""
    command = Command(argv or ["sh", "-c", script], ENV, hostname="rank-0", mounts=mounts)
    code = ContainerProcess(command, folder / "container", folder / "log").wait()
    return code, (folder / "log").read_text("utf-8")


def forever(folder: Path, script: str) -> ContainerProcess:
    began = ContainerProcess(
        Command(["sh", "-c", f"{script}; echo up; sleep 600"], ENV), folder / "container", folder / "log"
    )
    deadline = time.monotonic() + SECONDS
    while "up" not in (folder / "log").read_text("utf-8"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return began


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 0)])
def test_the_exit_code_is_the_commands_own(tmp_path: Path, script: str, code: int) -> None:
    # The first process of a namespace cannot kill itself: as in a real container that line does nothing.
    assert run(tmp_path, script)[0] == code


def test_a_signal_from_outside_is_in_the_exit_code(tmp_path: Path) -> None:
    container = forever(tmp_path, "true")

    container.signal(signal.SIGKILL)

    assert container.wait() == 128 + signal.SIGKILL


def test_a_command_that_handles_no_signal_does_not_hear_sigterm(tmp_path: Path) -> None:
    container = forever(tmp_path, "true")

    container.signal(signal.SIGTERM)
    time.sleep(0.3)
    assert psutil.pid_exists(container.pid)

    container.signal(signal.SIGKILL)
    container.wait()


def test_everything_a_container_started_ends_with_its_first_process(tmp_path: Path) -> None:
    container = forever(tmp_path, "(setsid sleep 600 &) ; (trap '' TERM HUP; sleep 600 &)")
    first, deadline = psutil.Process(container.pid), time.monotonic() + SECONDS
    # The shell, two strays, the last sleep.
    while len(every := [first, *first.children(recursive=True)]) != 4:
        assert time.monotonic() < deadline, every
        time.sleep(0.01)

    container.signal(signal.SIGKILL)
    container.wait()

    _, alive = psutil.wait_procs(every, timeout=SECONDS)
    assert alive == []


def test_a_container_sees_its_own_processes_and_host_name_only(tmp_path: Path) -> None:
    code, said = run(tmp_path, "echo $$; hostname; ls -d /proc/[0-9]* | wc -l")

    assert (code, said.split()[:2]) == (0, ["1", "rank-0"])
    assert int(said.split()[2]) <= 4  # the shell, ls, wc


def test_what_it_writes_outside_volumes_is_gone_with_it(tmp_path: Path) -> None:
    run(tmp_path, "touch /usr/written && mkdir -p /data/deep && touch /data/deep/written")

    assert not Path("/usr/written").exists()
    assert not Path("/data/deep").exists()
    assert run(tmp_path, "ls /usr/written")[0] != 0


def test_the_machines_temporary_folder_is_shared_so_that_tests_and_containers_meet(tmp_path: Path) -> None:
    assert str(tmp_path).startswith(tempfile.gettempdir())

    run(tmp_path, f"echo met > {tmp_path}/met")

    assert (tmp_path / "met").read_text("utf-8") == "met\n"


def test_volumes_are_where_the_manifest_wants_them_also_behind_links(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    assert Path("/var/run").is_symlink()  # as on most machines
    targets = ["/var/run/relight/socket-folder", "/relight", "/usr/lib/inner", "/dev/shm"]  # noqa: S108 - of the container

    code, said = run(
        tmp_path,
        "; ".join(f"echo {target} >> {target}/written" for target in targets),
        *(Mount(str(volume), target) for target in targets),
    )

    assert (code, said) == (0, "")
    assert (volume / "written").read_text("utf-8").split() == targets
    assert not Path("/run/relight/socket-folder").exists()


def test_a_single_file_can_be_mounted(tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("blue\n", encoding="utf-8")

    code, said = run(
        tmp_path, "cat /etc/trainer/settings", Mount(str(tmp_path / "settings"), "/etc/trainer/settings")
    )

    assert (code, said) == (0, "blue\n")


def test_a_read_only_volume_cannot_be_written(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()

    code, said = run(tmp_path, "touch /told/written", Mount(str(volume), "/told", read_only=True))

    assert code != 0
    assert "Read-only" in said
    assert list(volume.iterdir()) == []


@pytest.mark.parametrize("argv", [["/no/such/program"], ["/etc/passwd"]])
def test_a_command_that_cannot_be_run_says_why_and_leaves_no_process(tmp_path: Path, argv: list[str]) -> None:
    with pytest.raises(StartFailed, match=argv[0]):
        run(tmp_path, "", argv=argv)

    assert [
        each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(each.info["cmdline"])
    ] == []


def test_a_volume_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="no-volume"):
        run(tmp_path, "true", Mount(str(tmp_path / "no-volume"), "/data"))


def test_it_runs_as_the_user_its_manifest_names(tmp_path: Path) -> None:
    command = Command(["sh", "-c", "id -u; id -g"], ENV, user=1234, group=5678)

    assert ContainerProcess(command, tmp_path / "container", tmp_path / "log").wait() == 0
    assert (tmp_path / "log").read_text("utf-8").split() == ["1234", "5678"]


def test_a_machine_that_permits_no_enclosure_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = tmp_path / "enclosure.py"
    refused.write_text('import os\nos.write(0, b\'{"error": "Operation not permitted"}\\n\')\n', "utf-8")
    monkeypatch.setitem(process.PROGRAMS, Way.ENCLOSED, refused)

    assert "Operation not permitted" in (process.missing() or "")


def test_somebody_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert "root" in (process.missing() or "")
