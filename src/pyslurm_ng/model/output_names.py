"""Names of output files: patterns of sbatch and srun, filled in on the node. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.model.ids import STEP_BATCH, step_text

_WIDEST = 10
_NULL = "/dev/null"


@dataclass(frozen=True, slots=True)
class NameFields:
    """What patterns stand for, on one node and for one task."""

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
    """Return a file name.

    A backslash anywhere turns replacement off and is taken out. Digits after % pad numbers with
    zeros, at most ten of them; an unknown letter stays as it is.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")
    if "%" not in pattern:
        return pattern
    job = str(fields.job_id)
    is_batch = fields.step_id == STEP_BATCH
    values: dict[str, int | str] = {
        "%": "%",
        "A": fields.array_job_id or fields.job_id,
        "a": fields.array_task_id,
        "b": fields.array_task_id % 10 if fields.array_task_id != NO_VAL else NO_VAL,
        "j": fields.job_id,
        "J": job if is_batch else f"{job}.{step_text(fields.step_id)}",
        "N": fields.node_name,
        "n": fields.node_index,
        "s": step_text(fields.step_id),
        "t": fields.task_id,
        "u": fields.user,
        "x": fields.job_name,
    }
    out = []
    at = 0
    while at < len(pattern):
        if pattern[at] != "%":
            out.append(pattern[at])
            at += 1
            continue
        end = at + 1
        while end < len(pattern) and pattern[end].isdigit():
            end += 1
        value = values.get(pattern[end : end + 1])
        if value is None:
            out.append(pattern[at : end + 1])
        else:
            out.append(_padded(value, pattern[at + 1 : end]))
        at = end + 1
    return "".join(out)


def _padded(value: int | str, digits: str) -> str:
    width = min(int(digits), _WIDEST) if digits else 0
    text = str(value)
    return text.zfill(width) if text.isdigit() else text


def _has(pattern: str, letter: str) -> bool:
    at = pattern.find("%")
    while at >= 0:
        end = at + 1
        while end < len(pattern) and pattern[end].isdigit():
            end += 1
        if pattern[end : end + 1] == letter:
            return True
        at = pattern.find("%", end + 1)
    return False


def absolute(name: str, directory: str) -> str:
    """Return a name with its directory; `none` is the null device."""
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
