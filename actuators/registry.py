"""Which step is carried out by what: a table, completed by one line a step.

A step without an entry is answered `unsupported`, with the sentence that stands here for it.
"""

from __future__ import annotations

from typing import Final

from actuators import notify
from actuators.jobs import fail_job, release_job, resume_job, suspend_job
from actuators.nodes import find_spare, heal_chips, isolate_node, release_node
from actuators.pods import start_processes, stop_processes
from actuators.step import Step
from schemas.commands import StepName

STEPS: Final[dict[StepName, Step]] = {
    StepName.STOP_PROCESSES: stop_processes.STEP,
    StepName.HEAL_CHIPS: heal_chips.STEP,
    StepName.START_PROCESSES: start_processes.STEP,
    StepName.FIND_SPARE: find_spare.STEP,
    StepName.ISOLATE_NODE: isolate_node.STEP,
    StepName.RELEASE_NODE: release_node.STEP,
    StepName.SUSPEND_JOB: suspend_job.STEP,
    StepName.RESUME_JOB: resume_job.STEP,
    StepName.FAIL_JOB: fail_job.STEP,
    StepName.RELEASE_JOB: release_job.STEP,
    StepName.NOTIFY: notify.STEP,
}

NOT_BUILT: Final = "no actuator of this release carries this step out; the cluster is left as it is"
