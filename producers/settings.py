"""Settings of the node agent, beside those of every process: `RELIGHT_NODE__NAME`, `RELIGHT_SPOOL__MAX_BYTES`, `RELIGHT_SOURCES__KERNEL_LOG`."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from runtime.settings import Duration, Group, KubernetesSettings, Settings
from schemas.signals import LongPhase


class NodeSettings(Group):
    """Which node this is."""

    name: str = ""
    """Name of the Kubernetes node; what people read. Must be set."""
    uid: str = ""
    """Its `metadata.uid`: the identity everything hangs on. Must be set, except on a cluster: there the API is asked at the start."""


class Sync(StrEnum):
    """When the spool waits for the disk. A killed process loses nothing under any of these; a loss of power may."""

    ALWAYS = "always"
    """Each batch is on the disk before it counts as kept."""
    FAULTS = "faults"
    """Batches of faults and exits are; a loss of power may cost the last seconds of metrics."""
    NEVER = "never"
    """The kernel writes when it likes: a loss of power may cost the last half minute. For disks that wear out."""


class SpoolSettings(Group):
    """What is kept on disk until the broker has it."""

    folder: Path = Path("/var/lib/relight/node-agent")
    """State of the agent: the spool, the sources' cursors. One process a folder."""
    max_bytes: Annotated[int, Field(ge=64 * 1024)] = 256 * 1024 * 1024
    """Disk it may take. 256 MB: half a million events, days of a broken node. Above it metrics are dropped first."""
    segment_bytes: Annotated[int, Field(ge=4096)] = 4 * 1024 * 1024
    """Size of one file: what is dropped at once when metrics must go."""
    sync: Sync = Sync.FAULTS
    """When to wait for the disk. `faults`: faults are rare, so waiting costs nothing; heartbeats are worth no wait."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.segment_bytes * 4 > self.max_bytes:
            raise ValueError(
                f"segment_bytes ({self.segment_bytes}) must be at most a quarter of max_bytes ({self.max_bytes}): "
                "what is dropped at once must be a small part"
            )
        return self


class PublisherSettings(Group):
    """From the spool to the broker."""

    in_flight: Annotated[int, Field(ge=1, le=100_000)] = 2000
    """Events given to the client and not confirmed: what a restart sends again at most."""
    stop_grace: Duration = timedelta(seconds=5)
    """After SIGTERM, how long to wait for confirmations. What is left stays on disk and is sent by the next start."""
    again_after: Duration = timedelta(seconds=1)
    """Pause after the broker refused something (missing topic, missing rights) before it is sent again."""
    stale_after: Duration = timedelta(minutes=5)
    """The oldest event waits for so long: health goes red."""


class ClockSettings(Group):
    """The node's clock against the broker's."""

    synced_within: Duration = timedelta(seconds=1)
    """Offset up to which times of this node count as synced. 1 s: windows are minutes, phases of a recovery seconds."""
    uncertain_above: Duration = timedelta(seconds=2)
    """A measurement whose round trip is longer says nothing and is left out."""


class SourceSettings(Group):
    """Which eyes are open."""

    kernel_log: bool = True
    """Read `/dev/kmsg`. Off: false, where the device cannot be read."""
    kernel_log_device: Path = Path("/dev/kmsg")
    """The kernel's log device."""
    kernel_log_files: tuple[Path, ...] = ()
    """Files of kernel log lines to follow, as JSON list. Off: empty."""
    look_every: Duration = timedelta(seconds=1)
    """How often a file is looked at."""
    history: Duration = timedelta(hours=1)
    """At the very first start, faults older than this are old news."""
    exporters: dict[str, str] = Field(default_factory=dict)
    """Exporters to scrape: mapping table (`dcgm-exporter`, `npu-exporter`, or a path) to URL, as JSON object. Off: empty."""
    scrape_every: Duration = timedelta(seconds=15)
    """Between two scrapes. 15 s: what exporters themselves refresh at."""
    scrape_timeout: Duration = timedelta(seconds=5)
    """How long an exporter may take."""
    scrape_bytes: Annotated[int, Field(ge=1024)] = 16 * 1024 * 1024
    """Largest answer of an exporter that is read."""
    heartbeat_every: Duration = timedelta(minutes=1)
    """Between two heartbeats. One a minute and node is 210 messages a second for 12,500 nodes (design 12)."""
    again_after: Duration = timedelta(seconds=5)
    """Pause before a source that failed is asked again."""
    placements: Path | None = None
    """File that says what ran where (see `producers.placement`). Off: unset, signals carry no placement."""


class PeersFrom(StrEnum):
    """Whose word it is which pod a process belongs to."""

    CGROUP = "cgroup"
    """The kernel's control groups, as kubelets make them."""
    NAMESPACES = "namespaces"
    """Their process namespaces, or the process above them all, as a kubelet without control groups notes them in `peers_folder`."""


class PresenceSettings(Group):
    """The Lease by which this agent is heard."""

    enabled: bool = True
    """Renew it while the agent talks to the API. Off: this node is never presumed gone, a human has to say so."""
    every: Duration = timedelta(seconds=60)
    """Between renewals. 60 s: five within the silence that counts, and some 200 writes a second of 12,500 agents."""
    namespace: str = "relight"
    """Where it stands; it exists."""


