"""Settings of the actuators, beside those of every process: `RELIGHT_KUBERNETES__RATE`, `RELIGHT_ACTING__DRY_RUN`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from runtime.settings import Duration, Group, KubernetesSettings, Settings


class IsolationSettings(Group):
    """Guards of isolating (design 8). Healing and releasing are never held up by them."""

    most: Annotated[int, Field(ge=0)] = 8
    """Nodes isolated at once at most, counted from our taints. 8: some hours of a large fleet's faults, not a switch's. Nothing: 0."""
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The same as a share of the fleet, one node at least; the smaller of the two holds. Off: 1."""
    most_an_hour: Annotated[int, Field(ge=0, le=1000)] = 16
    """Isolations begun within an hour at most. 16: twice what may stand at once. Off: 0."""
    fewest_left: Annotated[int, Field(ge=0)] = 1
    """Nodes that must stay usable (Ready, not cordoned by anybody), whatever happens. Off: 0."""
    most_runs: Annotated[int, Field(ge=0, le=1000)] = 8
    """Runs that may lose nodes within `runs_within`: more at once have a cause that is not their nodes. Off: 0."""
    runs_within: Duration = timedelta(minutes=10)
    """See `most_runs`."""
    pool: str = ""
    """Label selector of the fleet, `accelerator=gpu` say: what shares are taken of, and what may be isolated at all. Off: empty, all nodes."""
    protected_labels: tuple[str, ...] = (
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
        "relight.dev/protected",
    )
    """Nodes with any of these labels are never isolated and are no part of the fleet, as JSON list."""
    protected_namespaces: tuple[str, ...] = ("relight",)
    """Nodes that carry pods of these, DaemonSets' apart, are never isolated: relight's broker, store and workers. As JSON list; off: empty."""
    namespace: str = "relight"
    """Where Lease `relight-isolation` stands, which all actuators share."""
    reservation: Duration = timedelta(seconds=120)
    """After this a place that was taken and not used is free again: a killed actuator's. Far above the 10 s a command may take, so that clocks
    may differ."""

    def limit_of(self, fleet: int) -> int:
        """How many nodes of such a fleet may be isolated at once."""
        return min(self.most, max(1, int(self.share * fleet)))

    @model_validator(mode="after")
    def _lasts_longer_than_a_command(self) -> Self:
        if self.reservation < timedelta(seconds=30):
            raise ValueError(
                f"isolation.reservation ({self.reservation}) must be at least 30 s: a command takes up to 10 s"
            )
        return self


class SilentNodeSettings(Group):
    """A node that says nothing: when its pods are forced off (recovery 5)."""

    then: Literal["replace", "wait"] = "replace"
    """`replace`: pods that leave a node that is presumed gone are deleted by UID, though nobody has seen their processes end. `wait`: a human
    sets the out-of-service taint."""
    after: Duration = timedelta(minutes=5)
    """So long kubelet and agent are silent. Far above what a reboot of either takes."""
    others_heard: Annotated[float, Field(gt=0.5, le=1)] = 0.8
    """Share of the other nodes that must be heard meanwhile: else it is the API or the network, and nobody is gone."""
    heard_within: Duration = timedelta(seconds=60)
    """A node is heard when it is at most so far behind the one heard last. Six renewals of a kubelet."""
    namespace: str = "relight"
    """Where the Leases of node agents stand, `RELIGHT_PRESENCE__NAMESPACE` of the agents."""

    @model_validator(mode="after")
    def _is_longer_than_heard(self) -> Self:
        if self.after < self.heard_within:
            raise ValueError(
                f"silent_node.after ({self.after}) must be at least silent_node.heard_within ({self.heard_within})"
            )
        return self


class ActingSettings(Group):
    """How steps are carried out, and what an operator forbids. Never a rulebook's (finding R48)."""

    dry_run: bool = False
    """Write nothing to the cluster: every step that would is answered `blocked`, cause `guard:dry_run`. Off: false."""
    paused: bool = False
    """Begin nothing that stops, isolates or ends anything; what starts and releases goes on. Off: false."""
    time_limit: Duration = timedelta(seconds=6)
    """After this a command begins no further call and answers `pending`. With one call's timeout it stays under 10 s (finding R29)."""
    fan_out: Annotated[int, Field(ge=1, le=128)] = 16
    """Calls of all commands together at once; the rate is the client's. As many as it keeps connections."""
    renew_behind: Duration = timedelta(seconds=30)
    """A stop order is written again when its `until` is so far behind the new one. Half the margin the core adds (60 s)."""
    look_again: Duration = timedelta(seconds=2)
    """How long the core should wait at most before it asks again about what takes its time; the first look comes after half a second."""
    suspended_at_most: Duration = timedelta(minutes=10)
    """So long after our last look a job we suspended counts as forgotten: `relight let-go` resumes it. Outlasts a restart of all of relight."""
    retries: Annotated[int, Field(ge=1, le=10)] = 4
    """How often one object is read again and written anew when somebody else wrote it meanwhile."""
    most_nodes: Annotated[int, Field(ge=1, le=64)] = 16
    """Nodes one run is kept off at most (design 8)."""
    isolation: IsolationSettings = IsolationSettings()
    """Guards of isolating."""
    silent_node: SilentNodeSettings = SilentNodeSettings()
    """When a node counts as gone."""


class ActuatorSettings(Settings):
    """Everything `relight actuators` reads."""

    acting: ActingSettings = ActingSettings()
    kubernetes: KubernetesSettings = KubernetesSettings(timeout=timedelta(seconds=3), connections=64)
    """As for every process, but 3 s a call: a step makes a few and has 10 s; and a connection for each command."""
    subjects_at_once: Annotated[int, Field(ge=1, le=256)] = 64
    """Commands carried out at the same time; commands of one subject never are. Those that isolate are granted their places in lots: 200 nodes
    take a third less time than with 16."""
    in_flight: Annotated[int, Field(ge=1, le=100_000)] = 500
    """Commands taken and not confirmed; above it reading pauses."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        limit = self.acting.time_limit + self.kubernetes.timeout
        if limit >= timedelta(seconds=10):
            raise ValueError(
                f"acting.time_limit ({self.acting.time_limit}) and kubernetes.timeout ({self.kubernetes.timeout}) "
                "together must stay below 10 s: no command runs longer"
            )
        if self.kubernetes.connections < self.acting.fan_out:
            raise ValueError(
                f"kubernetes.connections ({self.kubernetes.connections}) must be at least acting.fan_out "
                f"({self.acting.fan_out}): else calls wait for each other's connections"
            )
        return self
