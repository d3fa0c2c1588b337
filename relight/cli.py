"""The command line: `relight COMMAND`. One file a group in `relight/commands`, imported only when it is used.

A module `relight/commands/node_agent.py` with an object `command` becomes `relight node-agent`; the first line of its docstring is the help.
Nothing else has to be registered. `relight --help` reads these lines without importing the modules, so it stays quick.
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from typing import Final

import click

COMMANDS: Final = Path(__file__).parent / "commands"


class Commands(click.Group):
    """Commands found as files, loaded when called for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands."""
        del ctx
        return sorted(path.stem.replace("_", "-") for path in COMMANDS.glob("[a-z]*.py"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"relight.commands.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, with the first line of each module's docstring."""
        rows = [
            (name, _first_line(COMMANDS / f"{name.replace('-', '_')}.py")) for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _first_line(path: Path) -> str:
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0]


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="relight")
def main() -> None:
    """Keep AI training alive on accelerator clusters."""


if __name__ == "__main__":
    sys.exit(main())
