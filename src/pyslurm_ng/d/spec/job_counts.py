"""Variables of steps whose tasks see the counts that hold around srun, not those of the step."""

from __future__ import annotations

from collections.abc import Mapping

# What salloc or a script says of its job, and a step of itself.
_COUNTS = (
    "SLURM_NNODES", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_JOB_NUM_NODES", "SLURM_TASKS_PER_NODE",
)  # fmt: skip
# What binds this step's tasks only; steps that the interactive one starts choose for themselves.
_OF_BINDING = ("SLURM_CPU_BIND", "SLURM_TRES_BIND", "SLURM_DISTRIBUTION")


def kept_counts(variables: dict[str, str], sent: Mapping[str, str]) -> dict[str, str]:
    """Return a step's variables with the counts that srun found: --preserve-env."""
    return variables | {name: sent[name] for name in _COUNTS if name in sent}


def interactive_variables(variables: dict[str, str], sent: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of salloc's shell: steps that it starts see only the job's."""
    own = {
        name: value
        for name, value in variables.items()
        if name in sent or not (name in _COUNTS or name.startswith(_OF_BINDING))
    }
    return own | {
        name: value
        for name, value in sent.items()
        if name in _COUNTS or name.startswith(_OF_BINDING)
    }
