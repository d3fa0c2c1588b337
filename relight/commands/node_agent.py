"""Run the node agent: watches this node's chips and sends what it sees; on a cluster it also serves supervisors and repairs chips."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from producers.on_cluster import Hands, Reach
    from relight.node_agent_settings import NodeAgentSettings


@click.command()
def command() -> None:
    """Run the node agent until SIGTERM. Settings come from RELIGHT_*; RELIGHT_CLUSTER, RELIGHT_NODE__NAME and RELIGHT_NODE__UID must be set.

    With RELIGHT_ON_CLUSTER=true it watches its pods, serves their supervisors and carries out repairs; the UID is then asked of the API where
    it is not set.
    """
    from producers.agent_process import run_agent
    from producers.errors import ProducerError
    from relight.node_agent_settings import NodeAgentSettings
    from runtime import logs
    from runtime.errors import ProcessError
    from runtime.settings import read_settings

    try:
        settings = read_settings(NodeAgentSettings)
        logs.configure(settings.observe.log_level)
        settings = _with_uid(settings)
        run_agent(settings, lambda reach: _hands(settings, reach))
    except (ProcessError, ProducerError) as error:
        raise click.ClickException(str(error)) from error


def _with_uid(settings: NodeAgentSettings) -> NodeAgentSettings:
    if settings.node.uid:
        return settings
    from producers.own_node import uid_of
    from runtime.kubernetes import Cluster

    uid = uid_of(Cluster(settings.kubernetes, "node-agent"), settings.node.name)
    return settings.model_copy(update={"node": settings.node.model_copy(update={"uid": uid})})


def _hands(settings: NodeAgentSettings, reach: Reach) -> Hands:
    from relight.node_hands import make_hands

    return make_hands(settings.repair, reach)
