"""Whatever happens to relight, the job is as it would be without it, within the stated bounds."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.container import Agent, Container, below, ended, eventually

pytestmark = pytest.mark.slow
# An agent in a process of its own, which can be stopped and killed like one: tells each supervisor to stop when it has started.
AGENT = """
import json, os, socket, sys, time
path, seconds, otherwise = sys.argv[1], float(sys.argv[2]), sys.argv[3]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
print("up", flush=True)
line = listener.accept()[0].makefile("rwb", buffering=0)
for raw in line:
    message = json.loads(raw)
    if message["type"] == "started" and message["launch"] == 1:
        while not os.path.exists(os.path.join(os.path.dirname(path), "up")):
            time.sleep(0.01)
        order = {"v": 1, "type": "desired", "pod": message["pod"], "epoch": 1, "attempt": 1, "state": "stop", "grace": 1.0}
        line.write(json.dumps({**order, "until": time.time() + seconds, "otherwise": otherwise}).encode() + b"\\n")
    if message["type"] == "state":
        print(message["state"], flush=True)
"""
# TERM ends it only when it is there to be ended, so that the first word is always said.
COUNTED = (
    'echo "start $MA_PROC_START_CNT"; touch "$HERE/up"; [ $MA_PROC_START_CNT = 2 ] && exit 9; exec sleep 60'
)


@pytest.fixture
def real_agent() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def begin(
    started: list[subprocess.Popen[str]], folder: Path, seconds: float, otherwise: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-S", "-c", AGENT, str(folder / "agent.sock"), str(seconds), otherwise]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize(
    ("otherwise", "code", "out"), [("rerun", 9, "start 1\nstart 2\n"), ("exit", -15, "start 1\n")]
)
def test_relight_gone_or_paused_between_stop_and_start_leaves_it_to_otherwise(
    container: Container,
    real_agent: list[subprocess.Popen[str]],
    how: signal.Signals,
    otherwise: str,
    code: int,
    out: str,
) -> None:
    agent = begin(real_agent, container.folder, 1.5, otherwise)
    process = container.start(COUNTED)
    assert agent.stdout is not None
    while agent.stdout.readline() != "stopped\n":
        assert agent.poll() is None
    begun = time.monotonic()
    agent.send_signal(how)
    got = ended(process)

    assert got[:2] == (code, out)
    assert time.monotonic() - begun < 20, "until, and one verdict_wait after the second end"


@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 3), ("exit 0", 0), ("kill -TERM $$", -15), ("kill -KILL $$", -9)]
)
def test_without_ha_it_ends_at_once_as_the_command_does(container: Container, script: str, code: int) -> None:
    begun = time.monotonic()
    got, _, err = ended(container.start(script, RELIGHT_HA="off", RELIGHT_VERDICT_WAIT="60"))

    assert got == code
    assert time.monotonic() - begun < 30
    assert "item" not in err, "no pre-check without HA"


def test_without_ha_no_order_is_obeyed(container: Container, agent: Agent) -> None:
    process = container.start('touch "$HERE/up"; sleep 60', RELIGHT_HA="off")
    assert agent.accept()["ha"] is False
    container.wait_for("up")
    agent.order("stop")
    agent.until("refused", reason="relight has nothing to say here")

    assert below(process)


def test_without_an_agent_an_exit_is_held_and_then_kept(container: Container) -> None:
    begun = time.monotonic()

    assert ended(container.start("exit 5", RELIGHT_VERDICT_WAIT="0.8"))[0] == 5
    assert 0.8 <= time.monotonic() - begun < 30


def test_success_is_never_held(container: Container) -> None:
    begun = time.monotonic()

    assert ended(container.start("exit 0", RELIGHT_VERDICT_WAIT="60"))[0] == 0
    assert time.monotonic() - begun < 30


def test_a_full_socket_costs_neither_the_exit_nor_memory(container: Container, agent: Agent) -> None:
    process = container.start(
        'echo "$RELIGHT_PROGRESS" > "$HERE/path"; touch "$HERE/up"; while [ ! -e "$HERE/enough" ]; do sleep 0.05; done; exit 6'
    )
    agent.accept()
    container.wait_for("up")
    for _ in range(900):  # each is answered, and not one answer is read
        agent.order("run")
    spool = container.files / "reports"

    heads = [""]

    def full() -> bool:
        """And all of it was answered: nothing is to do any more."""
        time.sleep(0.2)
        heads.append(spool.read_text(encoding="utf-8").splitlines()[0])
        return heads[-1] == heads[-2] and json.loads(heads[-1])["lost"] > 20

    eventually(full, "more answers than socket and spool hold")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as training:
        training.sendto(b"step 1", (container.folder / "path").read_text(encoding="utf-8").strip())
    time.sleep(0.2)
    before = processor_time(process.pid)
    time.sleep(1.0)
    assert processor_time(process.pid) - before < 0.3, (
        "a step that cannot be said is waited with, not spun for"
    )
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    agent.say("ack", seq=10**9)  # forgets what was said, and nothing of what waits

    def kinds() -> list[str]:
        return [json.loads(line)["type"] for line in spool.read_text(encoding="utf-8").splitlines()[1:]]

    eventually(lambda: "started" not in kinds(), "what was said is forgotten")
    assert len(kinds()) > 200
    (container.folder / "enough").touch()

    assert ended(process)[0] == 6
    assert resident < 40_000, "KiB"
    assert kinds()[-2:] == ["exit", "state"], "answers went, the exit did not"


def processor_time(pid: int) -> float:
    """Seconds a process has worked."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_garbage_ends_the_line_and_a_new_one_is_built(container: Container, agent: Agent) -> None:
    process = container.start('touch "$HERE/up"; sleep 60')
    agent.accept()
    lines = (b"\x00\xff garbage", b"[]", b'{"v": 2, "type": "desired"}', b"x" * 70_000, b"[" * 60_000)
    for attempt, garbage in enumerate(lines):
        agent.order("run", attempt=attempt)
        agent.until("state", attempt=attempt)
        assert agent.line is not None
        agent.line.sendall(garbage + b"\n")
        while agent.line.recv(65536):
            pass
        agent.accept()
    agent.order("stop", attempt=len(lines))
    agent.until("state", state="stopped")

    assert below(process) == []


