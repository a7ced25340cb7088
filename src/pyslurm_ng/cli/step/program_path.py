"""The path of the program that srun starts, which is also its first argument, as in Slurm."""

import os

from pyslurm_ng.cli.file_names import current_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.submit.options import Options


def located(options: "Options", program: str) -> str:
    """Return where a program is: below the step's directory, or in PATH if that goes along.

    A name that PATH does not have stays as it is, and so do those of containers: the node looks.
    """
    request = options.request
    in_container = request.get("container") or request.get("container_options")
    if program.startswith("/") or in_container:
        return program
    if "/" in program:
        directory = request.get("work_dir") or current_directory()
        return f"{directory.rstrip('/')}/{program}"
    if not options.settings.get("export", "ALL").upper().startswith("ALL"):
        return program
    for directory in os.environ.get("PATH", "").split(":"):
        path = f"{directory}/{program}"
        if directory.startswith("/") and os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return program
