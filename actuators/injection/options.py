"""What injection needs to be told: the operator's settings, and the wrapper's line. Never a rulebook's (finding R48)."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import Field

from runtime.settings import Duration, Group

VERSION: Final = "1"
"""Version of the injection, in the pod template's `relight.dev/injected`."""


class PodSecurity(StrEnum):
    """Level of Pod Security a namespace enforces."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"

    @property
    def admits_host_paths(self) -> bool:
        """A hostPath mount in another namespace makes all its pods inadmissible (finding Q21)."""
        return self is PodSecurity.PRIVILEGED


class InjectionOptions(Group):
    """How a manifest is changed.

    `wrapper` is the shell line of `supervisor.wrapper`: that room is for other people's containers and imports nothing, and nothing that
    acts imports it; whoever composes the two passes the line in.
    """

    wrapper: str
    """The container's command becomes `sh -c WRAPPER relight COMMAND...`."""
    image: str = "relight:latest"
    """relight's own image: the init container copies the supervisor from it. Name a version or a digest in production."""
    copy_command: tuple[str, ...] = ("python3", "-m", "supervisor.build")
    """Run in the init container with the path of the zipapp as its last argument: built from the image's own sources, always the same bytes."""
    socket: PurePosixPath = PurePosixPath("/run/relight/agent/supervisors.sock")
    """The node agent's socket on the node. Its folder is mounted, so that an agent that restarts is found again."""
    pod_security: PodSecurity = PodSecurity.PRIVILEGED
    """What the namespace enforces."""
    most_retries_added: Annotated[int, Field(ge=0, le=1000)] = 32
    """Most that is added to the user's backoffLimit: without relight each one is a pod failure Kubernetes bears more than it was told to."""
    ttl: Duration = timedelta(hours=1)
    """A finished Job is kept at least so long, so that its end is seen. A Job without ttlSecondsAfterFinished stays without."""
    most_peers: Annotated[int, Field(ge=0, le=4096)] = 256
    """Peers named to the pre-check by environment at most; above it the item is skipped. 256 names are some 10 KB."""
