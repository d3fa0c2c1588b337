"""The generated tables of docs/ladder.md: rows with their rules, strategies with their costs, settings."""

from __future__ import annotations

from typing import Any

from rules.compiled import default_rulebook
from rules.model import Rule, RulebookDocument, Strategy
from rules.packaged import default_content

BEGIN = "<!-- generated: {name} -->"
END = "<!-- end -->"
COSTS = ("job_retries", "pod_retries", "unconditional_chain", "hang_chain", "in_place", "new_issue")


def default_rules() -> tuple[Rule, ...]:
    """Rules of the rulebook that ships, in their order."""
    return RulebookDocument.model_validate(default_content()).rules


def rows_table() -> str:
    """Each row of the ladder, the default rules that implement it in their order, and what each leads to."""
    lines = ["| row | rule | title | leads to | isolates |", "|---|---|---|---|---|"]
    for rule in default_rules():
        isolates = "yes" if rule.isolate else ""
        lines.append(f"| {rule.row} | `{rule.id}` | {rule.title} | {', '.join(rule.then)} | {isolates} |")
    return "\n".join(lines)


def strategies_table() -> str:
    """What each strategy does and costs."""
    lines = [
        "| strategy | steps | " + " | ".join(COSTS) + " |",
        "|---|---|" + "---|" * len(COSTS),
    ]
    for strategy in default_rulebook().strategies.values():
        steps = ", ".join(step.step.value for step in strategy.steps)
        name = f"`{strategy.id}`" + ("" if strategy.enabled else " (not enabled)")
        costs = " | ".join(_cost(strategy, name) for name in COSTS)
        lines.append(f"| {name} | {steps} | {costs} |")
    return "\n".join(lines)


def _cost(strategy: Strategy, name: str) -> str:
    value: Any = getattr(strategy.effects, name)
    return str(getattr(value, "value", value)).replace("False", "").replace("True", "yes")


def settings_table() -> str:
    """Every setting of the rulebook and its default."""
    lines = ["| setting | default |", "|---|---|"]
    lines += [
        f"| `{name}` | `{value}` |"
        for name, value in sorted(default_rulebook().settings.model_dump(mode="json").items())
    ]
    return "\n".join(lines)


TABLES = {"rows": rows_table, "strategies": strategies_table, "settings": settings_table}


def with_tables(page: str) -> str:
    """The page with its generated tables as the rulebook has them now."""
    for name, table in TABLES.items():
        begin = BEGIN.format(name=name)
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(END)
        page = f"{head}{begin}\n{table()}\n{END}{tail}"
    return page
