"""Names of output files: patterns of sbatch and srun, filled in on the node. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.base import file_patterns

_NULL = "/dev/null"


@dataclass(frozen=True, slots=True)
class NameFields:
    """The values of patterns, on one node and for one task."""

    job_id: int
    array_job_id: int
    array_task_id: int
    step_id: int
    user: str
    job_name: str
    node_name: str
    node_index: int = 0
    task_id: int = 0


def expand(pattern: str, fields: NameFields) -> str:
    """Return a file name with its patterns replaced, see `file_patterns.expand`."""
    return file_patterns.expand(
        pattern,
        job_id=fields.job_id,
        array_job_id=fields.array_job_id,
        array_task_id=fields.array_task_id,
        user=fields.user,
        job_name=fields.job_name,
        step_id=fields.step_id,
        node_name=fields.node_name,
        node_index=fields.node_index,
        task_id=fields.task_id,
    )


def absolute(name: str, directory: str) -> str:
    """Return a file name with its directory; `none` is the null device."""
    if name.lower() == "none":
        return _NULL
    return name if name.startswith("/") else f"{directory.rstrip('/')}/{name}"


def batch_names(
    std_in: str, std_out: str, std_err: str, directory: str, fields: NameFields
) -> tuple[str, str, str]:
    """Return the files of a batch script; by default output and errors share slurm-JOBID.out."""
    default = "slurm-%A_%a.out" if fields.array_job_id else "slurm-%j.out"
    output = absolute(expand(std_out or default, fields), directory)
    errors = absolute(expand(std_err, fields), directory) if std_err else output
    inputs = absolute(expand(std_in, fields), directory) if std_in else _NULL
    return inputs, output, errors
