"""Titan's golden counts by the pure function alone: no broker, a second of time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from recovery import Cell, Delivery, advance
from rules.compiled import CompiledRulebook, compile_document, content_of
from rules.model import Rule, RulebookDocument
from schemas.records import Decision
from tests.golden import titan


def decisions(data: Path, fold: str | None = None) -> list[Decision]:
    """Shadow decisions of the whole trace, in the trace's order."""
    document, compiled = titan.rulebook()
    if fold is not None:
        compiled = _with_fold(document, fold)
    cells: dict[str, Cell] = {}
    made = []
    for event in titan.events(data):
        result = advance(cells, Delivery(event, arrival=event.time, now=event.time), compiled)
        for name, cell in result.cells.items():
            if cell is None:
                cells.pop(name, None)
            else:
                cells[name] = cell
        made += [emit.event.data for emit in result.emits if isinstance(emit.event.data, Decision)]
    return [decision for decision in made if decision.mode == "shadow"]


def _with_fold(document: RulebookDocument, fold: str) -> CompiledRulebook:
    content = content_of(document)
    for rule in content["rules"]:
        if rule["id"].startswith("titan-"):
            rule["count"]["fold"] = fold
    assert Rule.model_validate(content["rules"][0]).count is not None
    return compile_document(content)


@pytest.mark.parametrize(
    ("fold", "pairs", "positions", "firings"),
    [(None, 45, 488, 180), ("180s", 37, 130, 60)],
    ids=["every event counts", "events within 180 s of the first are one"],
)
def test_windows_count_titan_as_others_do(
    relight_data: Path, fold: str | None, pairs: int, positions: int, firings: int
) -> None:
    made = decisions(relight_data, fold)
    by_rule = Counter(decision.rule for decision in made)
    assert len({(decision.chip, decision.code) for decision in made}) == pairs
    assert by_rule == {"titan-slide": positions, "titan-reset": firings}
    assert {decision.code for decision in made} == {"titan/DBE"}
