"""One end of a container, two who may tell it, under one id.

The node agent tells it where a supervisor was killed with its command, the watcher where the agent is silent.
"""

from __future__ import annotations

from typing import Final

from schemas.ids import derive_id
from schemas.signals import ProcessExit

SIGNALLED: Final = 128
LAST_SIGNAL: Final = 64
_KILL: Final = 9


def container_end_id(cluster: str, pod_uid: str, restarts: int) -> str:
    """Of the end of a pod's supervised container, after so many restarts."""
    return derive_id(cluster, ProcessExit.TYPE, pod_uid, "container", restarts)


def is_kill(exit_code: int, *, oom: bool) -> bool:
    """What a supervisor does not live to tell."""
    return oom or exit_code == SIGNALLED + _KILL
