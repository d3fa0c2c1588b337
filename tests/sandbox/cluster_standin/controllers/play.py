"""Plays scenarios on a cluster, those of a file beside one another, and keeps what came of each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pprint import pformat
from typing import Any

from runtime.kubernetes import Cluster
from tests.sandbox.cluster_standin.controllers.side import Hearts, Side

Scenario = Callable[[Side], Any]


@dataclass
class Outcomes:
    """By scenario and by whose controllers were at work; an error of a scenario is what came of it."""

    found: dict[tuple[str, str], Any] = field(default_factory=dict)

    def same(self, scenario: Scenario, side: str = "standin") -> Any:
        """What came of it with Kubernetes' own controllers, once it is seen that ours brought about the same."""
        theirs, ours = self._of(scenario, "theirs"), self._of(scenario, side)
        told = [pformat(found, width=140) for found in (ours, theirs)]
        assert ours == theirs, f"{side}:\n{told[0]}\ninstead of\n{told[1]}"
        return theirs

    def _of(self, scenario: Scenario, side: str) -> Any:
        found = self.found[scenario.__name__, side]
        if isinstance(found, BaseException):
            raise found
        return found


def play(files: list[list[Scenario]], api: Cluster, side: str, outcomes: Outcomes) -> None:
    """Play them all on one cluster."""
    hearts = Hearts(api)

    def one(scenario: Scenario) -> None:
        namespace = f"{scenario.__name__.replace('_', '-')[:50]}-{side}".replace("--", "-")
        try:
            found = scenario(Side(side, api, hearts, namespace))
        except Exception as error:  # noqa: BLE001 - told by the test that asks for it
            found = error
        outcomes.found[scenario.__name__, side] = found

    try:
        for scenarios in files:
            with ThreadPoolExecutor(len(scenarios), "scenarios") as pool:
                list(pool.map(one, scenarios))
    finally:
        hearts.close()
