"""What is done to the workers, one kind a function: each while a backlog waits and sends are in flight."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schemas import topics
from tests.streams.toy_core import ToyCore
from tests.torture.pipeline import Pipeline, Process, wait_until
from tests.torture.script import Script
from tests.torture.verdict import ChainWatch, Referee, force_compaction

BACKLOG = 5_000
TRICKLE = 300
"""Events a second that keep coming all through a round."""


@dataclass(frozen=True)
class Patience:
    """How long things are kept away; `make soak` takes longer ones."""

    stopped: float
    """A stopped worker: beyond the session timeout of `pipeline.SHORT`."""
    broker_away: float


SHORT = Patience(stopped=5.0, broker_away=4.0)
LONG = Patience(stopped=8.0, broker_away=20.0)


class Torture:
    """A pipeline under torture, with everything needed to judge it."""

    def __init__(self, pipeline: Pipeline, seed: int, patience: Patience) -> None:
        self.pipeline = pipeline
        self.patience = patience
        self.dice = random.Random(seed)
        self.script = Script(seed)
        self.referee = Referee(pipeline, ToyCore())
        self.chain = ChainWatch(pipeline)
        self.workers: list[Process] = []
        self._producer = pipeline.clients.producer()
        self._sending = threading.Lock()

    def hire(self) -> Process:
        """Start a worker."""
        worker = self.pipeline.start()
        self.workers.append(worker)
        return worker

    def dismiss(self, worker: Process, number: signal.Signals) -> None:
        """End a worker."""
        self.workers.remove(worker)
        worker.end(number)

    def send(self, number: int) -> None:
        """Produce so many events to the inbox, as the router does: in the order of their origins, one thread at a time."""
        name = self.pipeline.name(topics.INBOX)
        with self._sending:
            for key, value in self.script.events(number):
                self._producer.produce(name, key=key, value=value)
                self._producer.poll(0)

    def flush(self) -> None:
        """Return when the broker has everything."""
        assert self._producer.flush(60) == 0

    def wait_until_busy(self) -> None:
        """Return somewhere in the middle of the backlog."""
        goal = sum(self.pipeline.ends(topics.INBOX).values()) - self.dice.randrange(BACKLOG // 4, BACKLOG)
        wait_until(lambda: self._applied() >= goal, "the workers get on with the backlog", every=0.02)

    def round(self, disturb: Callable[[Torture], None]) -> None:
        """Backlog, disturbance in the middle of it, rest, verdict."""
        self.send(BACKLOG)
        self.flush()
        going_on = threading.Event()
        going_on.set()
        trickle = threading.Thread(target=self._trickle, args=(going_on,))
        trickle.start()
        try:
            disturb(self)
        finally:
            going_on.clear()
            trickle.join()
        self.flush()
        self.judge()

    def judge(self) -> None:
        """Wait for rest and compare everything."""
        self.referee.wait_for_rest()
        self.referee.check(self.script.counted)
        assert not self.chain.broken, f"the chain of positions is broken: {self.chain.broken[:5]}"

    def _trickle(self, going_on: threading.Event) -> None:
        while going_on.is_set():
            self.send(TRICKLE // 20)
            time.sleep(1 / 20)

    def _applied(self) -> int:
        self.pipeline.require_alive()
        return sum(max(offset, 0) for offset in self.pipeline.committed("recovery").values())


def kill(torture: Torture) -> None:
    """Kill -9 in the middle; the state log is compacted before the next worker loads it."""
    torture.wait_until_busy()
    torture.dismiss(torture.workers[0], signal.SIGKILL)
    assert force_compaction(torture.pipeline) > 0
    torture.hire()


def terminate(torture: Torture) -> None:
    """SIGTERM in the middle."""
    torture.wait_until_busy()
    torture.dismiss(torture.workers[0], signal.SIGTERM)
    torture.hire()


def stop_and_continue(torture: Torture) -> None:
    """SIGSTOP beyond the session timeout, another takes over, then SIGCONT: two believe that they own the same partitions."""
    torture.wait_until_busy()
    sleeper = torture.workers[0]
    sleeper.send(signal.SIGSTOP)
    other = torture.hire()
    time.sleep(torture.patience.stopped)
    sleeper.send(signal.SIGCONT)
    torture.send(BACKLOG // 5)
    torture.flush()
    torture.wait_until_busy()
    torture.dismiss(other, signal.SIGTERM)


def join_and_leave(torture: Torture) -> None:
    """A second worker joins in the middle, and leaves in the middle of what comes then."""
    torture.wait_until_busy()
    other = torture.hire()
    wait_until(
        lambda: "partition taken up" in other.log.read_text(encoding="utf-8"),
        "the second worker gets partitions",
    )
    torture.send(BACKLOG // 5)
    torture.flush()
    torture.wait_until_busy()
    torture.dismiss(other, torture.dice.choice([signal.SIGTERM, signal.SIGKILL]))


def broker_away(torture: Torture) -> None:
    """The broker is gone for a while."""
    torture.wait_until_busy()
    broker = torture.pipeline.broker
    torture.dice.choice([broker.stop, broker.kill])()
    time.sleep(torture.patience.broker_away)
    broker.start()


def wrong_commit(torture: Torture) -> None:
    """The group's commit is set by hand while nobody works, ahead of the truth and behind it: the position in the state is what counts."""
    torture.wait_until_busy()
    torture.dismiss(torture.workers[0], signal.SIGTERM)
    truth = torture.pipeline.committed("recovery")
    wrong = {number: max(0, offset + torture.dice.choice([-300, 300])) for number, offset in truth.items()}
    torture.pipeline.commit("recovery", wrong)
    assert torture.pipeline.committed("recovery") == wrong
    torture.hire()


KINDS: dict[str, Callable[[Torture], None]] = {
    "kill": kill,
    "terminate": terminate,
    "stop and continue": stop_and_continue,
    "join and leave": join_and_leave,
    "broker away": broker_away,
    "wrong commit": wrong_commit,
}


def logs_of(folder: Path) -> str:
    """The end of what each worker of a folder said."""
    return "\n".join(
        f"--- {log.name}\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}"
        for log in sorted(folder.glob("*.log"))
    )
