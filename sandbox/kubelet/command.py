"""What runs in a container, and what it sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the machine, and where the container sees it."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """What runs in a container, and what it sees."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    hostname: str = "localhost"
    mounts: Sequence[Mount] = ()
    user: int | None = None
    group: int | None = None
