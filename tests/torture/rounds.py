"""What is done to the workers, one kind a function: each while a backlog waits and sends are in flight."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from confluent_kafka import TopicPartition

from recovery.cells import WindowCell
from relight.rulebook_release import Releases
from sandbox.kafka_server import KafkaBroker
from schemas import topics
from schemas.envelope import Event, decode
from schemas.records import Decision
from streams.core import RelightCore
from tests.torture import run_script
from tests.torture.live_world import CLUSTER
from tests.torture.pipeline import PARTITIONS, Pipeline, Process, wait_until
from tests.torture.run_script import RunScript
from tests.torture.verdict import ChainWatch, Referee, Standing, force_compaction

BACKLOG: Final = 5_000
TRICKLE: Final = 60
"""Messages a second that keep coming all through a round: enough that sends are in flight at any moment."""
MOST_TRICKLED: Final = 1_800
"""Half a minute of them, which outlasts a broker that is away: a slow machine must not be given ever more."""
WALKED: Final = frozenset({"stop_processes", "heal_chips", "isolate_node", "suspend_job", "resume_job"})
"""Steps that some run was taken through, or the rounds were about nothing."""


@dataclass(frozen=True)
class Patience:
    """How long things are kept away."""

    stopped: float
    """A stopped worker: beyond the session timeout of `pipeline.SHORT`."""
    broker_away: float
    applied: float
    """How long the workers may take to apply what they were given: generous, the machine may be busy."""


SHORT = Patience(stopped=5.0, broker_away=20.0, applied=90.0)
LONG = Patience(stopped=8.0, broker_away=20.0, applied=300.0)


class Torture:
    """A pipeline under torture, with everything needed to judge it."""

    def __init__(self, pipeline: Pipeline, seed: int, patience: Patience) -> None:
        self.pipeline = pipeline
        self.patience = patience
        self.dice = random.Random(seed)
        self.script = RunScript(seed)
        document, rulebook = run_script.rulebook()
        releases = Releases(pipeline.settings, pipeline.clients, CLUSTER, timedelta(seconds=20))
        release = releases.publish(document, by="torture", now=datetime.now(UTC))
        assert len(releases.switch(release, by="torture", now=datetime.now(UTC)).confirmed) == PARTITIONS
        self.referee = Referee(pipeline, RelightCore(), {rulebook.hash: rulebook})
        self.chain = ChainWatch(pipeline)
        self.workers: list[Process] = []
        self._producer = pipeline.clients.producer()
        self._sending = threading.Lock()
        self._firings: dict[str, run_script.Place] = {}
        self._decisions_read_to: Counter[int] = Counter()
        self._actuators = Actuators(self)

    def hire(self) -> Process:
        """Start a worker."""
        worker = self.pipeline.start()
        self.workers.append(worker)
        return worker

    def dismiss(self, worker: Process, number: signal.Signals) -> None:
        """End a worker."""
        self.workers.remove(worker)
        worker.end(number)

    def end(self) -> None:
        """Stop everything."""
        self._actuators.end()
        self.chain.end()
        self.pipeline.end_all()

    def send(self, made: Callable[[], Iterable[run_script.Record]]) -> None:
        """Produce to the inbox, as the router does: in the order of their origins, one thread at a time."""
        name = self.pipeline.name(topics.INBOX)
        with self._sending:
            for key, value in made():
                self._producer.produce(name, key=key, value=value)
                self._producer.poll(0)

    def send_events(self, number: int) -> None:
        """Produce so many of the script's next events."""
        self.send(lambda: self.script.events(number))

    def flush(self) -> None:
        """Return when the broker has everything."""
        assert self._producer.flush(60) == 0

    def wait_until_busy(self) -> None:
        """Return somewhere in the middle of the backlog."""
        goal = sum(self.pipeline.ends(topics.INBOX).values()) - self.dice.randrange(BACKLOG // 4, BACKLOG)
        wait_until(
            lambda: self._applied() >= goal,
            "the workers get on with the backlog",
            patience=self.patience.applied,
            every=0.02,
        )

    def round(self, disturb: Callable[[Torture], None]) -> None:
        """Backlog, disturbance in the middle of it, everything applied, verdict. One half of the runs is quiet from the disturbance on."""
        self.send_events(BACKLOG)
        self.flush()
        with self._sending:
            self.script.hush()
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
        """Wait until everything is applied and compare everything."""
        self.referee.wait_until_applied(self.patience.applied)
        standing = self.referee.check()
        self._check_counts(standing)
        assert not self.chain.broken, f"the chain of positions is broken: {self.chain.broken[:5]}"
        assert not sum(self.pipeline.ends(topics.DEADLETTERS).values()), "something became a dead letter"

    def require_walked(self) -> None:
        """Some runs were taken through the steps of the ladder."""
        walked = self.script.commands
        assert walked.keys() >= WALKED, f"nobody was taken through more than {walked}"

    def _check_counts(self, standing: Standing) -> None:
        """What the counted rule counted is what the script did: firings and what its windows still hold."""
        for number in range(PARTITIONS):
            for message in self.pipeline.read(topics.DECISIONS, number, self._decisions_read_to[number]):
                self._decisions_read_to[number] = (message.offset() or 0) + 1
                event = decode(message.value() or b"")
                if isinstance(event.data, Decision) and event.data.rule == run_script.RULE:
                    self._firings[event.id] = event.subject, event.data.chip or ""
        found = Counter(dict.fromkeys(self._firings.values(), 0))
        for place in self._firings.values():
            found[place] += run_script.AT_LEAST
        for (_, _, subject, name), raw in standing.raw.items():
            if name.startswith(f"window/{run_script.RULE}/"):
                cell = RelightCore().decode_cell(raw)
                assert isinstance(cell, WindowCell)
                found[subject, name.split("/")[2]] += len(cell.times)
        right = {place: times for place, times in self.script.counted.items() if times}
        wrong = {place: (right.get(place), found.get(place)) for place in right.keys() | found.keys()}
        wrong = {place: both for place, both in wrong.items() if both[0] != both[1]}
        assert not wrong, f"{len(wrong)} places miscounted, such as {next(iter(wrong.items()))}"

    def _trickle(self, going_on: threading.Event) -> None:
        left = MOST_TRICKLED
        while going_on.is_set() and left > 0:
            self.send_events(TRICKLE // 20)
            left -= TRICKLE // 20
            time.sleep(1 / 20)

    def _applied(self) -> int:
        self.pipeline.require_alive()
        return sum(max(offset, 0) for offset in self.pipeline.committed("recovery").values())


class Actuators:
    """Carry out what the stage commands, all through the rounds, and answer into the inbox."""

    def __init__(self, torture: Torture) -> None:
        self._torture = torture
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop working."""
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        pipeline = self._torture.pipeline
        consumer = pipeline.clients.reader()
        name = pipeline.name(topics.COMMANDS)
        consumer.assign([TopicPartition(name, number, 0) for number in range(PARTITIONS)])
        while not self._stop.is_set():
            messages = consumer.consume(100, 0.05)
            events = [decode(message.value() or b"") for message in messages if message.error() is None]
            if events:
                self._torture.send(partial(self._answers, events))
        consumer.close()

    def _answers(self, events: list[Event]) -> list[run_script.Record]:
        return [record for event in events for record in self._torture.script.answers(event)]


def kill(torture: Torture) -> None:
    """Kill -9 in the middle; the state log is compacted before the next worker loads it."""
    torture.wait_until_busy()
    torture.dismiss(torture.workers[0], signal.SIGKILL)
    assert force_compaction(torture.pipeline) > 0
    torture.hire()


def terminate(torture: Torture) -> None:
    """SIGTERM in the middle; the state log is compacted before the next worker loads it."""
    torture.wait_until_busy()
    torture.dismiss(torture.workers[0], signal.SIGTERM)
    assert force_compaction(torture.pipeline) > 0
    torture.hire()


def stop_and_continue(torture: Torture) -> None:
    """SIGSTOP beyond the session timeout, another takes over, then SIGCONT: two believe that they own the same partitions."""
    torture.wait_until_busy()
    sleeper = torture.workers[0]
    sleeper.send(signal.SIGSTOP)
    other = torture.hire()
    time.sleep(torture.patience.stopped)
    sleeper.send(signal.SIGCONT)
    torture.send_events(BACKLOG // 5)
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
        patience=torture.patience.applied,
    )
    torture.send_events(BACKLOG // 5)
    torture.flush()
    torture.wait_until_busy()
    torture.dismiss(other, torture.dice.choice([signal.SIGTERM, signal.SIGKILL]))


def broker_away(torture: Torture) -> None:
    """The broker is gone for a while."""
    torture.wait_until_busy()
    broker = torture.pipeline.broker
    assert isinstance(broker, KafkaBroker)
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
    assert force_compaction(torture.pipeline) > 0
    torture.hire()


KINDS: dict[str, Callable[[Torture], None]] = {
    "kill": kill,
    "terminate": terminate,
    "stop and continue": stop_and_continue,
    "join and leave": join_and_leave,
    "broker away": broker_away,
    "wrong commit": wrong_commit,
}
