"""Names and places of what is injected."""

from __future__ import annotations

from typing import Final

CONTAINER_NAME: Final = "relight-supervisor"
"""The init container that brings the supervisor."""

MOUNT_ROOT: Final = "/relight"
BIN: Final = f"{MOUNT_ROOT}/bin"
STATE: Final = f"{MOUNT_ROOT}/state"
POD_INFO: Final = f"{MOUNT_ROOT}/pod"
AGENT: Final = f"{MOUNT_ROOT}/agent"
SUPERVISOR: Final = f"{BIN}/supervisor.pyz"
ANNOTATIONS_FILE: Final = "annotations"

BIN_VOLUME: Final = "relight-bin"
STATE_VOLUME: Final = "relight-state"
POD_INFO_VOLUME: Final = "relight-pod"
AGENT_VOLUME: Final = "relight-agent"
VOLUMES: Final = frozenset({BIN_VOLUME, STATE_VOLUME, POD_INFO_VOLUME, AGENT_VOLUME})
