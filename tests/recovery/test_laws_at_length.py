"""Every law of `test_properties` about random histories, for thousands of histories that are new each time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, given

from tests.recovery import test_properties
from tests.recovery.histories import Happening, flags, histories

LAWS = {
    name.removeprefix("test_"): law.hypothesis.inner_test
    for name, law in vars(test_properties).items()
    if hasattr(law, "hypothesis")
    and [*inspect.signature(law.hypothesis.inner_test).parameters] == ["history", "annotations"]
}


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LAWS)
def test_a_law_holds_for_thousands_of_histories(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    seen = 0

    def counted(history: list[Happening], annotations: dict[str, Any]) -> None:
        nonlocal seen
        seen += 1
        LAWS[name](history, annotations)

    law: Callable[[], None] = given(histories, flags)(counted)
    hypothesis.settings(database=None, suppress_health_check=[HealthCheck.too_slow])(law)()
    record_property("histories", seen)


def test_the_laws_are_found() -> None:
    assert len(LAWS) >= 5
