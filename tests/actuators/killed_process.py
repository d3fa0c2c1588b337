"""`python -m tests.actuators.killed_process FOLDER`: the actuators, killed between a command's effect and its outcome.

A file `FOLDER/kill` orders it: the next command is carried out, the file is removed, the process is gone by SIGKILL.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from actuators.loop import CarryOut
from actuators.process import run_actuators
from actuators.settings import ActuatorSettings
from runtime import logs
from runtime.settings import read_settings
from schemas.commands import Command, Outcome


def main(folder: Path) -> None:
    def wrap(carry_out: CarryOut) -> CarryOut:
        def then_die(command: Command) -> Outcome:
            outcome = carry_out(command)
            try:
                (folder / "kill").unlink()
            except FileNotFoundError:
                return outcome
            os.kill(os.getpid(), signal.SIGKILL)
            return outcome

        return then_die

    logs.configure("INFO")
    run_actuators(read_settings(ActuatorSettings), wrap=wrap)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
