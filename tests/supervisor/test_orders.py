"""Desired state carried out by the zipapp on real processes."""

import json
import os
import signal
import time

import psutil
import pytest

from tests.supervisor.container import Agent, Container, below, ended, eventually

pytestmark = pytest.mark.slow
COUNTED = (
    'echo "$MA_SCHEDULE_CNT $MA_PROC_START_CNT $RELIGHT_ATTEMPT"; [ -e "$HERE/enough" ] && exit 0; '
    'touch "$HERE/up$RELIGHT_ATTEMPT"; exec sleep 60'
)


def test_stopped_whole_then_started_again_with_honest_counters(container: Container, agent: Agent) -> None:
    script = (
        'echo "$MA_SCHEDULE_CNT $MA_PROC_START_CNT $RELIGHT_ATTEMPT"; [ $MA_PROC_START_CNT = 2 ] && exit 0; '
        'setsid sleep 60 & sleep 60 & touch "$HERE/up"; wait'
    )
    process = container.start(script)
    assert agent.accept()["pod"] == "pod-1"
    agent.until("started", starts=1, launch=1)
    container.wait_for("up")
    eventually(lambda: len(below(process)) == 3, "the command and what it left to run")  # without `touch`
    running = below(process)
    agent.order("stop")
    agent.until("state", state="stopping")
    agent.until("exit", signal=15, ordered=True, attempt=1)
    agent.until("state", state="stopped", attempt=1)
    assert not [one for one in running if one.is_running()], "stopped is said when nothing lives"
    agent.order("run")
    agent.until("started", starts=2, launch=2)

    assert ended(process)[:2] == (0, "1 1 0\n1 2 1\n")


def test_stopped_is_not_said_while_a_process_that_outlives_the_command_lives(
    container: Container, agent: Agent
) -> None:
    process = container.start(
        'setsid sh -c \'trap "sleep 0.8; exit 0" TERM; touch "$HERE/up"; while :; do sleep 0.05; done\' & exec sleep 60'
    )
    agent.accept()
    container.wait_for("up")
    begun = time.monotonic()
    agent.order("stop", grace=10)
    agent.until("exit", signal=15)
    agent.until("state", state="stopped")

    assert time.monotonic() - begun >= 0.8
    assert below(process) == []


def test_a_command_that_ignores_term_is_killed_after_its_grace_and_not_before(
    container: Container, agent: Agent
) -> None:
    process = container.start('trap "" TERM; touch "$HERE/up"; sleep 60 & while :; do wait; done')
    agent.accept()
    container.wait_for("up")
    begun = time.monotonic()
    agent.order("stop", grace=0.7)
    agent.until("exit", signal=9, ordered=True)
    taken = time.monotonic() - begun
    agent.until("state", state="stopped")
    agent.order("release")

    assert 0.7 <= taken < 15, "long before the order itself runs out"
    assert ended(process)[0] == -9


def test_the_counter_starts_again_only_where_the_order_says_so(container: Container, agent: Agent) -> None:
    process = container.start(COUNTED)
    agent.accept()
    container.wait_for("up0")
    for attempt, counter in ((1, "continue"), (2, "reset"), (3, "continue")):
        (container.folder / "enough").touch() if attempt == 3 else None
        agent.order("stop", attempt=attempt)
        agent.until("state", state="stopped", attempt=attempt)
        agent.order("run", attempt=attempt, counter=counter)
        agent.until("started", attempt=attempt, launch=attempt + 1)
        if attempt < 3:
            container.wait_for(f"up{attempt}")

    assert ended(process)[:2] == (0, "1 1 0\n1 2 1\n1 1 2\n1 2 3\n")


def test_a_stop_is_renewed_by_saying_it_again_and_then_ends_by_itself(
    container: Container, agent: Agent
) -> None:
    process = container.start(COUNTED)
    agent.accept()
    container.wait_for("up0")
    begun = time.monotonic()
    agent.order("stop", seconds=2.0, otherwise="exit")
    agent.until("state", state="stopped")
    agent.order("stop", seconds=3.0, otherwise="exit")
    agent.until("state", state="stopped")
    code, _, _ = ended(process)

    assert code == -15
    assert time.monotonic() - begun >= 2.9


