"""The default rulebook with one thing changed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from rules.compiled import CompiledRulebook, compile_document
from rules.packaged import default_content


def with_settings(**changes: Any) -> CompiledRulebook:
    """Other settings."""
    content = deepcopy(default_content())
    content["settings"].update(changes)
    return compile_document(content)


def with_pod_reschedule(**changes: Any) -> CompiledRulebook:
    """Pod reschedule switched on, and other settings."""
    content = deepcopy(default_content())
    content["settings"].update(changes)
    for strategy in content["strategies"]:
        if strategy["id"] == "pod_reschedule":
            strategy["enabled"] = True
            strategy.pop("disabled_because", None)
    return compile_document(content)


def with_start_that_may_fail() -> CompiledRulebook:
    """A restart in place that goes on when the processes could not be started."""
    content = deepcopy(default_content())
    for strategy in content["strategies"]:
        if strategy["id"] == "in_place_recovery":
            strategy["steps"][-1]["start_processes"]["on_failure"] = "continue"
    return compile_document(content)