@pytest.mark.parametrize("broken", ["full", "read-only", "missing"])
def test_a_volume_that_takes_nothing_stops_nothing(container: Container, agent: Agent, broken: str) -> None:
    volume = {
        "full": container.files,
        "read-only": Path("/proc/self/fdinfo"),
        "missing": container.folder / "none",
    }[broken]
    if broken == "full":
        for name in ("kept", "reports"):
            (volume / f"{name}.new").symlink_to("/dev/full")  # every write ends with ENOSPC
    process = container.start(COUNTED, RELIGHT_VOLUME=str(volume))
    agent.accept()
    agent.until("started", starts=1)
    container.wait_for("up")
    agent.order("stop")
    agent.until("state", state="stopped")
    agent.order("run")
    agent.until("started", starts=2)
    code, out, err = ended(process)

    assert (code, out) == (9, "start 1\nstart 2\n")
    assert err.count("cannot be written") == 1


def test_a_setting_that_cannot_be_read_is_its_default(container: Container) -> None:
    process = container.start(
        "exit 0", RELIGHT_VERDICT_WAIT="soon", RELIGHT_POD_GRACE="nan", RELIGHT_EPOCH="-1"
    )

    assert ended(process)[0] == 0


def test_a_precheck_that_hangs_does_not_hold_the_command(container: Container) -> None:
    os.mkfifo(container.folder / "stuck.host")  # reading it waits for a writer that never comes
    process = container.start("exit 0", RELIGHT_VOLCANO=str(container.folder), RELIGHT_CHECK_SECONDS="0.5")

    assert ended(process)[0] == 0


def test_a_supervisor_that_breaks_after_the_start_waits_for_the_command(
    container: Container, zipapp: Path
) -> None:
    breaks = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import supervisor.loop as loop\n"
        "def broken(self): raise RuntimeError('broken')\n"
        "loop.Supervisor._hear_agent = broken\n"
        "from supervisor.entry import main; main()\n"
    )
    script = 'trap "exit 8" TERM; touch "$HERE/up"; while :; do sleep 0.05; done'
    process = container.run([sys.executable, "-I", "-S", "-c", breaks, str(zipapp), "--", "sh", "-c", script])
    container.wait_for("up")
    process.send_signal(signal.SIGTERM)
    code, _, err = ended(process)

    assert code == 8
    assert "broke" in err


def test_a_supervisor_that_breaks_leaves_no_line_up_on_which_it_would_say_nothing(
    container: Container, agent: Agent, zipapp: Path
) -> None:
    breaks = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import supervisor.loop as loop\n"
        "def broken(self): raise RuntimeError('broken')\n"
        "loop.Supervisor._reap = broken\n"
        "from supervisor.entry import main; main()\n"
    )
    script = 'while [ ! -e "$HERE/enough" ]; do sleep 0.05; done; exit 8'
    process = container.run([sys.executable, "-I", "-S", "-c", breaks, str(zipapp), "--", "sh", "-c", script])
    agent.accept()
    assert agent.line is not None
    while agent.line.recv(65536):  # until its end; what is up for ever times out
        pass
    assert process.poll() is None
    (container.folder / "enough").touch()
    code, _, err = ended(process)

    assert code == 8
    assert "broke" in err


