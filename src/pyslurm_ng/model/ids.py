"""The integer names of things, kept apart by type."""

from typing import NewType

from pyslurm_ng.base import numbers

JobId = NewType("JobId", int)
StepId = NewType("StepId", int)
NodeId = NewType("NodeId", int)
AssocId = NewType("AssocId", int)

# Steps that srun does not make have fixed ids above every normal one.
MAX_NORMAL_STEP_ID = StepId(numbers.MAX_NORMAL_STEP_ID)
STEP_INTERACTIVE = StepId(numbers.STEP_INTERACTIVE)
STEP_BATCH = StepId(numbers.STEP_BATCH)
STEP_EXTERN = StepId(numbers.STEP_EXTERN)
STEP_PENDING = StepId(numbers.STEP_PENDING)

STEP_NAMES = {
    STEP_INTERACTIVE: "interactive",
    STEP_BATCH: "batch",
    STEP_EXTERN: "extern",
    STEP_PENDING: "TBD",
}


def step_variable(step_id: int) -> str:
    """Return SLURM_STEP_ID: fixed ids are shown as small negative numbers, as -5 of a script."""
    return str(step_id - (1 << 32) if step_id > MAX_NORMAL_STEP_ID else step_id)


def step_text(step_id: int) -> str:
    """Return a step's number as commands print it: `0`, `batch`, `extern`."""
    return STEP_NAMES.get(StepId(step_id)) or str(step_id)
