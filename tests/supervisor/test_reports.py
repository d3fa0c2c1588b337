"""What the agent hears: all of it, in order, once; from the process's first word to the end of the pod's last container."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.supervisor.container import Agent, Container, below, ended, eventually

pytestmark = pytest.mark.slow
TELL = Path(__file__).resolve().parents[2] / "supervisor"


def spooled(container: Container) -> list[dict[str, object]]:
    lines = (container.files / "reports").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[1:]]


def train(container: Container, text: str, **more: str) -> subprocess.Popen[str]:
    """A training script that has copied relight_progress.py beside itself."""
    for path in (container.folder / "train.py", container.folder / "relight_progress.py"):
        is_script = path.name == "train.py"
        path.write_text(
            text if is_script else (TELL / path.name).read_text(encoding="utf-8"), encoding="utf-8"
        )
    return container.start(f'exec {sys.executable} "$HERE/train.py"', **more)


def test_what_is_not_acknowledged_comes_again_after_the_agent_restarts_and_what_is_does_not(
    container: Container, agent: Agent
) -> None:
    container.start('touch "$HERE/up"; sleep 60')
    spool = agent.accept()["spool"]
    checks = [agent.until("precheck") for _ in range(7)]
    started = agent.until("started")
    numbers = [report["seq"] for report in [*checks, started]]
    assert numbers == sorted(set(numbers))
    agent.say("ack", seq=checks[-1]["seq"])
    eventually(
        lambda: [one["seq"] for one in spooled(container)] == [started["seq"]], "the acknowledged are gone"
    )
    agent.hang_up()
    agent.close()
    agent.listen()
    assert agent.accept()["spool"] == spool
    again = agent.next()
    assert {**again, "v": 0} == {**started, "v": 0}, "the same report, word for word"
    agent.say("ack", seq=again["seq"])
    eventually(lambda: not spooled(container), "the spool is empty")
    agent.hang_up()
    agent.accept()
    agent.order("stop")
    news = agent.next()

    assert (news["type"], news["seq"]) == ("state", again["seq"] + 1), "nothing old came"


def test_a_restarted_container_goes_on_counting_and_waits_for_the_agents_word(
    container: Container, agent: Agent
) -> None:
    script = 'echo "start $MA_PROC_START_CNT"; exit 3'
    first = container.start(script, RELIGHT_VERDICT_WAIT="60")
    spool = agent.accept()["spool"]
    last = agent.until("exit", code=3, launch=1, starts=1)
    agent.order("stop", otherwise="exit", seconds=1.5)
    assert ended(first)[0] == 3
    begun = time.monotonic()
    second = container.start(script, RELIGHT_VERDICT_WAIT="1")
    hello = agent.accept()
    assert (hello["state"], hello["spool"], hello["launch"]) == ("waiting", spool, 1)
    assert agent.until("started", launch=2, starts=2)["seq"] > last["seq"], "numbers go on"
    waited = time.monotonic() - begun
    code, out, err = ended(second)

    assert waited >= 1
    assert (code, out) == (3, "start 2\n")
    assert "item" not in err, "no second pre-check in the same pod"


def test_a_restarted_container_takes_no_old_order_for_the_agents_word(
    container: Container, agent: Agent
) -> None:
    first = container.start('touch "$HERE/up"; sleep 60')
    agent.accept()
    container.wait_for("up")
    agent.order("run", attempt=4)
    agent.until("state", attempt=4)
    os.kill(first.pid, signal.SIGTERM)
    ended(first)
    second = container.start("echo ran; exit 0", RELIGHT_VERDICT_WAIT="60")
    agent.accept()
    agent.order("run", attempt=4)
    assert agent.until("state", attempt=4, launch=1)["seq"]
    agent.order("stop", attempt=3)
    agent.until("refused", reason="older than the last order obeyed")
    assert second.poll() is None
    assert below(second) == [], "the stale run started nothing"
    agent.order("run", attempt=5)

    assert ended(second)[:2] == (0, "ran\n")


def test_a_stop_that_still_stands_holds_a_restarted_container(container: Container, agent: Agent) -> None:
    first = container.start('touch "$HERE/up"; sleep 60')
    agent.accept()
    container.wait_for("up")
    agent.order("stop", attempt=2)
    agent.until("state", state="stopped")
    first.send_signal(signal.SIGTERM)
    assert ended(first)[0] == -15
    second = container.start("echo ran; exit 0", RELIGHT_VERDICT_WAIT="1")
    agent.accept()
    agent.order("stop", attempt=2)
    agent.until("state", state="stopped", attempt=2)
    time.sleep(1.2)
    assert below(second) == []
    agent.order("run", attempt=2)

    assert ended(second)[:2] == (0, "ran\n")


def test_the_agents_word_during_the_precheck_holds_the_first_start(
    container: Container, agent: Agent
) -> None:
    process = container.start(
        "echo ran; exit 0",
        RELIGHT_PEERS="no.such.name.invalid",
        RELIGHT_CHECK_DNS_SECONDS="0.8",
        RELIGHT_VERDICT_WAIT="60",
    )
    agent.accept()
    agent.order("stop")
    agent.until("state", state="stopped")
    time.sleep(1)
    assert below(process) == []
    agent.order("run")

    assert ended(process)[:2] == (0, "ran\n")


def test_progress_of_the_training_process_reaches_the_agent(container: Container, agent: Agent) -> None:
    begun = time.monotonic()
    process = train(
        container,
        "import os, time\nfrom relight_progress import tell\n"
        "tell('milestone', 'first_step', step=1)\n"
        "for step in range(200): tell('step', step, step_seconds=0.01); time.sleep(0.01)\n"
        "tell('checkpoint', 200, edge='end', tier='local', path='/ckpt/200')\n"
        "tell('phase', 'evaluation', edge='begin')\n"
        "while not os.path.exists(os.path.join(os.environ['HERE'], 'heard')): time.sleep(0.01)\n",
    )
    agent.accept()
    milestone = agent.until("milestone")
    assert (milestone["name"], milestone["step"], milestone["pod"], milestone["starts"]) == (
        "first_step",
        1,
        "pod-1",
        1,
    )
    checkpoint = agent.until("checkpoint")
    assert (checkpoint["step"], checkpoint["edge"], checkpoint["path"]) == (200, "end", "/ckpt/200")
    assert agent.until("phase")["name"] == "evaluation"
    last = agent.until("progress", step=199)
    seconds = time.monotonic() - begun
    (container.folder / "heard").touch()
    steps = [one["step"] for one in agent.heard if one["type"] == "progress"]

    assert last["step_seconds"] == 0.01
    assert steps == sorted(steps)
    assert 2 <= len(steps) <= seconds + 2, "the newest, once a second"
    assert ended(process)[0] == 0


def test_each_new_line_says_how_far_the_process_that_runs_now_has_come(
    container: Container, agent: Agent
) -> None:
    train(
        container,
        "import os, time\nfrom relight_progress import tell\n"
        "if os.environ['MA_PROC_START_CNT'] == '1':\n"
        "    tell('step', 7)\n    tell('phase', 'evaluation', edge='begin')\n"
        "time.sleep(60)\n",
        MA_HANG_DETECT_TIME="45",
    )
    hello = agent.accept()
    assert (hello["hang_minutes"], hello["progress"]["step"]) == (45.0, None)
    phase = agent.until("phase")
    agent.hang_up()
    far = agent.accept()["progress"]
    assert (far["step"], far["open"], far["reported"]) == (7, ["evaluation"], phase["seq"])
    assert far["silent"] > 0
    agent.order("stop")
    agent.until("state", state="stopped")
    agent.order("run")
    agent.until("started", launch=2)
    agent.hang_up()
    hello = agent.accept()

    assert hello["launch"] == 2
    assert (hello["progress"]["step"], hello["progress"]["open"]) == (None, [])
    launches = {one["launch"] for one in agent.heard if one["type"] == "progress"}
    assert launches <= {1}  # said again each second


def test_hostile_words_of_the_process_replace_nothing_and_break_nothing(
    container: Container, agent: Agent
) -> None:
    forged = {
        "seq": 0,
        "pod": "pod-2",
        "run": "other",
        "v": 9,
        "type": "exit",
        "self": 1,
        "launch": 99,
        "epoch": 99,
    }
    process = train(
        container,
        "import json, os, socket, time\nfrom relight_progress import tell\n"
        f"tell('milestone', 'forged', **{forged!r})\n"
        "out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); out.connect(os.environ['RELIGHT_PROGRESS'])\n"
        "for line in (b'\\xff\\xfe', b'step -1', b'step 1e9', b'step ' + b'9' * 4000, b'x' * 5000, b'', b'milestone',\n"
        "             b'milestone a {', b'milestone a [1]', b'milestone a {\"x\": NaN}', b'milestone a {\"x\": 1e999}',\n"
        "             b'milestone a {\"x\":' + b'[' * 900 + b']' * 900 + b'}', b'checkpoint x', b'exit 0'):\n"
        "    out.send(line)\n"
        "tell('milestone', 'honest')\n"
        "while not os.path.exists(os.path.join(os.environ['HERE'], 'heard')): time.sleep(0.01)\n"
        "raise SystemExit(3)\n",  # an exit is heard before the words that are read with it
    )
    agent.accept()
    milestone = agent.until("milestone")
    assert (milestone["name"], milestone["pod"], milestone["run"]) == ("forged", "pod-1", "run-1")
    assert (milestone["v"], milestone["launch"], milestone["epoch"]) == (1, 1, 1)
    assert milestone["seq"] > 0
    names = [agent.until("milestone")["name"] for _ in range(4)]
    assert names == ["a", "a", "a", "honest"], "a field that is none costs itself"
    assert not [one for one in agent.heard if "x" in one]
    (container.folder / "heard").touch()
    agent.until("exit", code=3)

    assert ended(process)[0] == 3


def test_a_flood_of_words_does_not_crowd_out_the_exit(container: Container) -> None:
    process = train(
        container,
        "from relight_progress import tell\n"
        "for number in range(3000): tell('milestone', f'n{number}')\n"
        "raise SystemExit(4)\n",
    )
    assert ended(process)[0] == 4
    kinds = [one["type"] for one in spooled(container)]

    assert kinds.count("exit") == kinds.count("started") == 1
    assert 32 <= kinds.count("milestone") <= 45


def test_out_of_memory_is_told_apart_from_a_kill(container: Container, agent: Agent) -> None:
    events = container.folder / "memory.events"
    events.write_text("low 0\noom 2\noom_kill 2\n", encoding="utf-8")
    script = (
        "[ $MA_PROC_START_CNT = 1 ] && kill -KILL $$; "
        'printf "low 0\\noom 3\\noom_kill 3\\n" > "$HERE/memory.events"; kill -KILL $$'
    )
    process = container.start(script, RELIGHT_MEMORY_EVENTS=str(events), RELIGHT_VERDICT_WAIT="60")
    agent.accept()
    agent.until("exit", signal=9, oom=False, launch=1)
    agent.order("run")
    agent.until("exit", signal=9, oom=True, launch=2)
    agent.order("release")

    assert ended(process)[0] == -9


def test_where_memory_events_cannot_be_read_it_says_so(container: Container, agent: Agent) -> None:
    process = container.start("exit 1", RELIGHT_MEMORY_EVENTS="/nowhere")
    agent.accept()

    assert agent.until("exit")["oom"] is None
    ended(process)


def test_a_failed_precheck_says_so_and_is_held(container: Container, agent: Agent) -> None:
    process = container.start("echo ran", RELIGHT_CHECK_ROOT_GIB="99999999")
    agent.accept()
    failed = agent.until("precheck", result="failed")
    assert failed["item"] == "disk-size root"
    assert failed["seconds"] >= 0
    agent.until("state", state="held", code=1)
    code, out, err = ended(process)

    assert (code, out) == (1, "")
    assert "item disk-size root: failed" in err
    assert err.rstrip().endswith("error,exiting")
