"""srun --bcast: the program goes to the nodes of a step before its tasks start there."""

import os

from pyslurm_ng.cli.step.broadcast import (
    EXCLUDED,
    Broadcast,
    BroadcastError,
    excluded_directories,
    libraries_of,
    parameter,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.submit.options import Options

CONF_KEYS = ("BcastExclude", "BcastParameters")


def send_program(
    options: "Options", conf: "dict[str, str]", granted: "dict[str, Any]", program: str
) -> "dict[str, Any]":
    """Send a program, and its libraries if wanted; return the fields of LaunchStep that follow.

    `library_path` among them is for the tasks' variables.

    Raises:
        BroadcastError: not all nodes have it.
    """
    settings = options.settings
    source = _path_of(program, options.request.get("work_dir") or os.getcwd())
    path = _destination(options, conf, granted)
    broadcast = Broadcast(
        "srun", conf, granted, force=True, preserve=False,
        compress=_is_on(settings.get("compress"), "none", parameter(conf, "Compression")),
        limit_s=float(settings.get("msg-timeout") or 60),
    )  # fmt: skip
    failed = f"Failed to broadcast '{source}'. Step launch aborted."
    if broadcast.send(source, path):
        raise BroadcastError(failed)
    fields: dict[str, Any] = {"program": path}
    if _is_on(settings.get("send-libs"), "no", parameter(conf, "send_libs")):
        text = settings.get("bcast-exclude", conf.get("BcastExclude", EXCLUDED))
        for library in libraries_of("srun", source, excluded_directories(text)):
            to = f"{path}_libs/{os.path.basename(library)}"
            if broadcast.send(library, to, make_directory=True):
                raise BroadcastError(failed)
            fields["library_path"] = f"{path}_libs"
    return fields


def _path_of(program: str, work_dir: str) -> str:
    """Return where a program is: as a shell finds it, then in the working directory."""
    if "/" in program:
        return os.path.join(work_dir, program)
    for directory in [*os.environ.get("PATH", "").split(":"), work_dir]:
        path = os.path.join(work_dir, directory, program)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise BroadcastError(f"Can't open `{program}`: No such file or directory")


def _destination(options: "Options", conf: "dict[str, str]", granted: "dict[str, Any]") -> str:
    """Return where the program goes; `%N` means the node's name.

    As in Slurm a path that is not absolute has no effect.
    """
    path = options.settings["bcast"]
    if not path.startswith("/"):
        directory = parameter(conf, "DestDir") or options.request.get("work_dir") or os.getcwd()
        path = os.path.join(os.getcwd(), directory, "")
    if path.endswith("/"):
        path += f"slurm_bcast_{granted['job_id']}.{granted['step_id']}_%N"
    return path


def _is_on(value: "str | None", off: str, default: "str | None") -> bool:
    """Return whether a switch is on that may say `off`; its default is a BcastParameters word."""
    word = default if value is None else value
    return word is not None and word.lower() != off
