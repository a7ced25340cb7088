"""What listings and documents make of a job's record: its end, its files, what it asked for."""

from pyslurm_ng.base.numbers import (
    INFINITE,
    NO_VAL,
    REQ_HOLD,
    REQ_NODES_SET,
    REQ_NTASKS_SET,
    SECOND_US,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def end_of(start_us: int, end_us: int, limit_min: int, suspended_us: int) -> int:
    """Return when a job ended or its limit will end it; 0 for never or unknown."""
    if end_us:  # of a running job too, when it has been preempted
        return end_us
    if not start_us or limit_min in (INFINITE, NO_VAL):
        return 0
    return start_us + suspended_us + limit_min * 60 * SECOND_US


def tres_list(lead: str, gres: str, gpu_lead: str, gpus: str) -> str:
    """Return a GRES list and a --gpus list as one TRES list: `gres/gpu:a100:2`."""
    words = [lead + word for word in gres.split(",") if word]
    words += [gpu_lead + word for word in gpus.split(",") if word]
    return ",".join(words)


def tres_of_task(cpus: int, gpus: str, others: str) -> str:
    """Return --cpus-per-task, --gpus-per-task and --tres-per-task as one TRES list."""
    words = [f"cpu={cpus}"] if cpus else []
    words += [f"gres/gpu={word}" for word in gpus.split(",") if word]
    return ",".join(words + [others] if others else words)


def below(name: str, work_dir: str) -> str:
    """Return the name of a job's file with its directory, "" for no file."""
    return name if not name or name.startswith("/") else f"{work_dir.rstrip('/')}/{name}"


def was_planned(state: int, reason: str) -> bool:
    """Return whether a waiting job came as far as backfill, by its reason."""
    return not state and reason.startswith(("Priority", "Resources", "QOS", "Assoc"))


def most_nodes(request_flags: int, priority: int, nodes_max: int, tasks: int, nodes: int) -> int:
    """Return the most nodes that a waiting job may get, 0 where it named no size."""
    bounded = REQ_NODES_SET | REQ_NTASKS_SET | (0 if priority else REQ_HOLD)
    return (nodes_max or max(tasks, nodes)) if request_flags & bounded else 0


def default_stdout(std_out: str, work_dir: str, array_job_id: int) -> str:
    """Return the pattern of the output file with its directory, by default `slurm-%j.out`."""
    name = std_out or ("slurm-%A_%a.out" if array_job_id else "slurm-%j.out")
    return name if name.startswith("/") else f"{work_dir.rstrip('/')}/{name}"


def expanded(pattern: str, row: "dict[str, Any]", step_id: int, node_name: str) -> str:
    """Return the name of a file with the patterns replaced that are the same for a whole step."""
    from pyslurm_ng.base.file_patterns import expand

    return expand(
        pattern,
        job_id=row["job_id"],
        array_job_id=row["array_job_id"],
        array_task_id=row["array_task_id"],
        user=row["user_name"],
        job_name=row["name"],
        step_id=step_id,
        node_name=node_name,
        node_index=0,
        task_id=0,
    )
