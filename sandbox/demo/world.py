"""The world of the demo and of `relight sandbox up`: a broker, a cluster with nodes, a store, all of relight, one training job.

Guarantees: what it starts ends with `stop`, or with the process that made it. Everything it keeps lies in one folder, and what others need to
reach it stands in two files there: `env` for a shell, `world.json` for `relight sandbox fault`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from runtime.errors import ApiError
from sandbox.clickhouse import ClickHouse
from sandbox.demo.parts import Parts
from sandbox.stage.stage import QUICK, Options, Stage
from sandbox.stage.training_job import TrainingJob

NODES: Final = 4
RANKS: Final = 3  # one node is the spare
SCRAPED: Final = (
    2  # so that whichever three nodes are chosen, some are seen by an exporter and some by their kernel log
)
JOB: Final = "llama-tiny"
STEP: Final = timedelta(milliseconds=50)
SAVE_EVERY: Final = 20
ENDLESS: Final = 10_000_000  # steps: at 50 ms each, six days
PATIENT: Final = Path(__file__).parent / "rulebook"
STORE_TIMEOUT: Final = "5m"
"""On a machine that does other things too, the engine is slow, not away."""
SETTINGS: Final = {
    # Seconds for the five minutes after which a silent node is presumed gone. What is presumed is the same.
    "RELIGHT_ACTING__SILENT_NODE__AFTER": "15s",
    "RELIGHT_ACTING__SILENT_NODE__HEARD_WITHIN": "15s",
    "RELIGHT_STORE__TIMEOUT": STORE_TIMEOUT,
}
ENV_FILE: Final = "env"
WORLD_FILE: Final = "world.json"
SILENT: Final = "silent"
"""Mark in a node's folder."""
ENDED_FILE: Final = "ended"
"""How the job ended, once it has."""


class World:
    """``with World(folder, parts, say) as world: ...``.

    Args:
        folder: everything goes there; it is empty or does not exist.
        parts: broker and cluster.
        say: hears what is being started, one sentence each.
        steps: length of the job.
    """

    def __init__(
        self, folder: Path, parts: Parts, say: Callable[[str], None], *, steps: int = ENDLESS
    ) -> None:
        self.folder = folder
        self.parts = parts
        self._say = say
        self._steps = steps
        self._running = ExitStack()
        self._silent: set[str] = set()

    def start(self) -> Self:
        """Start everything and submit the job. What was started is ended again when something fails."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self) -> None:
        self._say(f"starting {self.parts.told}, and the store")
        self.store = ClickHouse(self.folder / "store")
        self._running.callback(self.store.stop)
        self._running.callback(self.parts.end)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda start: start(), (self.store.start, *self.parts.start)))
        self._say(
            f"starting relight: router, recovery, watcher, actuators, audit, and {NODES} nodes with their agents"
        )
        options = Options(nodes=NODES, scraped=SCRAPED, rulebooks=(QUICK, PATIENT), settings=SETTINGS)
        self.stage = Stage(
            self.folder / "stage", self.parts.broker, self.parts.plane, options, store=self.store
        )
        self._running.callback(self.stage.stop)
        self.stage.start()
        self.job: TrainingJob = self.stage.job(
            JOB, ranks=RANKS, steps=self._steps, step_seconds=STEP.total_seconds(), save_every=SAVE_EVERY
        )
        self._say(f"submitting the job {JOB}: {RANKS} ranks, each on a node of its own, one node to spare")
        self.run = self.stage.submit(self.job)
        self._write_files()

    def stop(self) -> None:
        """End everything. Does nothing when nothing runs."""
        self._running.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def tend(self) -> None:
        """Do what is marked in the nodes' folders: let one fall silent, or speak again. Say once that the job has ended."""
        self._notice_the_end()
        for node in self.stage.nodes.values():
            wanted = (node.folder / SILENT).exists()
            if wanted and node.name not in self._silent:
                self._say(f"{node.name} falls silent")
                node.agent.suspend()
                node.kubelet.die()
                self._silent.add(node.name)
            elif not wanted and node.name in self._silent:
                self._say(f"{node.name} speaks again")
                node.kubelet.start()
                node.agent.resume()
                self._silent.discard(node.name)

    def _notice_the_end(self) -> None:
        """An API that is away is asked again the next time."""
        ended = self.folder / ENDED_FILE
        if ended.exists():
            return
        with suppress(ApiError):
            if how := self.stage.job_ended(self.job):
                ended.write_text(how, encoding="utf-8")
                self._say(f"the job has ended ({how}); for another one end this world and start it again")

    @property
    def logs(self) -> Path:
        """Folder of the logs of relight's processes."""
        return self.stage.folder / "logs"

    @property
    def env_file(self) -> Path:
        """Settings to source, so that every `relight` command works against this world; with the real control plane kubectl too."""
        return self.folder / ENV_FILE

    def _write_files(self) -> None:
        variables = {
            **self.stage.environment(),
            "KUBECONFIG": str(self.parts.plane.kubeconfig),
            "RELIGHT_SANDBOX": str(self.folder),
        }
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
        self.env_file.write_text("".join(lines), encoding="utf-8")
        nodes = {
            node.name: {
                "kernel_log": str(node.log.path) if node.reads_kernel_log else "",
                "chips": [{"bus": chip.bus, "uuid": chip.uuid} for chip in node.chips],
                "simulated": str(node.simulated.folder),
                "silent": str(node.folder / SILENT),
            }
            for node in self.stage.nodes.values()
        }
        told = {
            "nodes": nodes,
            "program": str(self.job.program),
            "ranks": self.job.ranks,
            "faults": str(self.job.faults),
            "ended": str(self.folder / ENDED_FILE),
        }
        (self.folder / WORLD_FILE).write_text(json.dumps(told, indent=2), encoding="utf-8")
