"""Starting a step's tasks on its nodes: LaunchStep to each, all at once."""

import os

from pyslurm_ng.base.numbers import REQ_OPEN_APPEND, REQ_OPEN_TRUNCATE, REQ_OVERCOMMIT
from pyslurm_ng.cli.file_names import current_directory
from pyslurm_ng.cli.step.mpi_kinds import without_outer_ranks
from pyslurm_ng.cli.step.step_request import is_on
from pyslurm_ng.cli.submit import binding_options, submission
from pyslurm_ng.conf.quick import is_yes
from pyslurm_ng.wire.client import Client, SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyslurm_ng.cli.submit.options import Options

_OUTSIDE_PATTERNS = "tnN"
"""Nodes write files whose names have one of these patterns; srun writes all others."""


def is_per_node(pattern: str) -> bool:
    """Return whether an output or input pattern names different files on different nodes."""
    if "\\" in pattern:
        return False
    position = pattern.find("%")
    while position >= 0:
        end = position + 1
        while pattern[end : end + 1].isdecimal():
            end += 1
        if pattern[end : end + 1] in _OUTSIDE_PATTERNS and pattern[end : end + 1]:
            return True
        position = pattern.find("%", end + 1)
    return False


_USUAL_LOUDNESS = 3
"""The value of SRUN_DEBUG without -v and -Q."""


def task_environment(
    options: "Options", variables: "Mapping[bytes, bytes]", granted: "Mapping[str, Any]"
) -> bytes:
    """Return the variables that the tasks get from us, each ended by NUL.

    The node adds what only it knows for certain: ids, node lists, counts.
    """
    mode, named, assigned = submission.export_words(options.settings.get("export"))
    variables = submission.with_plugins(options, variables)
    of_step = {
        name: value
        for name, value in variables.items()
        if mode == "ALL"
        or name in named
        or name.startswith((b"SLURM", b"SPANK_", b"_SLURM_SPANK_"))
    }
    of_step = without_outer_ranks(of_step)
    of_step.update(assigned)
    of_step.update(_own_variables(options, granted))
    return b"".join(b"%b=%b\0" % pair for pair in of_step.items())


def _own_variables(options: "Options", granted: "Mapping[str, Any]") -> "dict[bytes, bytes]":
    """Return the variables about srun and its options."""
    request, settings = options.request, options.settings
    texts: dict[str, object] = {
        "SLURM_UMASK": f"{submission.files_umask():04o}",
        "SLURM_PRIO_PROCESS": os.getpriority(os.PRIO_PROCESS, 0),
    }
    if "SRUN_DEBUG" not in os.environ:
        texts["SRUN_DEBUG"] = _USUAL_LOUDNESS + options.verbose - ("quiet" in settings)
    if "SLURM_SUBMIT_DIR" not in os.environ:
        texts["SLURM_SUBMIT_DIR"] = current_directory()
    if "SLURM_SUBMIT_HOST" not in os.environ:
        texts["SLURM_SUBMIT_HOST"] = os.uname().nodename.partition(".")[0]
    for name, variable in (
        ("cpus_per_task", "SLURM_CPUS_PER_TASK"),
        ("ntasks_per_node", "SLURM_NTASKS_PER_NODE"),
        ("ntasks_per_core", "SLURM_NTASKS_PER_CORE"),
        ("ntasks_per_socket", "SLURM_NTASKS_PER_SOCKET"),
        ("threads_per_core", "SLURM_THREADS_PER_CORE"),
        ("gpus", "SLURM_GPUS"),
        ("gpus_per_node", "SLURM_GPUS_PER_NODE"),
        ("gpus_per_task", "SLURM_GPUS_PER_TASK"),
        ("gpu_bind", "SLURM_GPU_BIND"),
    ):
        if request.get(name):
            texts[variable] = request[name]
    if "cpu-freq" in settings:
        texts["SLURM_CPU_FREQ_REQ"] = settings["cpu-freq"]
    if request.get("tres_freq"):
        texts["SLURMD_TRES_FREQ"] = request["tres_freq"]
    if "tres-per-task" in options.given:
        texts["SLURM_TRES_PER_TASK"] = options.task_tres()
    if request.get("distribution"):
        texts["SLURM_DISTRIBUTION"] = granted["distribution"]
    if request.get("plane_size"):
        texts["SLURM_DIST_PLANESIZE"] = request["plane_size"]
    if "label" in settings:
        texts["SLURM_LABELIO"] = 1
    if "unbuffered" in settings:
        texts["SLURM_UNBUFFEREDIO"] = 1
    if is_on(options, "kill-on-bad-exit"):
        texts["SLURM_KILL_BAD_EXIT"] = 1
    if options.has_flag(REQ_OVERCOMMIT):
        texts["SLURM_OVERCOMMIT"] = 1
    if options.has_flag(REQ_OPEN_APPEND | REQ_OPEN_TRUNCATE):
        texts["SLURM_OPEN_MODE"] = "a" if options.has_flag(REQ_OPEN_APPEND) else "t"
    if "job-name" in options.given:
        texts["SLURM_JOB_NAME"] = request["name"]
    if "cpu-bind" in settings:
        texts |= binding_options.cpu_bind_variables(options)
    texts |= binding_options.mem_bind_variables(options)
    return {name.encode(): os.fsencode(str(value)) for name, value in texts.items()}


