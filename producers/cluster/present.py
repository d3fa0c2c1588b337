"""The cluster as it stands: what the informers last said, with the few indexes that keep each event's cost independent of a job's size."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Final

from producers.cluster.agents import AgentPod
from producers.cluster.exits import Agent
from producers.cluster.nodes import Node
from producers.cluster.pods import Pod
from producers.cluster.runs import Run

AGENT_SILENT: Final = timedelta(seconds=60)
"""An agent that is not ready for so long tells nothing: a restart takes less."""


class Present:
    """Objects by identity, and who belongs to whom."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        """By UID."""
        self.names: dict[str, str] = {}
        """Node UID by name, for the names pods carry."""
        self.jobs: dict[str, Run] = {}
        """By UID; only those that are watched."""
        self.objects: dict[str, str] = {}
        """UID of the present Job by run."""
        self.pods: dict[str, Pod] = {}
        """By UID; of all Jobs."""
        self.pods_of_job: dict[str, set[str]] = defaultdict(set)
        self.pods_by_node_name: dict[str, set[str]] = defaultdict(set)
        self.agents: dict[str, dict[str, AgentPod]] = defaultdict(dict)
        """Pods of node agents, by name of the node and UID."""
        self.members: dict[str, set[str]] = defaultdict(set)
        """Pods that are there, by run: bound and alive, or succeeded."""
        self.living: dict[str, set[str]] = defaultdict(set)
        """Pods that were bound and have not ended, by node UID."""

    def agent_on(self, node: str, now: datetime) -> Agent:
        """Whether the node's agent speaks; one that is silent for a moment only is being replaced, and tells what it missed."""
        there = self.agents.get(node, {}).values()
        if not there:
            return "unknown"
        silent = all(
            agent.unready_since is not None and now - agent.unready_since >= AGENT_SILENT for agent in there
        )
        return "silent" if silent else "speaks"

    def node_named(self, name: str) -> Node | None:
        """The node that has the name now."""
        uid = self.names.get(name)
        return self.nodes.get(uid) if uid is not None else None

    def workload_of(self, run: str) -> Run | None:
        """The present Job of a run."""
        uid = self.objects.get(run)
        return self.jobs.get(uid) if uid is not None else None

    def put_pod(self, pod: Pod) -> None:
        """A pod as it is now."""
        self.pods[pod.uid] = pod
        self.pods_of_job[pod.job_uid].add(pod.uid)
        if pod.node:
            self.pods_by_node_name[pod.node].add(pod.uid)

    def drop_pod(self, pod: Pod) -> None:
        """A pod's object is gone."""
        self.pods.pop(pod.uid, None)
        _discard(self.pods_of_job, pod.job_uid, pod.uid)
        _discard(self.pods_by_node_name, pod.node, pod.uid)

    def put_agent(self, uid: str, agent: AgentPod) -> None:
        """A node agent's pod as it is now."""
        if agent.node:
            self.agents[agent.node][uid] = agent

    def drop_agent(self, uid: str, agent: AgentPod) -> None:
        """Its object is gone."""
        there = self.agents.get(agent.node, {})
        there.pop(uid, None)
        if not there:
            self.agents.pop(agent.node, None)

    def place(self, uid: str, run: str, node: str, *, is_member: bool, lives: bool) -> None:
        """Note whether a pod is there for its run, and lives on its node."""
        _put(self.members, run, uid, there=is_member)
        _put(self.living, node, uid, there=lives)


def _put(index: dict[str, set[str]], key: str, uid: str, *, there: bool) -> None:
    if there:
        index[key].add(uid)
    else:
        _discard(index, key, uid)


def _discard(index: dict[str, set[str]], key: str, uid: str) -> None:
    found = index.get(key)
    if found is None:
        return
    found.discard(uid)
    if not found:
        del index[key]
