"""Where the zipapp begins: supervise, and if that cannot begin, exec the command."""

from __future__ import annotations

import os
import sys

from supervisor.precheck import say


def main() -> None:
    """`supervisor.pyz -- COMMAND ...`."""
    command = sys.argv[1:]
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        say("no command: supervisor.pyz -- COMMAND ...")
        os._exit(64)
    try:
        from supervisor.loop import Supervisor  # noqa: PLC0415 - an import that fails must not stop the command

        supervisor = Supervisor(command)
    except Exception as error:  # noqa: BLE001 - fails open
        bare(command, error)
    else:
        supervisor.supervise()


def bare(command: list[str], error: Exception) -> None:
    """The command instead of us; not found and not executable as a shell says it."""
    say(f"cannot supervise ({error!r}): the command runs without")
    try:
        os.execvp(command[0], command)  # noqa: S606 - the user's own command
    except FileNotFoundError:
        os._exit(127)
    except OSError:
        os._exit(126)