def test_orders_of_another_pod_older_ones_and_nonsense_are_refused(
    container: Container, agent: Agent
) -> None:
    process = container.start(COUNTED, RELIGHT_EPOCH="3")
    agent.accept()
    container.wait_for("up0")
    child = below(process)[0].pid

    def refused(reason: str) -> None:
        assert agent.until("refused")["reason"] == reason

    agent.order("stop", epoch=3, pod="pod-2")
    refused("not this pod")
    agent.order("stop", epoch=2, attempt=9)
    refused("older than the last order obeyed")
    agent.order("stop", epoch=3, seconds=-1)
    refused("its until has passed")
    for wrong in (
        {"grace": "x"},
        {"state": "purge"},
        {"attempt": True},
        {"otherwise": 1},
        {"counter": "zero"},
        {"until": 1e300},
    ):
        fields = {"pod": "pod-1", "epoch": 3, "attempt": 1, "state": "stop", "until": time.time() + 5}
        agent.say("desired", **{**fields, **wrong})
        refused("not an order")
    agent.say("perish", pod="pod-1")
    refused("not an order")
    agent.order("run", epoch=3, attempt=5)
    agent.until("state", state="running", epoch=3, attempt=5)
    agent.order("stop", epoch=3, attempt=4)
    refused("older than the last order obeyed")

    assert [one.pid for one in below(process)] == [child], "nothing was touched"


def test_the_same_order_again_is_answered_again_and_does_nothing_twice(
    container: Container, agent: Agent
) -> None:
    process = container.start(COUNTED)
    agent.accept()
    container.wait_for("up0")
    agent.order("stop")
    agent.until("state", state="stopped")
    agent.order("stop")
    agent.until("state", state="stopped")
    agent.order("run")
    agent.until("state", state="running")
    container.wait_for("up1")
    child = below(process)[0].pid
    agent.order("run")
    agent.until("state", state="running", starts=2)
    agent.order("stop")
    agent.until("refused", reason="older than the last order obeyed")

    assert [one.pid for one in below(process)] == [child]


def test_release_gives_the_code_that_was_held(container: Container, agent: Agent) -> None:
    process = container.start("exit 7", RELIGHT_VERDICT_WAIT="60")
    agent.accept()
    agent.until("state", state="held", code=7)
    agent.order("release")

    assert ended(process)[0] == 7


def test_the_agents_word_makes_a_verdict_wait_longer(container: Container, agent: Agent) -> None:
    process = container.start("exit 7", RELIGHT_VERDICT_WAIT="1.5")
    agent.accept()
    agent.until("state", state="held")
    begun = time.monotonic()
    agent.say("extend", pod="pod-1", until=time.time() + 2.5)

    assert ended(process)[0] == 7
    assert time.monotonic() - begun >= 2.3


def test_a_rank_that_exits_by_itself_during_the_stop_is_stopped_and_started_like_all(
    container: Container, agent: Agent
) -> None:
    process = container.start(
        '[ $MA_PROC_START_CNT = 2 ] && exit 0; touch "$HERE/up"; sleep 0.2; exit 3', RELIGHT_VERDICT_WAIT="60"
    )
    agent.accept()
    agent.until("exit", code=3, ordered=False)
    agent.order("stop")
    agent.until("state", state="stopped")
    agent.order("run")

    assert ended(process)[0] == 0


def test_the_pods_epoch_is_read_again_at_each_start(container: Container, agent: Agent) -> None:
    podinfo = container.folder / "annotations"
    podinfo.write_text('a="b"\nrelight.dev/epoch="2"\n', encoding="utf-8")
    process = container.start(COUNTED, RELIGHT_PODINFO=str(podinfo))
    assert agent.accept()["epoch"] == 2
    container.wait_for("up0")
    agent.order("stop", epoch=2)
    agent.until("state", state="stopped")
    podinfo.write_text('relight.dev/epoch="3"\n', encoding="utf-8")
    (container.folder / "enough").touch()
    agent.order("run", epoch=2)

    assert ended(process)[:2] == (0, "2 1 0\n3 2 0\n")


def test_a_higher_epoch_in_an_order_is_what_a_retained_pod_sees(container: Container, agent: Agent) -> None:
    process = container.start(COUNTED, RELIGHT_EPOCH="1")
    agent.accept()
    container.wait_for("up0")
    (container.folder / "enough").touch()
    agent.order("stop", attempt=4)
    agent.order("run", epoch=2, attempt=0)

    assert ended(process)[:2] == (0, "1 1 0\n2 2 0\n")


