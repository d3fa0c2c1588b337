"""Taking a partition up: fence, read the state log, rebuild memory; seconds and bytes a cell at 100,000 cells.

Beside it stands the bare read of the same records by a plain consumer.

Run: python -m benchmarks restore
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewTopic

from benchmarks.report import Row
from recovery import encode_cell
from recovery.cells import PodCell, pod_name
from runtime.kafka import KafkaClients
from runtime.settings import KafkaSettings
from sandbox import kafka_jars
from sandbox.kafka_server import KafkaBroker
from schemas.ids import run_subject
from schemas.signals import NodeRef
from streams.core import RelightCore
from streams.kafka_log import KafkaStateLog
from streams.memory import Memory
from streams.ports import Place, StateRecord
from streams.settings import RecoverySettings
from streams.state_records import cell_key

CELLS = 100_000
AT_ONCE = 2_000
PODS_A_RUN = 1_000
TOPIC = "bench.state"


def records() -> list[StateRecord]:
    """Cells of a hundred runs with a thousand pods each."""
    made: list[StateRecord] = []
    for number in range(CELLS):
        subject = ("c", run_subject(f"run-{number // PODS_A_RUN}"))
        node = NodeRef(uid=f"0e6f1c52-8a0e-4d8e-9a57-{number:012d}", name=f"node-{number}")
        cell = PodCell(node=node, rank=number % PODS_A_RUN, epoch=1)
        made.append(
            (cell_key(subject, pod_name(f"6b7e0c1a-5a52-4f7e-8d3f-{number:012d}")), encode_cell(cell))
        )
    return made


async def measure(broker: KafkaBroker) -> list[Row]:
    """Write them, then take the partition up as a new owner does."""
    clients = KafkaClients(
        KafkaSettings(bootstrap=broker.bootstrap, replication_factor=1, min_insync_replicas=1), "bench"
    )
    admin = clients.admin()
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(20)
    written = records()
    with ThreadPoolExecutor(4) as pool:

        def new_log() -> KafkaStateLog:
            return KafkaStateLog(
                clients,
                Place(TOPIC, 0),
                transactional_id="bench-0",
                worker="bench",
                settings=RecoverySettings(),
                pool=pool,
            )

        writer, reader = new_log(), new_log()
        await writer.open()
        for first in range(0, CELLS, AT_ONCE):
            await writer.write(written[first : first + AT_ONCE])
        bare = _bare_read(clients)
        began = time.perf_counter()
        found = list(await reader.open())
        read = time.perf_counter() - began
        memory = Memory(RelightCore())
        memory.restore(found)
        whole = time.perf_counter() - began
        await reader.close()
        await writer.close()
    size = sum(len(key) + len(value or b"") for key, value in written) / CELLS
    said = f"bare read {bare:.2f} s"
    return [
        Row("restore", f"fence and read, {CELLS:,} cells", read, "s", said, read / bare),
        Row(
            "restore", f"fence, read and rebuild, {memory.cell_count:,} cells", whole, "s", said, whole / bare
        ),
        Row("restore", "bytes a cell, key and value", size, "bytes"),
    ]


def _bare_read(clients: KafkaClients) -> float:
    consumer = clients.reader()
    try:
        end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)[1]
        began = time.perf_counter()
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        while consumer.position([TopicPartition(TOPIC, 0)])[0].offset < end:
            consumer.consume(5_000, 0.05)
        return time.perf_counter() - began
    finally:
        consumer.close()


def rows() -> list[Row]:
    """Measured rows, for `python -m benchmarks`."""
    kafka_jars.fetch()
    with tempfile.TemporaryDirectory() as folder, KafkaBroker(Path(folder)) as broker:
        return asyncio.run(measure(broker))
