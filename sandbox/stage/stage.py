"""The stage itself: relight's processes on a broker and a cluster that are given, nodes with kubelets and agents, and ways to look at all of it.

Guarantees: everything it starts ends with `stop`, or with the process that made it; waiting is bounded and fails with the whole story. It
reads the world from outside (API, topics, files of the job), as a person would, and never what a process holds in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from actuators.injection.inject import inject
from actuators.injection.options import InjectionOptions
from runtime import paths
from runtime.errors import ApiError, ApiNotFound
from runtime.kubernetes import Cluster, Object
from runtime.settings import KubernetesSettings, Settings
from sandbox.errors import SandboxError
from sandbox.kubelet import Kubelet, NodeOptions, Timing, identity
from sandbox.stage import story
from sandbox.stage.effects import Effects
from sandbox.stage.exporter import Exporter
from sandbox.stage.node import KernelLog, StageNode, chips_of
from sandbox.stage.parts import Broker, Plane, Store, asked_by
from sandbox.stage.program import ROOT, Program, bare_environment
from sandbox.stage.records import Records
from sandbox.stage.simulated_chips import SimulatedChips
from sandbox.stage.training_job import TrainingJob
from sandbox.training import build
from schemas.cluster import ISOLATED, JOB_UID_LABEL, RANK_LABEL
from supervisor.wrapper import WRAPPER

T = TypeVar("T")

QUICK: Final = Path(__file__).parent / "quick"
"""Rulebook laid over the default one: seconds for minutes."""
GPU: Final = "nvidia.com/gpu"
SOCKET: Final = Path("/run/relight/agent/supervisors.sock")  # where injection says that it is
AGENT_FOLDER: Final = SOCKET.parent
HEARTBEAT: Final = timedelta(seconds=1)
LOOK_EVERY: Final = 0.1
GONE_SECONDS: Final = 60.0
READY_SECONDS: Final = 60.0

SHORT: Final[Mapping[str, str]] = {
    "RELIGHT_KAFKA__REPLICATION_FACTOR": "1",
    "RELIGHT_KAFKA__MIN_INSYNC_REPLICAS": "1",
    "RELIGHT_TOPICS__PARTITIONS": "2",
    "RELIGHT_CONSUMER__SESSION_TIMEOUT": "3s",
    "RELIGHT_CONSUMER__HEARTBEAT": "500ms",
    "RELIGHT_CONSUMER__REBALANCE_TIMEOUT": "5s",
    "RELIGHT_CONSUMER__COMMIT_INTERVAL": "200ms",
    "RELIGHT_CONSUMER__FENCED_WAIT": "2s",
    "RELIGHT_CONSUMER__STOP_GRACE": "10s",
    "RELIGHT_PRESENCE__EVERY": "1s",
    "RELIGHT_LEASE__DURATION": "3s",
    "RELIGHT_LEASE__RENEW": "1s",
    # One node after another is isolated and released by hand here, in minutes: what guards are there to stop.
    "RELIGHT_ACTING__ISOLATION__SHARE": "1",
    "RELIGHT_ACTING__ISOLATION__MOST_AN_HOUR": "0",
    "RELIGHT_ACTING__ISOLATION__MOST_RUNS": "0",
    "RELIGHT_ACTING__ISOLATION__RESERVATION": "30s",
    "RELIGHT_RECOVERY__POSITION_INTERVAL": "500ms",
    "RELIGHT_RECOVERY__TRANSACTION_TIMEOUT": "5s",
}


class TimeUp(SandboxError):  # noqa: N818 - as in `sandbox.errors`
    """What was waited for did not come; the message holds the story."""


@dataclass
class Options:
    """What a stage consists of.

    Args:
        nodes: how many.
        chips: GPUs of each.
        scraped: how many of them (the first) have an exporter instead of a kernel log that is read: it shows a fault, not when it comes again.
        rulebooks: folders laid over the default rulebook, in order.
        settings: variables of all processes, over the short ones.
        settings_of: variables of one kind of process (`recovery`, `agent`), over all others.
    """

    nodes: int = 4
    chips: int = 1
    scraped: int = 0
    rulebooks: Sequence[Path] = (QUICK,)
    settings: Mapping[str, str] = field(default_factory=dict)
    settings_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Stage:
    """``with Stage(folder, broker, plane) as stage: stage.submit(stage.job("a")) ...``.

    With a store there is a record too: the audit's writer is one of the processes.
    """

    def __init__(
        self,
        folder: Path,
        broker: Broker,
        plane: Plane,
        options: Options | None = None,
        *,
        store: Store | None = None,
    ) -> None:
        self.folder = folder
        self.broker = broker
        self.plane = plane
        self.store = store
        self.options = options or Options()
        self.jobs: list[TrainingJob] = []
        self.nodes: dict[str, StageNode] = {}
        self.programs: dict[str, Program] = {}
        self.api = Cluster(
            KubernetesSettings(kubeconfig=plane.kubeconfig, timeout=timedelta(seconds=5)), "stage"
        )
        self.effects = Effects(self.api)
        self._chapter = datetime.now(UTC)
        self._notes: list[tuple[datetime, str]] = []
        self._jobs_made = 0
        self._logs = folder / "logs"
        self._records: Records | None = None
        self._training: Path | None = None
        self._exporter = Exporter()

    # ------------------------------------------------------------------ life

    def start(self) -> Self:
        """Make the topics, release the rulebook, start all processes, and wait until they work."""
        self._logs.mkdir(parents=True)
        self._exporter.start()
        self.effects.start()
        self.api.create(paths.namespaces(), {"metadata": {"name": "relight"}})
        self._training = build.build(self.folder / "train.pyz")
        self.run("topics", "create")
        self.run("rules", "release", *map(str, self.options.rulebooks), USER="stage")
        self._records = Records(self.settings())
        for name, says in self._says().items():
            self.programs[name] = self.program(name, name, says=says)
            self.programs[name].launch()
        if self.store is not None:
            self.run("audit", "migrate")
            self.programs["audit"] = self.program("audit", "audit", "run", says=("audit runs", 1))
            self.programs["audit"].launch()
        for number in range(self.options.nodes):
            node = self._start_node(f"node-{number}")
            self.nodes[node.name] = node
            self.programs[node.agent.name] = node.agent
        for program in self.programs.values():
            program.wait_until_ready()
        return self

    def stop(self) -> None:
        """End everything at once: nothing of it is of use any more."""
        for program in self.programs.values():
            program.kill()
        for node in self.nodes.values():
            node.close()
        self.effects.stop()
        self._exporter.stop()
        if self._records is not None:
            self._records.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def mend(self) -> None:
        """Let everything work again that was killed, frozen or told to misbehave, and wait until it does."""
        parts = [*self.plane.components, *self.programs.values()]
        for part in parts:
            if part.is_running:
                part.resume()
            else:
                part.launch()
        for part in parts:
            part.wait_until_ready()
        for node in self.nodes.values():
            node.mend()
        self.wait("all nodes to be Ready", self._all_released_and_ready, READY_SECONDS)
        self._chapter = datetime.now(UTC)
        self._notes.clear()

    def _all_released_and_ready(self) -> bool:
        """relight, back again, may isolate one meanwhile: of what it had begun when it was killed it heard only now how that ended."""
        for node in self.nodes.values():
            self.release(node)
        return self.all_nodes_ready()

    def isolated(self) -> list[str]:
        """Names of the nodes that carry relight's taint."""
        nodes = self.api.list(paths.nodes()).items
        keys = {
            node["metadata"]["name"]: {t["key"] for t in node["spec"].get("taints") or []} for node in nodes
        }
        return [name for name, found in keys.items() if ISOLATED in found]

    def release(self, node: StageNode) -> None:
        """Take relight's taint and cordon off, as a person with kubectl does. Does nothing where there are none."""
        spec = self.api.get(paths.nodes(node.name))["spec"]
        taints = spec.get("taints") or []
        left = [taint for taint in taints if taint["key"] != ISOLATED]
        if left != taints or spec.get("unschedulable"):
            change: Object = {"spec": {"unschedulable": None, "taints": left or None}}
            self.api.patch(paths.nodes(node.name), change, manager="kubectl-taint")

    def kill_relight(self) -> None:
        """End all of relight's processes at once, for good: `mend` starts them again."""
        for program in self.programs.values():
            program.kill()

    def restart_relight(self) -> None:
        """Start all of relight's processes that do not run, and wait until they work."""
        for program in self.programs.values():
            program.launch()
        for program in self.programs.values():
            program.wait_until_ready()

    def all_nodes_ready(self) -> bool:
        """Whether the control plane takes every node for Ready, and schedules on it."""
        ready = 0
        for node in self.api.list(paths.nodes()).items:
            conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
            ready += conditions.get("Ready") == "True" and not node["spec"].get("taints")
        return ready == len(self.nodes)

    def environment(self, of: str = "") -> dict[str, str]:
        """Variables of one kind of process."""
        return {
            **SHORT,
            "RELIGHT_CLUSTER": "stage",
            "RELIGHT_KAFKA__BOOTSTRAP": self.broker.bootstrap,
            "RELIGHT_KUBERNETES__KUBECONFIG": str(self.plane.kubeconfig),
            **({} if self.store is None else {"RELIGHT_STORE__PORT": str(self.store.port)}),
            **asked_by(self.broker),
            **self.options.settings,
            **self.options.settings_of.get(of, {}),
        }

    def _start_node(self, name: str) -> StageNode:
        folder = self.folder / "nodes" / name
        folder.mkdir(parents=True)
        kubelet = Kubelet(
            self.plane.kubeconfig_of(f"system:node:{name}", ["system:nodes"]),
            NodeOptions(
                name,
                devices={GPU: self.options.chips} if self.options.chips else {},
                host_paths={str(AGENT_FOLDER): folder / "agent"},
                environment={
                    "PYTHONPATH": str(ROOT)
                },  # relight's own image, from which injection copies, has relight in it
            ),
            folder / "kubelet",
            Timing(heartbeat=HEARTBEAT),
        ).start()
        uid = str(self.api.get(paths.nodes(name))["metadata"]["uid"])
        log, chips = KernelLog(folder / "kern.log", name), chips_of(name, self.options.chips)
        log.name_chips(chips)
        simulated = SimulatedChips(folder / "chips", [chip.uuid for chip in chips])
        simulated.make()
        page = self._exporter.add(name, simulated, [chip.bus for chip in chips])
        reads_kernel_log = len(self.nodes) >= self.options.scraped
        units = folder / "units.json"
        units.write_text(json.dumps(simulated.units()), encoding="utf-8")
        agent = self.program(
            f"agent-{name}", "node-agent", says=("node agent runs", 1),
            RELIGHT_NODE__NAME=name,
            RELIGHT_NODE__UID=uid,
            RELIGHT_SPOOL__FOLDER=str(folder / "spool"),
            RELIGHT_SOURCES__KERNEL_LOG="false",
            RELIGHT_SOURCES__KERNEL_LOG_FILES=json.dumps([str(log.path)] if reads_kernel_log else []),
            RELIGHT_SOURCES__EXPORTERS=json.dumps({"dcgm-exporter": page} if self.options.scraped else {}),
            RELIGHT_SOURCES__SCRAPE_EVERY="1s",
            RELIGHT_SOURCES__LOOK_EVERY="200ms",
            RELIGHT_SOURCES__HEARTBEAT_EVERY="5s",
            RELIGHT_ON_CLUSTER="true",
            RELIGHT_SUPERVISORS__SOCKET=str(folder / "agent" / SOCKET.name),
            RELIGHT_SUPERVISORS__PEERS_FROM="namespaces",
            RELIGHT_SUPERVISORS__PEERS_FOLDER=str(kubelet.folder / identity.FOLDER),
            RELIGHT_REPAIR__COMMAND=json.dumps(simulated.command("reset")),
            RELIGHT_REPAIR__CHECK=json.dumps(simulated.command("check")),
            RELIGHT_REPAIR__UNITS=str(units),
            RELIGHT_REPAIR__MUST_SEE_ALL="false",  # in a container there are processes of the machine nobody may look into
            RELIGHT_REPAIR__VERIFY_FOR="1s",
            RELIGHT_REPAIR__VERIFY_EVERY="200ms",
            RELIGHT_REPAIR__PER_CHIP="1000",
            RELIGHT_REPAIR__PER_NODE="1000",
        )  # fmt: skip
        agent.launch()
        return StageNode(name, uid, folder, kubelet, agent, log, chips, simulated, reads_kernel_log)

    def settings(self) -> Settings:
        """What processes have in common, as they read it."""
        told = self.environment()
        return Settings.model_validate(
            {
                "cluster": told["RELIGHT_CLUSTER"],
                "kafka": {
                    "bootstrap": self.broker.bootstrap,
                    "replication_factor": 1,
                    "min_insync_replicas": 1,
                },
                "topics": {
                    "partitions": int(told["RELIGHT_TOPICS__PARTITIONS"]),
                    "prefix": told.get("RELIGHT_TOPICS__PREFIX", ""),
                },
            }
        )

    def program(self, name: str, *arguments: str, says: tuple[str, int] = ("", 0), **more: str) -> Program:
        """A process of relight's that was not started yet; `more` are variables."""
        environment = {**self.environment(arguments[0]), **more}
        return Program(name, arguments, folder=self._logs, environment=environment, says=says)

    def twin(self, name: str) -> Program:
        """A second process of a kind that was not started yet: who takes the first one's place."""
        return self.program(f"{name}-twin", name, says=self._says()[name])

    def _says(self) -> dict[str, tuple[str, int]]:
        """What processes say once they work, and how often."""
        return {
            "router": ("started", 1),
            "recovery": ("partition taken up", self.settings().topics.partitions),
            "watcher": ("everything was listed", 1),
            "actuators": ("partitions taken up", 1),
        }

    def run(self, *arguments: str, given: str = "", **variables: str) -> str:
        """Run one command of `relight` to its end; returns what it printed.

        Raises:
            SandboxError: it ended with another code than 0.
        """
        done = subprocess.run(
            [sys.executable, "-m", "relight.cli", *arguments],
            input=given, capture_output=True, text=True, check=False,
            env={**bare_environment(self.folder), **self.environment(arguments[0]), **variables},
        )  # fmt: skip
        if done.returncode != 0:
            raise SandboxError(f"relight {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    # ------------------------------------------------------------------ jobs

    def job(self, name: str, **differs: object) -> TrainingJob:
        """A training job in the namespace `default`, with a folder of its own."""
        if self._training is None:
            raise SandboxError("the stage was not started")
        self._jobs_made += 1  # a folder of its own for each: what another left there is none of its business
        folder = self.folder / "jobs" / f"{self._jobs_made}-{name}"
        return TrainingJob(**{
            "name": name, "namespace": "default", "folder": folder, "program": self._training,
            "devices": str(self.folder / "nodes" / "$(NODE_NAME)" / "chips" / "dev"), **differs
        })  # type: ignore[arg-type]  # fmt: skip

    def submit(self, job: TrainingJob) -> str:
        """Inject and create it; returns the run's id. What a team does with two annotations and `relight inject` before it applies.

        Raises:
            SandboxError: it was not injected.
        """
        job.prepare()
        injection = inject(job.manifest(), InjectionOptions(wrapper=WRAPPER))
        if injection.untouched is not None:
            raise SandboxError(f"{job.name} was not injected: {injection.untouched}")
        self.jobs.append(job)
        created = self.api.create(paths.jobs(job.namespace), injection.manifest)
        return str(created["metadata"]["uid"])

    def remove(self, job: TrainingJob) -> None:
        """Delete it and wait until its pods are gone; does nothing when it is gone."""
        pods = self.pods(job)
        try:
            self.api.delete(paths.jobs(job.namespace, job.name))
        except ApiNotFound:
            return
        uids = {pod["metadata"]["uid"] for pod in pods}
        self.wait(
            f"pods of {job.name} to go",
            lambda: (
                not uids & {pod["metadata"]["uid"] for pod in self.api.list(paths.pods(job.namespace)).items}
            ),
            GONE_SECONDS,
        )

    def forget(self, job: TrainingJob) -> None:
        """Remove it, and leave it out of the story."""
        self.remove(job)
        self.jobs.remove(job)

    def job_object(self, job: TrainingJob) -> Object:
        """The Job as the API server has it."""
        return self.api.get(paths.jobs(job.namespace, job.name))

    def job_ended(self, job: TrainingJob) -> str:
        """`Complete`, `Failed`, or nothing while it has not ended."""
        for condition in self.job_object(job).get("status", {}).get("conditions") or []:
            if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
                return str(condition["type"])
        return ""

    def pods(self, job: TrainingJob) -> list[Object]:
        """Its pods, in the order of ranks."""
        try:
            uid = self.job_object(job)["metadata"]["uid"]
        except ApiNotFound:
            return []
        found = self.api.list(paths.pods(job.namespace), labels=f"{JOB_UID_LABEL}={uid}").items
        return sorted(found, key=_rank)

    def pod(self, job: TrainingJob, rank: int) -> Object:
        """The newest pod of a rank. Raises LookupError when there is none."""
        found = [pod for pod in self.pods(job) if _rank(pod) == rank]
        if not found:
            raise LookupError(f"{job.name} has no pod of rank {rank}")
        return max(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def node_of(self, job: TrainingJob, rank: int) -> StageNode:
        """The node on which a rank runs."""
        return self.nodes[self.pod(job, rank)["spec"]["nodeName"]]

    # ------------------------------------------------------------------ looking

    @property
    def records(self) -> Records:
        """What stands in the topics."""
        if self._records is None:
            raise SandboxError("the stage was not started")
        return self._records

    def wait(self, what: str, condition: Callable[[], T], seconds: float) -> T:
        """Until `condition` is true (and not just absent); an API that does not answer is asked again.

        Raises:
            TimeUp: it did not come true in time; the message tells what happened instead.
        """
        deadline = time.monotonic() + seconds
        trouble = ""
        while True:
            self.records.refresh()
            try:
                if found := condition():
                    return found
            except ApiError as error:
                trouble = f" ({error})"
            if time.monotonic() > deadline:
                raise TimeUp(f"waited {seconds} s in vain for {what}{trouble}{self.story()}")
            time.sleep(LOOK_EVERY)

    def note(self, text: str) -> None:
        """Write down what is done to it now: it stands in the story at its time."""
        self._notes.append((datetime.now(UTC), text))

    def story(self) -> str:
        """What happened since everything last worked."""
        self.records.refresh()
        pods = []
        for job in self.jobs:
            try:
                pods += self.pods(job)
            except ApiError as error:
                pods.append({"metadata": {"name": f"{job.name}: {error}"}})
        return story.tell(
            self.records, self.programs.values(), self.jobs, pods, since=self._chapter, notes=self._notes
        )


def _rank(pod: Object) -> int:
    return int(pod["metadata"]["labels"][RANK_LABEL])
