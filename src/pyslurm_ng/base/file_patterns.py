"""Patterns in names of files, such as `slurm-%j.out`: one reading for nodes and for commands.

Source: the manual of sbatch ("filename pattern"), and the files that Slurm 22.05 made of `%5J`,
`%5x`, `%5s`, `%3q` and the like. `%b` is newer: the array index modulo 10.
"""

from pyslurm_ng.base.job_ids import step_text
from pyslurm_ng.base.numbers import STEP_BATCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_WIDEST = 10
_MOST_PATTERNS = 128
"""The most that are replaced: thousands of them, for many tasks, kept slurmd busy for seconds."""


def expand(
    pattern: str,
    *,
    job_id: int,
    array_job_id: int,
    array_task_id: int,
    user: str,
    job_name: str,
    step_id: int = STEP_BATCH,
    node_name: "str | None" = None,
    node_index: "int | None" = None,
    task_id: "int | None" = None,
) -> str:
    """Return a file name with its patterns replaced; a pattern whose value is None stays as typed.

    A backslash anywhere turns replacement off and is taken out. Digits after % pad numbers with
    zeros, at most ten of them; texts are never padded. A % before a letter without a meaning stays;
    with digits in between it is left out, as in Slurm. Patterns after the 128th stay as typed.

    Args:
        array_task_id: NO_VAL for a job that is no task of an array, as Slurm prints it.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")
    if "%" not in pattern:
        return pattern
    if pattern.count("%") == 1 and "%j" in pattern:
        # Slurm's default, and most others; a listing as JSON expands three names for each job.
        return pattern.replace("%j", str(job_id))

    def value_of(letter: str, width: int) -> "str | None":
        number: int | None = None
        if letter in ("x", "u", "N"):
            return {"x": job_name, "u": user, "N": node_name}[letter]
        if letter == "J":
            job = f"{job_id:0{width}d}"
            return job if step_id == STEP_BATCH else f"{job}.{step_text(step_id)}"
        if letter == "s":
            step = step_text(step_id)
            return step.zfill(width) if step.isdecimal() else step
        if letter in ("j", "A"):
            number = array_job_id or job_id if letter == "A" else job_id
        elif letter in ("a", "b"):
            number = array_task_id if letter == "a" else array_task_id % 10
        elif letter in ("n", "t"):
            number = node_index if letter == "n" else task_id
        return None if number is None else f"{number:0{width}d}"

    return _replaced(pattern, value_of)


def _width(digits: str) -> int:
    """Return a width, at most the widest; endless digits are never converted to a number."""
    significant = digits.lstrip("0")
    return min(int(significant or 0), _WIDEST) if len(significant) < 3 else _WIDEST


def _replaced(pattern: str, value_of: "Callable[[str, int], str | None]") -> str:
    """Return a pattern with what `value_of` says for each letter and width."""
    out = []
    at = 0
    for _ in range(_MOST_PATTERNS):
        begin = pattern.find("%", at)
        if begin < 0:
            break
        out.append(pattern[at:begin])
        at = begin + 1
        while at < len(pattern) and pattern[at] in "0123456789":
            at += 1
        digits, letter = pattern[begin + 1 : at], pattern[at : at + 1]
        value = value_of(letter, _width(digits))
        if value is not None:
            out.append(value)
            at += 1
        elif digits:
            out.append(digits)
        else:
            out.append("%")
            at += letter == "%"
    out.append(pattern[at:])
    return "".join(out)