def step_variables(granted: "Mapping[str, Any]") -> "dict[str, str]":
    """Return the variables that programs beside srun read about its step."""
    from pyslurm_ng.base.hostlist import fold
    from pyslurm_ng.sched.cons_tres.layout import counts_text

    counts = [len(tasks) for tasks in granted["tasks"]]
    nodes, names = str(len(granted["nodes"])), fold(granted["nodes"])
    tasks, per_node = str(sum(counts)), counts_text(counts)
    job_id, step_id = str(granted["job_id"]), str(granted["step_id"])
    return {
        "SLURM_JOB_ID": job_id, "SLURM_JOBID": job_id,
        "SLURM_STEP_ID": step_id, "SLURM_STEPID": step_id,
        "SLURM_STEP_NODELIST": names, "SLURM_NODELIST": names,
        "SLURM_STEP_NUM_NODES": nodes, "SLURM_NNODES": nodes,
        "SLURM_STEP_NUM_TASKS": tasks, "SLURM_NTASKS": tasks, "SLURM_NPROCS": tasks,
        "SLURM_STEP_TASKS_PER_NODE": per_node, "SLURM_TASKS_PER_NODE": per_node,
    }  # fmt: skip


def gpu_bind(request: "Mapping[str, Any]") -> str:
    """Return how tasks share the step's GPUs: as requested, else as many on each as allowed."""
    bind, per_gpu = request.get("gpu_bind", ""), request.get("ntasks_per_gpu", 0)
    if bind or not per_gpu or request.get("tres_bind"):
        return str(bind)
    return f"single:{per_gpu}"


def appends(options: "Options", conf: "dict[str, str]") -> bool:
    """Return whether files of output keep what is in them: --open-mode, else JobFileAppend."""
    if options.has_flag(REQ_OPEN_APPEND | REQ_OPEN_TRUNCATE):
        return options.has_flag(REQ_OPEN_APPEND)
    return is_yes(conf, "JobFileAppend")


