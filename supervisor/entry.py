"""Where the zipapp begins: supervise, and if that cannot begin, the command runs without us."""

from __future__ import annotations

import os
import signal
import sys

from supervisor.words import say

NO_COMMAND, NOT_EXECUTABLE, NOT_FOUND = 64, 126, 127
CANNOT = 70  # to the wrapper: there is no mark, so that it runs the command


def main() -> None:
    """`supervisor.pyz -- COMMAND ...`."""
    command = sys.argv[1:]
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        say("no command: supervisor.pyz -- COMMAND ...")
        os._exit(NO_COMMAND)
    try:
        from supervisor.loop import Supervisor  # noqa: PLC0415 - an import that fails must not stop the command

        supervisor = Supervisor(command)
    except Exception as error:  # noqa: BLE001 - fails open
        say(f"cannot supervise ({error!r}): the command runs without")
        if os.environ.get("RELIGHT_MARK"):
            os._exit(CANNOT)
    else:
        if supervisor.supervise():
            return
    bare(command)


def bare(command: list[str]) -> None:
    """The command instead of us; not found and not executable as a shell says it."""
    try:
        for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, which would be inherited
            signal.signal(signum, signal.SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606 - the user's own command
    except FileNotFoundError:
        os._exit(NOT_FOUND)
    except (OSError, ValueError):
        os._exit(NOT_EXECUTABLE)
