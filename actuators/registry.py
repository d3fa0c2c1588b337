"""Which step is carried out by what: a table, completed by one line a step.

A step without an entry is answered `unsupported`, with the sentence that stands here for it.
"""

from __future__ import annotations

from typing import Final

from actuators.jobs import release_job
from actuators.nodes import heal_chips
from actuators.pods import start_processes, stop_processes
from actuators.step import Step
from schemas.commands import StepName

STEPS: Final[dict[StepName, Step]] = {
    StepName.STOP_PROCESSES: stop_processes.STEP,
    StepName.HEAL_CHIPS: heal_chips.STEP,
    StepName.START_PROCESSES: start_processes.STEP,
    StepName.RELEASE_JOB: release_job.STEP,
}

NOT_BUILT: Final = "no actuator of this release carries this step out; the cluster is left as it is"