def test_orphans_are_adopted_and_reaped(container: Container, agent: Agent) -> None:
    process = container.start(
        'for i in 1 2 3; do (sleep 0.1 & sleep 30 &) ; done; touch "$HERE/up"; exec sleep 60'
    )
    agent.accept()
    container.wait_for("up")

    def settled() -> bool:
        """The command and three orphans that still live; the three that ended left no zombie."""
        try:
            found = [one.status() for one in psutil.Process(process.pid).children()]
        except psutil.NoSuchProcess:  # reaped between the two looks
            return False
        return len(found) == 4 and psutil.STATUS_ZOMBIE not in found

    eventually(settled, "orphans adopted and reaped")
    agent.order("stop")
    agent.until("state", state="stopped")

    assert below(process) == []


def test_a_signal_is_passed_to_the_command_and_not_to_its_children(
    container: Container, agent: Agent
) -> None:
    process = container.start(
        'trap "echo usr1; exit 0" USR1; sh -c \'trap "echo child >&2" USR1; while :; do sleep 0.05; done\' & '
        'touch "$HERE/up"; while :; do sleep 0.05; done'
    )
    agent.accept()
    container.wait_for("up")
    time.sleep(0.3)
    process.send_signal(signal.SIGUSR1)
    code, out, err = ended(process)

    assert (code, out) == (0, "usr1\n")
    assert "child" not in err


def test_the_kubelets_term_lets_the_group_save_before_the_container_ends(container: Container) -> None:
    saver = "trap 'sleep 0.4; echo saved; exit 0' TERM; touch \"$HERE/up\"; while :; do sleep 0.05; done"
    process = container.start(
        f"sh -c '{saver.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}' & wait; exit 4"
    )
    container.wait_for("up")
    process.send_signal(signal.SIGTERM)
    code, out, _ = ended(process)

    assert out == "saved\n"
    assert code == -15


def test_the_kubelets_term_ends_a_hold_with_the_commands_own_code(container: Container, agent: Agent) -> None:
    process = container.start("exit 7", RELIGHT_VERDICT_WAIT="60")
    agent.accept()
    agent.until("state", state="held")
    process.send_signal(signal.SIGTERM)

    assert ended(process)[0] == 7


def test_the_kubelets_term_does_not_wait_beyond_the_pods_grace(container: Container) -> None:
    process = container.start(
        'trap "" TERM; touch "$HERE/up"; while :; do sleep 0.05; done', RELIGHT_POD_GRACE="6"
    )
    container.wait_for("up")
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)

    assert ended(process)[0] == -9
    assert time.monotonic() - begun < 6


def test_what_is_remembered_of_a_pod_is_readable(container: Container, agent: Agent) -> None:
    process = container.start(COUNTED)
    agent.accept()
    container.wait_for("up0")
    agent.order("stop", attempt=2)
    agent.until("state", state="stopped")

    def kept() -> object:
        return json.loads((container.files / "kept").read_text(encoding="utf-8"))

    eventually(lambda: kept() == {"launches": 1, "starts": 1, "last": [1, 2, 0]}, "the rank on the volume")
    os.kill(process.pid, signal.SIGKILL)


def test_the_first_start_of_a_pod_waits_for_the_agents_word_however_short_the_check(
    container: Container, agent: Agent
) -> None:
    container.start('touch "$HERE/up"; exec sleep 60', RELIGHT_WORD_WAIT="30")
    hello = agent.accept()
    assert (hello["state"], hello["launch"], hello["ha"]) == ("checking", 0, True)
    time.sleep(0.7)
    agent.say("extend", pod="pod-1", until=time.time() + 60)  # it replaces one of its epoch
    time.sleep(0.7)
    assert not (container.folder / "up").exists()
    agent.order("run")
    agent.until("started", launch=1, attempt=1)


def test_a_word_that_nobody_is_waited_for_starts_the_command_at_once(
    container: Container, agent: Agent
) -> None:
    container.start('touch "$HERE/up"; exec sleep 60', RELIGHT_WORD_WAIT="30")
    agent.accept()
    agent.say("extend", pod="pod-1", until=time.time())

    agent.until("started", launch=1)
