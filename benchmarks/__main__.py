"""All benchmarks: `python -m benchmarks [NAME ...] [--json FILE]`. A module of this folder with `rows()` is one."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import click

import benchmarks
from benchmarks.report import Row, save, show


def names() -> list[str]:
    """Modules of this folder that measure something."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return [name for name in found if name not in {"__main__", "report"} and hasattr(_load(name), "rows")]


def _load(name: str) -> object:
    return importlib.import_module(f"benchmarks.{name}")


@click.command()
@click.argument("chosen", nargs=-1)
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path),
    default=Path("build/benchmarks.json"),
    show_default=True,
)
def main(chosen: tuple[str, ...], file: Path) -> None:
    """Measure, print a table each, and write all rows as JSON."""
    rows: list[Row] = []
    for name in chosen or names():
        measured = _load(name).rows()  # type: ignore[attr-defined]
        show(name, measured)
        rows += measured
    save(file, rows)
    click.echo(f"written to {file}")


if __name__ == "__main__":
    main()
