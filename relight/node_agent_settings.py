"""Settings of the whole node agent: its eyes from `producers`, its hands from `actuators`; read without loading what acts."""

from __future__ import annotations

from actuators.node_agent.settings import RepairSettings
from producers.settings import AgentSettings


class NodeAgentSettings(AgentSettings):
    """The node agent with its hands."""

    repair: RepairSettings = RepairSettings()
