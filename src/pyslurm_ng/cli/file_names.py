"""Names of a job's files with defaults filled in, and of the working directory."""

import os


def current_directory() -> str:
    """Return the working directory by the user's name for it; if it was removed, its last name."""
    name = os.environ.get("PWD", "")
    try:
        here = os.stat(".")
        there = os.stat(name) if name.startswith("/") else None
        if there is not None and (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
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
