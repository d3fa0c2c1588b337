"""Settings of the cluster watcher: `RELIGHT_WATCH__JOB_LABELS`, `RELIGHT_LEASE__ENABLED`, `RELIGHT_KUBERNETES__KUBECONFIG`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator

from producers.settings import PublisherSettings
from runtime.settings import Duration, Group, KubernetesSettings, Settings

_SPOT_WINDOW = timedelta(minutes=2)


class WatchSettings(Group):
    """What is looked at, and how it is read."""

    job_labels: str = ""
    """Label selector of Jobs. Off: empty, Jobs of the whole cluster."""
    every_job: bool = False
    """Tell of every Job; off: of those that ask for devices, carry annotations of ours, or have a supervisor."""
    devices: tuple[str, ...] = ("nvidia.com/gpu", "nvidia.com/mig-", "huawei.com/", "amd.com/gpu")
    """What resource names of chips begin with, as JSON list."""
    node_labels: str = ""
    """Label selector of nodes. Off: empty, all nodes: pods of runs on others would wait for ever."""
    node_conditions: tuple[str, ...] = (
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "NetworkUnavailable",
        "KernelDeadlock",
        "ReadonlyFilesystem",
        "XfsShutdown",
        "ContainerRuntimeUnhealthy",
        "NT_NPU_DEVICE",
        "NT_NPU_NET",
        "NT_NPU_CARD_LOSE",
        "NT_NPU_OTHER",
        "NT_NPU_ECC_COUNT",
        "NT_NET_NTP_CHECK",
        "NT_KUBE_DISK_READONLY_CHECK",
    )
    """Condition types beside Ready that mean a fault while True, as JSON list: those of the table of node conditions."""
    preemption_taints: dict[str, Duration] = Field(
        default_factory=lambda: {
            "aws-node-termination-handler/spot-itn": _SPOT_WINDOW,
            "cloud.google.com/impending-node-termination": timedelta(seconds=30),
        }
    )
    """Taints by which a cloud says that it takes a node away, and how long after; as JSON object. Off: empty."""
    controllers: tuple[str, ...] = (
        "kube-controller-manager",
        "kubelet",
        "kube-scheduler",
        "cloud-controller-manager",
        "cluster-autoscaler",
        "node-problem-detector",
        "karpenter",
    )
    """Field managers that are no humans: taking our taint off, they do not release a node. As JSON list."""
    protected_label: str = "relight.dev/protected"
    """A node with this label is never isolated; control-plane nodes never are."""
    protected_namespaces: tuple[str, ...] = ("relight",)
    """Nodes that carry pods of these are never isolated: relight's own broker, store and workers. As JSON list; off: empty."""
    agents: str = ""
    """Label selector of the node agents' pods: where one is not ready for a minute, what killed a supervisor is told from here. Off: empty,
    then nothing is known of agents, and such an exit of a command that was restarted in place is the agent's alone to tell."""
    repeat: Duration = timedelta(minutes=30)
    """Every state is told again within this time, spread evenly. 12,500 nodes with a pod each: 14 messages a second."""
    memory: Duration = timedelta(hours=1)
    """How far back a start reads what was told. Twice `repeat`: whatever stands was told again in between."""
    relist: Duration = timedelta(minutes=10)
    """A whole list is made so often even if the watches seem fine."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.memory < 2 * self.repeat:
            raise ValueError(
                f"memory ({self.memory}) must be at least twice repeat ({self.repeat}): "
                "what was not told again within it would be forgotten at a start"
            )
        return self


class LeaseSettings(Group):
    """Only one watcher speaks at a time."""

    enabled: bool = True
    """Off: this watcher speaks at once. Two that speak tell the same facts twice, which is harmless."""
    namespace: str = "relight"
    """Namespace of the Lease."""
    name: str = "relight-watcher"
    """Name of the Lease."""
    holder: str = ""
    """Who we are. Unset: host name and process id."""
    duration: Duration = timedelta(seconds=15)
    """How long a silent holder keeps it: what a killed watcher costs."""
    renew: Duration = timedelta(seconds=5)
    """Between renewals; a third of the duration."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.renew * 2 > self.duration:
            raise ValueError(f"renew ({self.renew}) must be at most half of duration ({self.duration})")
        return self


class OutboxSettings(Group):
    """What waits for the broker."""

    most: Annotated[int, Field(ge=1)] = 200_000
    """Events that may wait in memory, some 200 MB; above it the watcher stops reading and catches up from a list later."""


class WatcherSettings(Settings):
    """Everything the cluster watcher reads."""

    kubernetes: KubernetesSettings = KubernetesSettings()
    watch: WatchSettings = WatchSettings()
    lease: LeaseSettings = LeaseSettings()
    outbox: OutboxSettings = OutboxSettings()
    publisher: PublisherSettings = PublisherSettings()

    @model_validator(mode="after")
    def _knows_its_cluster(self) -> Self:
        if not self.cluster:
            raise ValueError("RELIGHT_CLUSTER must be set: without it no fact has an identity")
        return self
