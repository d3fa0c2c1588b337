"""The long version: the same scenarios with our controllers in the place of Kubernetes' own, on the real API server.

What differs on the stand-in but not here is the stand-in's API; what differs here as well is the controllers.
"""

from __future__ import annotations

import pytest

from tests.sandbox.cluster_standin.controllers import (
    test_jobs_beside_the_real_ones,
    test_nodes_beside_the_real_ones,
    test_placing_beside_the_real_one,
)
from tests.sandbox.cluster_standin.controllers.play import Outcomes, Scenario

FILES = (test_jobs_beside_the_real_ones, test_nodes_beside_the_real_ones, test_placing_beside_the_real_one)
NEEDS_A_COLLECTOR = test_jobs_beside_the_real_ones.a_deleted_job_takes_its_pods_along
"""Of garbage, which is the API's part on the stand-in and among the replaced controllers here."""
SCENARIOS = {
    f"test_on_the_real_api_server[{one.__name__}]": one
    for file in FILES
    for one in file.SCENARIOS.values()
    if one is not NEEDS_A_COLLECTOR
}


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda one: one.__name__)
def test_on_the_real_api_server(outcomes: Outcomes, scenario: Scenario) -> None:
    outcomes.same(scenario, "ours")