def launch_fields(
    options: "Options",
    conf: "dict[str, str]",
    granted: "dict[str, Any]",
    programs: "list[dict[str, Any]]",
    std: "dict[str, Any]",
) -> "dict[str, Any]":
    """Return a LaunchStep but for the route: `std` has its std_* and *_task fields."""
    request, settings = options.request, options.settings
    fields: dict[str, Any] = {
        "credential": granted["credential"],
        "programs": programs,
        "environment": task_environment(options, os.environb, granted),
        "cwd": request.get("work_dir") or current_directory(),
        "append": appends(options, conf),
        "label": "label" in settings,
        "pty": "pty" in settings,
        "keeps_counts": "preserve-env" in settings,
        "umask": submission.files_umask(),
        "rlimits": submission.limits(settings.get("propagate", ""), conf),
        "cpu_bind": binding_options.step_cpu_bind(options).text(),
        "gpu_bind": gpu_bind(request),
        "mem_bind": settings.get("mem-bind", ""),
        "task_prolog": settings.get("task-prolog", ""),
        "task_epilog": settings.get("task-epilog", ""),
        "container": request.get("container", ""),
        "container_options": request.get("container_options", []),
        "tasks_per_socket": request.get("ntasks_per_socket", 0),
        "oom_kill_step": request.get("oom_kill_step", -1),
        "waits_for_children": "wait-for-children" in settings,
        "threads_per_core": request.get("threads_per_core", 0),
        "acctg_freq": request.get("acctg_freq", ""),
        "profile": request.get("profile", ""),
        **std,
    }
    libraries = fields.pop("library_path", "")
    if libraries:
        before = os.environ.get("LD_LIBRARY_PATH", "")
        path = f"{libraries}:{before}" if before else libraries
        fields["environment"] += b"LD_LIBRARY_PATH=%b\0" % os.fsencode(path)
    if "pty" in settings:
        from pyslurm_ng.cli.step.terminal import window_size

        size = fields["pty_rows"], fields["pty_columns"] = window_size()
        fields["environment"] += b"SLURM_PTY_WIN_ROW=%d\0SLURM_PTY_WIN_COL=%d\0" % size
    return fields


def launching_lines(
    options: "Options", granted: "Mapping[str, Any]", step_name: str
) -> "list[str]":
    """Return the lines of -v about a step before its launch."""
    from pyslurm_ng.base.hostlist import fold, fold_numbers
    from pyslurm_ng.sched.cons_tres.layout import counts_text

    def bracketed(ids: "list[int]") -> str:
        return f"[{fold_numbers(ids)}]" if len(ids) > 1 else fold_numbers(ids)

    nodes = granted["nodes"]
    words = counts_text(granted["cpus"]).split(",")
    cpus = ",".join(word if "(x" in word else f"{word}(x1)" for word in words)
    bind = binding_options.step_cpu_bind(options).text().removeprefix("quiet").lstrip(",")
    return [
        f"jobid {granted['job_id']}: nodes({len(nodes)}):`{fold(nodes)}', cpu counts: {cpus}",
        f"CpuBindType={bind or '(null type)'}",
        *(
            f"launching {step_name} on host {node}, {len(ids)} tasks: {bracketed(ids)}"
            for node, ids in zip(nodes, granted["tasks"], strict=True)
        ),
    ]


class Launch:
    """Sends LaunchStep to every node of a step, then gathers the answers."""

    def __init__(
        self,
        conf: "dict[str, str]",
        granted: "dict[str, Any]",
        fields: "dict[str, Any]",
        limit_s: float,
    ) -> None:
        """A node that has not answered after `limit_s` counts as failed."""
        self._limit_s = limit_s
        self._conf = conf
        self._nodes: list[str] = granted["nodes"]
        self._addresses: list[Any] = granted["addresses"]
        self._fields = fields

    def run(self, port: int, key: bytes) -> "dict[int, str]":
        """Launch everywhere; return what went wrong, by node index."""
        failed: dict[int, str] = {}
        begun: list[tuple[int, Client]] = []
        for index, (node, address) in enumerate(zip(self._nodes, self._addresses, strict=True)):
            client = Client(
                self._conf, f"slurmd:{node}", (str(address[0]), int(address[1])), wait_s=2.0
            )
            try:
                host = client.local_host()
                route = {"host": host, "port": port, "key": key}
                client.begin("LaunchStep", {**self._fields, "route": route, "host_ip": host})
            except SlurmError as problem:
                failed[index] = problem.text
                client.close()
                continue
            begun.append((index, client))
        for index, client in begun:
            try:
                client.receive(self._limit_s)
            except SlurmError as problem:
                failed[index] = problem.text
            client.close()
        return failed