class SupervisorSettings(Group):
    """The socket the supervisors in pods connect to."""

    socket: Path = Path("/run/relight/agent/supervisors.sock")
    """The socket. Pods mount its folder, since the file is a new one after each start of the agent."""
    mode: Annotated[int, Field(ge=0, le=0o777)] = 0o666
    """Permissions, as a number: containers run as any user, and who speaks is the kernel's word. 438 is 0666."""
    peers_from: PeersFrom = PeersFrom.CGROUP
    """Where a peer's pod is read from. Anything but `cgroup` is for trying things out."""
    peers_folder: Path | None = None
    """`namespaces` only: the kubelet's folder of these notes, writable by nobody else."""
    known_within: Duration = timedelta(seconds=15)
    """From the connection to a hello of a pod the API knows on this node; past it the line ends, and the supervisor tries again."""
    lines: Annotated[int, Field(ge=1)] = 512
    """Lines in all. 512: four containers in each of the 110 pods a node takes."""
    lines_of_a_pod: Annotated[int, Field(ge=1)] = 8
    """Lines of one pod."""
    lines_per_second: Annotated[float, Field(gt=0)] = 5.0
    """What one pod may say in the long run. 5: a step a second, and a report every other second, which counts five. More waits."""
    burst: Annotated[float, Field(ge=1)] = 1500.0
    """What one pod may say at once: the 256 reports a supervisor keeps for a new line, which count five each, and some more."""
    total_per_second: Annotated[float, Field(gt=0)] = 500.0
    """What all pods together may say in the long run."""
    total_burst: Annotated[float, Field(ge=1)] = 50_000.0
    """What all pods together may say at once: every pod of a node after a restart of the agent."""
    bytes_a_token: Annotated[int, Field(ge=1)] = 2048
    """Bytes of a line that count as one more line."""
    most_waiting: Annotated[int, Field(ge=4096)] = 65_536
    """Bytes that wait for a supervisor that does not read; above it its line ends."""
    spool_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Part of the spool that reports of pods may fill. Half: the node's own faults always have the other one."""
    progress_every: Duration = timedelta(seconds=1)
    """Between two steps told of one pod. Fleets of many thousand pods want 10 s: steps are most of what is sent."""
    promise_every: Duration = timedelta(seconds=20)
    """How often a supervisor that holds an exit is told that an answer will come."""
    promise_lasts: Duration = timedelta(seconds=120)
    """How long one such word lasts: what a held exit costs at most when the agent dies. As long as the supervisor holds by itself."""
    promise_at_most: Duration = timedelta(minutes=15)
    """From the exit on, no word is given any more: who has not decided by then will not."""

    replacement_waits: Duration = timedelta(seconds=120)
    """How long a pod that replaces one of its epoch is held before its first start, unless an order comes (finding Q20): long enough to
    decide and stop the group, as the wait for a verdict."""
    replacement_known_within: Duration = timedelta(seconds=2)
    """How long the API may take to say whether a pod is one; past it the pod is not held."""
    exit_told_within: Duration = timedelta(seconds=2)
    """After the kubelet says that a container ended: how long its supervisor's own report of the exit may still be on its way."""

    @model_validator(mode="after")
    def _says_who_speaks(self) -> Self:
        if (self.peers_from is PeersFrom.NAMESPACES) != (self.peers_folder is not None):
            raise ValueError(
                f"supervisors.peers_from is {self.peers_from.value!r} and supervisors.peers_folder is {self.peers_folder}; "
                "right would be a folder with 'namespaces', none with 'cgroup'"
            )
        return self


class HangSettings(Group):
    """When the processes of a pod are told to stand still (see `producers.supervisors.standstills`)."""

    enabled: bool = True
    """Look for it. Off: false, then no hang is told, whatever a run asks for."""
    after: Duration = timedelta(minutes=30)
    """From the last word of the processes on, for runs whose environment has no MA_HANG_DETECT_TIME (minutes; 0 is off for that run). 30 min:
    recovery 2. It must be far above the longest step: a run that makes steps of 40 min says so."""
    phases: dict[LongPhase, Duration] = Field(default_factory=dict)
    """How long a phase that is long by nature may be silent, as JSON object: `{"checkpoint": "2h", "evaluation": "6h"}`. Off: a phase that is
    not named may last for ever, start-up included. None by default: how long is too long only the site knows."""
    look_every: Annotated[Duration, Field(le=timedelta(seconds=20))] = timedelta(seconds=10)
    """Between two looks. 10 s: nothing beside half an hour, and nothing to pay for."""


class DeviceSettings(Group):
    """Which chips belong to which pod."""

    checkpoint: Path | None = Path("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")
    """The kubelet's file of grants (see `producers.device_grants`). Off: unset, then only pods' annotations tell."""


class AgentSettings(Settings):
    """Everything the node agent reads."""

    on_cluster: bool = False
    """Talk to the Kubernetes API: watch this node's pods, serve their supervisors, carry out repairs. Off: only watch chips and logs."""
    kubernetes: KubernetesSettings = KubernetesSettings(rate=10, burst=20, connections=4)
    """How to reach the API server: gently, 12,500 agents do."""
    supervisors: SupervisorSettings = SupervisorSettings()
    hangs: HangSettings = HangSettings()
    presence: PresenceSettings = PresenceSettings()
    devices: DeviceSettings = DeviceSettings()

    node: NodeSettings = NodeSettings()
    spool: SpoolSettings = SpoolSettings()
    publisher: PublisherSettings = PublisherSettings()
    node_clock: ClockSettings = ClockSettings()
    sources: SourceSettings = SourceSettings()

    @model_validator(mode="after")
    def _knows_who_it_is(self) -> Self:
        missing = [
            name
            for name, value in (
                ("RELIGHT_CLUSTER", self.cluster),
                ("RELIGHT_NODE__NAME", self.node.name),
                ("RELIGHT_NODE__UID", self.node.uid or self.on_cluster),
            )
            if not value
        ]
        if missing:
            raise ValueError(f"{', '.join(missing)} must be set: without them no signal has an identity")
        return self
