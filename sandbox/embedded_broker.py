"""librdkafka's in-process broker as a process of its own: Kafka for a machine that has nothing but Python (design 10).

``python -m sandbox.embedded_broker --address FILE --topic NAME...`` serves until SIGTERM. Guarantees: when `start` returns, clients of any
process reach it at `bootstrap` on loopback and its topics are there; it never outlives the process that started it.

What it is not, so that nobody tests on it what only the real one can show: it has no fence (a stale owner's commit goes through), hides no
aborted records, compacts nothing, cannot create, describe or delete topics, keeps producers' times and confirms each message with a made-up
one, and lives in memory: killed, it comes back empty and at another address. A topic appears with four partitions when it is first asked for,
keeps 5 MiB or 100,000 messages of each, and a group begins 3 s after its first member. `environment` is what relight's processes have to be
told about that.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from sandbox import ports
from sandbox.component import Component
from sandbox.errors import NotRunning, StartFailed
from schemas.topics import TOPICS

PARTITIONS: Final = 4
"""Of every topic; librdkafka has no other number."""
ENVIRONMENT: Final[Mapping[str, str]] = {
    "RELIGHT_KAFKA__REPLICATION_FACTOR": "1",
    "RELIGHT_KAFKA__MIN_INSYNC_REPLICAS": "1",
    "RELIGHT_TOPICS__PARTITIONS": str(PARTITIONS),
    "RELIGHT_TOPICS__CHECK_AT_START": "false",
    "RELIGHT_RECOVERY__FENCE": "off",
}
ANSWER_SECONDS: Final = 10.0
ROOT: Final = Path(__file__).resolve().parents[1]


class EmbeddedBroker(Component):
    """A broker with its own folder. ``with EmbeddedBroker(folder) as broker: ... broker.bootstrap``.

    Args:
        folder: where `address` and `broker.log` go; made when absent.
        prefix: of the catalogue's topics, which are there from the start.
        patience: how long `start` and `stop` wait before they give up (`start` raises, `stop` kills).
    """

    def __init__(
        self, folder: Path, *, prefix: str = "", patience: timedelta = timedelta(seconds=20)
    ) -> None:
        self._folder = folder
        self._address = folder / "address"
        topics = [word for topic in TOPICS for word in ("--topic", f"{prefix}{topic.name}")]
        super().__init__(
            "the embedded broker",
            ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "sandbox.embedded_broker",
             "--address", str(self._address), *topics],
            log_file=folder / "broker.log",
            is_ready=self._answers,
            patience=patience,
        )  # fmt: skip

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients, of the present run: another after each start."""
        try:
            return self._address.read_text(encoding="ascii")
        except FileNotFoundError:
            raise NotRunning("the embedded broker has no address before it is started") from None

    @property
    def environment(self) -> Mapping[str, str]:
        """What relight's processes need to be told besides its address."""
        return ENVIRONMENT

    def launch(self) -> None:
        """Start without waiting; an earlier run's address is not taken for this one's."""
        if not self.is_running:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._address.unlink(missing_ok=True)
        super().launch()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _answers(self) -> bool:
        with contextlib.suppress(NotRunning):
            host, _, port = self.bootstrap.rpartition(":")
            return ports.is_listened_on(int(port)) and host == ports.LOOPBACK
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.embedded_broker", description=__doc__)
    parser.add_argument(
        "--address", type=Path, help="file that gets HOST:PORT once it serves; default: printed"
    )
    parser.add_argument(
        "--topic", action="append", default=[], help="is there from the start; may be repeated"
    )
    options = parser.parse_args(arguments)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    # The broker is a part of this client, and ends with it.
    owner = Producer({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1, "log_level": 3})
    try:
        address = _serve(owner, options.topic)
    except (KafkaException, StartFailed) as error:
        sys.stderr.write(f"the embedded broker does not serve: {error}\n")
        return 1
    if options.address is None:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
    else:
        part = options.address.with_name(f"{options.address.name}.part")
        part.write_text(address, encoding="ascii")
        part.rename(options.address)  # whoever reads finds it whole
    over.wait()
    return 0


def _serve(owner: Producer, topics: Sequence[str]) -> str:
    broker = next(iter(owner.list_topics(timeout=ANSWER_SECONDS).brokers.values()))
    address = f"{broker.host}:{broker.port}"
    # Asking for a topic by name makes it; the owner itself does not ask the broker it holds in this way.
    asking = AdminClient({"bootstrap.servers": address})
    for topic in topics:
        found = len(asking.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions)
        if found != PARTITIONS:
            raise StartFailed(f"{topic} has {found} partitions; right would be {PARTITIONS}")
    return address


if __name__ == "__main__":
    sys.exit(main())
