"""What is printed at the end: recovery time by phase as the record has it, what does not agree, and where everything lies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sandbox.demo.recorded import PHASES, Row, Span

WIDE: Final = 150
NOT_APPLICABLE: Final = "·"


def recovery_times(rows: Sequence[Row]) -> Table:
    """One line a recovery: seconds of each phase, and their sum."""
    table = Table(
        title="Recovery time by phase, in seconds (from ClickHouse)",
        caption=f"From the fault to stable throughput. {NOT_APPLICABLE}: the strategy has no such phase.",
        title_justify="left", caption_justify="left", header_style="bold",
    )  # fmt: skip
    table.add_column("fault")
    table.add_column("strategy")
    for phase in PHASES:
        table.add_column(phase.replace("_", " "), justify="right")
    table.add_column("RTO", justify="right", style="bold")
    for row in rows:
        where = f"{row.code or 'exit'}{f' on {row.node}' if row.node else ''}"
        table.add_row(
            Text(where), Text(row.strategy), *(_seconds(row.phases.get(phase)) for phase in PHASES),
            "unknown" if row.rto is None else f"{row.rto:.2f}",
        )  # fmt: skip
    return table


def _seconds(span: Span | None) -> str:
    if span is None or span.state == "not_applicable":
        return NOT_APPLICABLE
    return f"{span.seconds:.2f}" if span.state == "measured" else span.state


def verdict(disagreements: Sequence[str], recoveries: int) -> Text:
    """The last word."""
    came = "The recovery came" if recoveries == 1 else f"All {recoveries} recoveries came"
    if not disagreements:
        return Text(
            f"{came} back with the right counters, and the record agrees with what was seen.",
            style="bold green",
        )
    count = "1 thing does" if len(disagreements) == 1 else f"{len(disagreements)} things do"
    lines = [f"{count} not agree:", *(f"  - {sentence}" for sentence in disagreements)]
    return Text("\n".join(lines), style="bold red")


def where(console: Console, folder: Path, logs: Path, report: Path | None) -> None:
    """Where to look."""
    if report is not None:
        console.print(Text(f"report:  {report}"), soft_wrap=True)
    console.print(Text(f"logs:    {logs}"), soft_wrap=True)
    console.print(Text(f"all of it lies in {folder} and may be removed"), soft_wrap=True)
