"""What a text of --tres-per-task says, so that texts can be compared."""

from __future__ import annotations

from pyslurm_ng.base.tres import TresError, TresPerTask, parse_tres_per_task


def task_resources(text: str) -> tuple[int, int, list[str]] | None:
    """Return CPUs, GPUs and the other resources of each task; None if the text means nothing."""
    try:
        parsed = parse_tres_per_task(text) if text else TresPerTask(0, "", "")
    except TresError:
        return None
    gpus = sum(int(word.rpartition(":")[2]) for word in parsed.gpus.split(",") if word)
    return parsed.cpus, gpus, sorted(parsed.gres.split(","))


def as_typed(typed: str, meant: str) -> dict[str, str]:
    """Return SLURM_TRES_PER_TASK as the job's user wrote it, if it says what the job has."""
    if typed and task_resources(typed) == task_resources(meant):
        return {"SLURM_TRES_PER_TASK": typed}
    return {}
