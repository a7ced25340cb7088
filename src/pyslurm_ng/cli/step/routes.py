"""Where the streams of a step go: which task has standard input, which files are opened here."""

import os

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.cli.file_names import current_directory
from pyslurm_ng.cli.step.streams import Labels, Sink, open_input, open_local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from pyslurm_ng.cli.step.streams import StepIo
    from pyslurm_ng.cli.submit.options import Options

    Opened = TypeVar("Opened")


class Routes:
    """The streams of one step, by the options.

    Args:
        count: how many tasks there are.
        ranks: the first one's, and how many there are in all if other components have some.
        conf: has JobFileAppend.
    """

    def __init__(
        self,
        options: "Options",
        granted: "dict[str, Any]",
        count: int,
        ranks: "tuple[int, int]",
        conf: "dict[str, str]",
    ) -> None:
        self._options = options
        self._conf = conf
        self._granted = granted
        self._count = count
        self._ranks = ranks
        self._std: dict[str, Any] = {}
        self._files: dict[str, Sink] = {}

    def open(self, streams: "StepIo") -> "dict[str, Any]":
        """Open local files; return what the nodes shall do with each stream.

        Raises:
            OSError: a local file cannot be opened.
        """
        options, request = self._options, self._options.request
        streams.pty = "pty" in options.settings
        self._route_input(request.get("std_in", ""), streams)
        out = request.get("std_out", "")
        streams.out_task, streams.out = self._route_output("stdout", out, streams.out)
        err = request.get("std_err", "")
        if not err and out and out.lower() not in ("all", "none"):
            streams.err_task, streams.err = streams.out_task, streams.out
            self._std["std_err"] = self._std.get("std_out", "")
        else:
            streams.err_task, streams.err = self._route_output("stderr", err, streams.err)
        if "label" in options.settings and not streams.pty:
            streams.labels = Labels(max(self._count, self._ranks[1]), self._ranks[0])
        if streams.pty:
            streams.in_task = 0
        return self._std

    def _route_input(self, text: str, streams: "StepIo") -> None:
        from pyslurm_ng.cli.step.launch import is_per_node

        if text.lower() in ("", "all"):
            return
        if text.isdecimal() and int(text) < self._count:
            streams.in_task = self._std["stdin_task"] = int(text)
            return
        streams.in_descriptor = -1
        if text.lower() == "none" or text == "/dev/null":
            self._std["std_in"] = "/dev/null"
        elif is_per_node(text):
            self._std["std_in"] = self._absolute(text)
        else:
            streams.in_descriptor = _opened("stdin", lambda: open_input(self._expanded(text, {})))

    def _route_output(self, which: str, text: str, sink: Sink) -> "tuple[int, Sink]":
        from pyslurm_ng.cli.step.launch import is_per_node

        field = "std_out" if which == "stdout" else "std_err"
        if text.lower() in ("", "all"):
            if text:
                self._part_from_output(field)
            return -1, sink
        if text.isdecimal() and int(text) < self._count:
            self._std[f"{which}_task"] = int(text)
            return int(text), sink
        if text.lower() == "none" or text == "/dev/null":
            self._std[field] = "/dev/null"
            return -1, sink
        if is_per_node(text):
            self._std[field] = self._absolute(text)
            return -1, sink
        self._part_from_output(field)
        return -1, _opened(which, lambda: self._file(self._expanded(text, self._granted)))

    def _part_from_output(self, field: str) -> None:
        """Have a stream sent here; standard error would go where nodes put the output."""
        if self._std.get("std_out"):
            self._std[field] = "all"

    def _file(self, path: str) -> Sink:
        """Return a file opened for both streams if both name it; components append to theirs."""
        from pyslurm_ng.cli.step.launch import appends

        if path not in self._files:
            is_shared = bool(self._ranks[1])
            keeps = appends(self._options, self._conf)
            self._files[path] = Sink(open_local(path, append=keeps or is_shared), path)
        return self._files[path]

    def _absolute(self, pattern: str) -> str:
        if pattern.startswith("/"):
            return pattern
        work_dir = self._options.request.get("work_dir") or current_directory()
        return f"{work_dir.rstrip('/')}/{pattern}"

    def _expanded(self, pattern: str, granted: "dict[str, Any]") -> str:
        """Return a local file's name: patterns that are the same on all nodes are filled in."""
        from pyslurm_ng.base.file_patterns import expand
        from pyslurm_ng.cli.command import user_name

        path = self._absolute(pattern)
        if "%" not in path and "\\" not in path:
            return path
        job_id = granted.get("job_id", 0)
        array_job = os.environ.get("SLURM_ARRAY_JOB_ID", "")
        array_task = os.environ.get("SLURM_ARRAY_TASK_ID", "")
        job_name = os.environ.get("SLURM_JOB_NAME", "")
        # As in Slurm: %x is the job's name, in a job whatever --job-name calls its step.
        name = "" if "SLURM_JOB_ID" in os.environ else self._options.request.get("name", "")
        return expand(
            path,
            job_id=job_id,
            array_job_id=int(array_job) if array_job.isdecimal() else job_id,
            array_task_id=int(array_task) if array_task.isdecimal() else NO_VAL,
            user=user_name(os.getuid()),
            job_name=name or job_name,
            step_id=granted.get("step_id", 0),
            node_name=(granted.get("nodes") or [""])[0],
            node_index=0,
            task_id=0,
        )


def _opened(stream: str, open_it: "Callable[[], Opened]") -> "Opened":
    """Open a file of srun's own; an error names the stream, as Slurm's message does."""
    try:
        return open_it()
    except OSError as problem:
        problem.filename = f"{stream} file"
        raise
