"""srun --async: the job's step manager queues the step, and srun leaves."""

import os

from pyslurm_ng.base.numbers import MAX_NORMAL_STEP_ID
from pyslurm_ng.cli.command import say
from pyslurm_ng.cli.file_names import current_directory
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.step.launch import launch_fields
from pyslurm_ng.cli.step.step_manager import manager_of
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.submit.options import Options
    from pyslurm_ng.wire.client import Client

_OUTSIDE = "--async is only valid for steps submitted within an existing job allocation"
_NEEDS_SRUN = (
    "bcast", "epilog", "immediate", "interactive", "kill-on-bad-exit", "multi-prog", "prolog",
    "pty", "unbuffered", "wait", "x11",
)  # fmt: skip
"""Options that an srun obeys while the step runs; there is none."""
_OUTPUT = "slurm-%J.out"


def check_async(options: "Options", mpi: str) -> None:
    """Refuse --async outside a job, and beside what needs an srun that stays.

    Raises:
        OptionError: by name.
    """
    if not options.settings.get("jobid"):
        raise OptionError(_OUTSIDE, 1)
    typed = {name for name, (source, _) in options.given.items() if source == COMMAND_LINE}
    for name in _NEEDS_SRUN:
        if name in typed:
            raise OptionError(f"--{name} and --async are mutually exclusive: no srun stays", 1)
    if "mpi" in typed and mpi not in ("", "none"):
        text = f"--mpi={mpi} and --async are mutually exclusive: its ranks meet in srun"
        raise OptionError(text, 1)


def queue_step(
    options: "Options",
    conf: "dict[str, str]",
    controller: "Client",
    fields: "dict[str, Any]",
    operands: "list[str]",
) -> int:
    """Queue a step and print its id, as sbatch that of a job; return the exit code."""
    job_id = fields["job_id"]
    quick = {name: fields[name] for name in fields if name != "no_wait"}
    quick["request_id"] = os.urandom(16)
    unknown = {"credential": b"", "distribution": options.request.get("distribution", "")}
    launch = launch_fields(options, conf, unknown, [{"argv": operands}], _files(options))
    launch["append"] = True  # tasks of several nodes may write one file
    launch["no_kill"] = True
    try:
        manager = manager_of("srun", conf, controller, job_id)
        if manager is None:
            say(f"srun: error: Unable to create step for job {job_id}: "
                "Invalid feature specification")  # fmt: skip
            return 1
        request = {"job_id": job_id, "step": quick, "launch": launch}
        step_id = manager.change("QueueStep", request)["step_id"]
    except SlurmError as problem:
        text = problem.text.rpartition("\n")[2]
        say(f"srun: error: Unable to create step for job {job_id}: {text}")
        return 1
    assert step_id <= MAX_NORMAL_STEP_ID
    name = f"{job_id}.{step_id}"
    if "parsable" in options.settings:
        print(name)
    elif "quiet" not in options.settings:
        print(f"Submitted step {name}")
    return 0


def _files(options: "Options") -> "dict[str, str]":
    """Return where the streams of a step without an srun go: files, each opened by the nodes."""
    request = options.request
    out = _file(options, request.get("std_out", "") or _OUTPUT)
    files = {"std_in": _file(options, request.get("std_in", "") or "none"), "std_out": out}
    files["std_err"] = _file(options, request["std_err"]) if request.get("std_err") else out
    return files


def _file(options: "Options", pattern: str) -> str:
    if pattern.lower() == "all":
        pattern = _OUTPUT
    if pattern.lower() == "none" or pattern == "/dev/null":
        return "/dev/null"
    if pattern.startswith("/"):
        return pattern
    work_dir = options.request.get("work_dir") or current_directory()
    return f"{work_dir.rstrip('/')}/{pattern}"
