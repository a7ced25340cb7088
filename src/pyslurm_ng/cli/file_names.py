"""Names of files: a job's with defaults filled in and patterns expanded, and where we are."""

import os


def current_directory() -> str:
    """Return the directory by the name the user knows it by; a removed one by its last name."""
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


def expand(
    name: str,
    job_id: int,
    array_job_id: int,
    task_id: int,
    user: str,
    job_name: str,
    batch_host: str,
) -> str:
    """Return a file name with its patterns replaced, as far as they are known outside the job.

    A backslash in the name turns replacement off; digits after % pad numbers with zeros.
    """
    if "%" not in name:
        return name
    if "\\" in name:
        return name.replace("\\", "")
    if name.count("%") == 1 and "%j" in name:
        # Slurm's default, and most others; a listing as JSON expands three names for each job.
        return name.replace("%j", str(job_id))
    values: dict[str, str | int] = {
        "A": array_job_id or job_id,
        "a": task_id,
        "b": task_id % 10,
        "j": job_id,
        "J": job_id,
        "u": user,
        "x": job_name,
        "N": batch_host,
        "n": 0,
        "s": "batch",
        "t": 0,
        "%": "%",
    }
    out = []
    position = 0
    while position < len(name):
        if name[position] != "%":
            out.append(name[position])
            position += 1
            continue
        end = position + 1
        while end < len(name) and name[end].isdigit():
            end += 1
        width = min(int(name[position + 1 : end] or 0), 10)
        value = values.get(name[end : end + 1])
        if value is None:
            out.append(name[position : end + 1])
        else:
            out.append(f"{value:0{width}d}" if isinstance(value, int) and width else str(value))
        position = end + 1
    return "".join(out)
