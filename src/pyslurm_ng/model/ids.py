"""The integer names of things, kept apart by type."""

from typing import NewType

JobId = NewType("JobId", int)
StepId = NewType("StepId", int)
NodeId = NewType("NodeId", int)
AssocId = NewType("AssocId", int)

# Slurm's numbers, used on every interface.

# Steps that are not made by srun have fixed ids above every normal one.
MAX_NORMAL_STEP_ID = StepId(4294967280)
STEP_INTERACTIVE = StepId(4294967290)
STEP_BATCH = StepId(4294967291)
STEP_EXTERN = StepId(4294967292)
STEP_PENDING = StepId(4294967293)

STEP_NAMES = {
    STEP_INTERACTIVE: "interactive",
    STEP_BATCH: "batch",
    STEP_EXTERN: "extern",
    STEP_PENDING: "TBD",
}


def step_text(step_id: int) -> str:
    """Return a step's number as commands print it: `0`, `batch`, `extern`."""
    return STEP_NAMES.get(StepId(step_id)) or str(step_id)
