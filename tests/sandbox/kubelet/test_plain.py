"""A container without an enclosure: it finds its volumes, ends with its true code and as a whole, and everybody in it is known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from producers.supervisors.peers import NamespacePods, PeerPod
from sandbox.errors import StartFailed
from sandbox.kubelet import PodIdentity, identity, process
from sandbox.kubelet.command import Command, Mount
from sandbox.kubelet.process import ContainerProcess, Way
from sandbox.kubelet.real_paths import substitution

SECONDS = 20.0
ENV = {"PATH": "/usr/bin:/bin"}
ALL_OF_IT = 5
STRAYS = "(setsid sleep 600 &) ; (trap '' TERM HUP; sleep 600 &)"


def begun(folder: Path, script: str, *mounts: Mount, **env: str) -> ContainerProcess:
    command = Command(["sh", "-c", script], ENV | env, mounts=mounts)
    owner = identity.Owner(folder, PodIdentity("uid-1", "default", "rank-0", "main"))
    return ContainerProcess(command, folder / "container", folder / "log", owner, Way.PLAIN)


def forever(folder: Path, script: str) -> ContainerProcess:
    container = begun(folder, f"{script}; echo up; sleep 600")
    deadline = time.monotonic() + SECONDS
    while "up" not in (folder / "log").read_text("utf-8"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return container


def all_of(container: ContainerProcess) -> list[psutil.Process]:
    """The program above the container and everything below it."""
    above = psutil.Process(container.pid).parent()
    assert above is not None
    return [above, *above.children(recursive=True)]


def settled(container: ContainerProcess) -> list[psutil.Process]:
    """One above, the shell, two strays, the last sleep: `up` is said before that one is there, and while shells that began strays still end."""
    deadline = time.monotonic() + SECONDS
    while len(every := all_of(container)) != ALL_OF_IT:
        assert time.monotonic() < deadline, every
        time.sleep(0.01)
    return every


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return psutil.wait_procs(processes, timeout=SECONDS)[1]


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_code_is_the_commands_own(tmp_path: Path, script: str, code: int) -> None:
    assert begun(tmp_path, script).wait() == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_everything_a_container_started_ends_with_its_first_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    container = forever(tmp_path, STRAYS)
    every = settled(container)

    container.signal(number)

    assert container.wait() == 128 + number
    assert alive(every) == []


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_kubelet_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tests.sandbox.kubelet.test_plain import STRAYS, forever\n"
        "print(forever(Path(sys.argv[1]), STRAYS).pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as kubelet:
        assert kubelet.stdout is not None
        first = psutil.Process(int(kubelet.stdout.readline()))
        every = [first.parents()[0], *first.parents()[0].children(recursive=True)]
        kubelet.kill()

    assert alive(every) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_a_command_of_another_user_dies_with_the_program_above_it(tmp_path: Path) -> None:
    command = Command(["sleep", "600"], ENV, cwd="/", user=65534, group=65534)
    container = ContainerProcess(command, tmp_path / "container", tmp_path / "log", way=Way.PLAIN)
    above, *below = all_of(container)

    above.kill()
    container.wait()

    assert below
    assert alive(below) == []


def test_volumes_are_where_arguments_and_variables_say(tmp_path: Path) -> None:
    volume, inner = tmp_path / "volume", tmp_path / "inner"
    for folder in (volume, inner):
        folder.mkdir()
    (tmp_path / "settings").write_text("blue\n", encoding="utf-8")

    container = begun(
        tmp_path, "cd /work && pwd && cat /etc/trainer/settings && echo 1 > $INNER/written && touch /work/deep.txt",
        Mount(str(volume), "/work"), Mount(str(inner), "/work/inner"),
        Mount(str(tmp_path / "settings"), "/etc/trainer/settings"),
        INNER="/work/inner",
    )  # fmt: skip

    assert container.wait() == 0
    assert (tmp_path / "log").read_text("utf-8").split() == [str(volume), "blue"]
    assert {file.name for file in volume.iterdir()} == {"deep.txt"}
    assert (inner / "written").exists()


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("/data", "/real/data"),
        ("--to=/data/a:/data/b", "--to=/real/data/a:/real/data/b"),
        ("cat '/data/x' > \"/data/y\"", "cat '/real/data/x' > \"/real/data/y\""),
        ("file:///data/x", "file:///data/x"),  # a path behind slashes is longer than it looks
        ("/data-old /data.txt /database", "/data-old /data.txt /database"),
        ("/home/data ${ROOT}/data ~/data", "/home/data ${ROOT}/data ~/data"),
        ("/data/inner/x /data/inner-x", "/real/inner/x /real/data/inner-x"),
    ],
)
def test_whole_paths_are_put_in_place_of_mount_paths_and_the_deepest_first(text: str, becomes: str) -> None:
    put = substitution([Mount("/real/data", "/data/"), Mount("/real/inner", "/data/inner")])

    assert put(text) == becomes


def test_what_was_put_in_is_not_looked_at_again() -> None:
    put = substitution([Mount("/relight/state", "/state"), Mount("/elsewhere", "/relight")])

    assert put("/state /relight") == "/relight/state /elsewhere"


def test_every_process_is_known_as_its_containers_also_orphans_and_other_sessions(tmp_path: Path) -> None:
    container = forever(tmp_path, STRAYS)
    agent = NamespacePods(tmp_path / identity.FOLDER)
    every = settled(container)

    assert {identity.pod_of(tmp_path, one.pid) for one in every} == {
        PodIdentity("uid-1", "default", "rank-0", "main")
    }
    assert {agent.pod_of(one.pid) for one in every} == {PeerPod("uid-1", container="main")}
    assert agent.pod_of(os.getpid()) is None

    container.signal(signal.SIGKILL)
    container.wait()
    assert list((tmp_path / identity.FOLDER).iterdir()) == []


@pytest.mark.parametrize("argv", [["/no/such/program"], ["/etc/passwd"]])
def test_a_command_that_cannot_be_run_says_why_and_leaves_no_process(tmp_path: Path, argv: list[str]) -> None:
    with pytest.raises(StartFailed, match=argv[0]):
        ContainerProcess(Command(argv, ENV), tmp_path / "container", tmp_path / "log", way=Way.PLAIN)

    assert [
        one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(one.info["cmdline"])
    ] == []


def test_a_volume_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="no-volume"):
        begun(tmp_path, "true", Mount(str(tmp_path / "no-volume"), "/data"))


def test_another_user_is_refused_to_whom_root_does_not_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(StartFailed, match="to run as 1234 needs root; this kubelet runs as 1000"):
        ContainerProcess(
            Command(["true"], ENV, user=1234), tmp_path / "container", tmp_path / "log", way=Way.PLAIN
        )


def test_somebody_who_is_not_root_gets_plain_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert process.best_way.__wrapped__() is Way.PLAIN
