"""Names of a job's files with defaults filled in, and of the working directory."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def current_directory() -> str:
    """Return the working directory by the user's name for it; if it was removed, its last name."""
    name = os.environ.get("PWD", "")
    try:
        current = os.stat(".")
        named = os.stat(name) if name.startswith("/") else None
        if named is not None and (named.st_dev, named.st_ino) == (current.st_dev, current.st_ino):
            return name
        return os.getcwd()
    except OSError:
        pass
    try:
        return os.getcwd()
    except OSError:
        return name or "/"


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
