"""What a stage stands on: a broker, a cluster, a store. Real ones and embedded ones have the same face."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sandbox.component import Component


class Broker(Protocol):
    """A running broker. One that asks something of relight's processes says so in a mapping `environment` (see `asked_by`)."""

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients."""
        ...


class Plane(Protocol):
    """A running cluster without nodes."""

    @property
    def kubeconfig(self) -> Path:
        """Of somebody who may do everything."""
        ...

    @property
    def components(self) -> list[Component]:
        """Its programs: each can be killed, frozen and started again."""
        ...

    def kubeconfig_of(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write the kubeconfig of any user."""
        ...


class Store(Protocol):
    """A running ClickHouse on loopback."""

    @property
    def port(self) -> int:
        """Of the HTTP interface."""
        ...


def asked_by(broker: Broker) -> dict[str, str]:
    """Variables relight's processes need with this broker: none with a real one."""
    return dict(getattr(broker, "environment", {}))