def test_words_that_can_no_longer_be_heard_are_told_as_such_not_as_silence(
    container: Container, agent: Agent, zipapp: Path
) -> None:
    often = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import supervisor.progress as progress\n"
        "progress.LOOK_EVERY = 0.0\n"
        "from supervisor.entry import main; main()\n"
    )
    script = (
        'folder=$(dirname "$RELIGHT_PROGRESS"); touch "$HERE/up"\n'
        'while [ ! -e "$HERE/lose" ]; do sleep 0.05; done; rm -r "$folder"; touch "$folder" "$HERE/lost"; exec sleep 60'
    )
    folder = container.folder / "tmp"
    folder.mkdir()
    container.run(
        [sys.executable, "-I", "-S", "-c", often, str(zipapp), "--", "sh", "-c", script],
        TMPDIR=str(folder),
        MA_HANG_DETECT_TIME="45",
    )
    assert agent.accept()["hang_minutes"] == 45
    container.wait_for("up")
    (container.folder / "lose").touch()
    container.wait_for("lost")
    agent.say("ack", seq=1)  # a turn, which comes each minute at least
    assert agent.line is not None
    while agent.line.recv(65536):  # until the supervisor ends it
        pass

    assert agent.accept()["hang_minutes"] == 0
    agent.until("started")


def test_where_orphans_cannot_be_adopted_the_group_is_still_waited_for(
    container: Container, agent: Agent, zipapp: Path
) -> None:
    unable = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import supervisor.loop as loop\n"
        "loop.adopt_orphans = lambda: False\n"
        "from supervisor.entry import main; main()\n"
    )
    script = 'sh -c \'trap "sleep 0.8; exit 0" TERM; touch "$HERE/up"; while :; do sleep 0.05; done\' & exec sleep 60'
    container.run([sys.executable, "-I", "-S", "-c", unable, str(zipapp), "--", "sh", "-c", script])
    agent.accept()
    container.wait_for("up")
    begun = time.monotonic()
    agent.order("stop", grace=10)
    agent.until("exit", signal=15)
    agent.until("state", state="stopped")

    assert time.monotonic() - begun >= 0.8


def test_a_supervisor_that_breaks_before_the_start_runs_the_command(
    container: Container, zipapp: Path
) -> None:
    breaks = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import supervisor.machine as machine\n"
        "def broken(*_, **__): raise RuntimeError('broken')\n"
        "machine.begin = broken\n"
        "from supervisor.entry import main; main()\n"
    )
    process = container.run(
        [sys.executable, "-I", "-S", "-c", breaks, str(zipapp), "--", "sh", "-c", "echo ran; exit 3"]
    )

    assert ended(process)[:2] == (3, "ran\n")


@pytest.mark.parametrize(("name", "code"), [("no-such-command", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_run_ends_as_in_a_shell(
    container: Container, zipapp: Path, agent: Agent, name: str, code: int
) -> None:
    process = container.run([sys.executable, "-I", "-S", str(zipapp), "--", name])
    agent.accept()
    agent.until("exit", code=code, ordered=False)

    assert ended(process)[0] == code


def test_the_agent_comes_late_and_hears_everything(container: Container) -> None:
    process = container.start('touch "$HERE/up"; sleep 60')
    container.wait_for("up")
    agent = Agent(container.folder / "agent.sock")
    try:
        hello = agent.accept()
        assert (hello["state"], hello["starts"], hello["launch"], hello["lost"]) == ("running", 1, 1, 0)
        agent.until("started", starts=1)
        agent.order("stop")
        agent.until("state", state="stopped")
        eventually(lambda: not below(process), "nothing lives")
    finally:
        agent.close()


def test_an_agent_that_says_no_word_holds_a_first_start_no_longer_than_it_is_waited_for(
    container: Container, agent: Agent
) -> None:
    begun = time.monotonic()
    process = container.start("exit 0", RELIGHT_WORD_WAIT="0.6")
    agent.accept()

    assert ended(process)[0] == 0
    assert 0.6 <= time.monotonic() - begun < 20


def test_without_an_agent_a_first_start_waits_for_no_word(container: Container) -> None:
    begun = time.monotonic()

    assert ended(container.start("exit 0", RELIGHT_WORD_WAIT="30"))[0] == 0
    assert time.monotonic() - begun < 20
