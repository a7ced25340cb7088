"""How much of its processors, memory and time a job used."""

from pyslurm_ng.base.numbers import SECOND_US

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

JOB_COLUMNS = (
    "job_id", "array_job_id", "array_task_id", "array_tasks", "het_job_id", "het_job_offset",
    "sluid", "user", "group", "uid", "gid", "name", "state", "exit_code", "cpus_allocated",
    "cpus_requested",
    "nodes_allocated", "nodes_requested", "mem_mib", "mem_is_per_cpu", "start_us", "end_us",
    "suspended_us", "suspend_start_us", "time_limit_min", "tres_allocated",
)  # fmt: skip
STEP_COLUMNS = (
    "step_id", "tasks", "user_cpu_us", "system_cpu_us", "tres_usage_in_ave", "tres_usage_in_tot",
)  # fmt: skip


class Efficiency:
    """What one job had and used.

    Attributes:
        cpus, nodes, tasks: counts; what it asked for while it waits.
        cpu_s: processor time of all steps.
        wall_s: run time without suspension.
        memory_kib: the most that the tasks of one step had together.
        memory_limit_kib: what the job was given.
        gpu_percent: how busy all its GPUs were on average, None where that was not measured.
        gpu_memory_kib: the most that its tasks had on GPUs together, None likewise.
    """

    def __init__(self, job: "Row", steps: "list[Row]", now_us: int) -> None:
        self.job = job
        self.state: str = job["state"]
        self.is_waiting = not job["start_us"]
        self.is_running = bool(job["start_us"] and not job["end_us"])
        self.cpus: int = max(1, job["cpus_allocated"] or job["cpus_requested"])
        self.nodes = max(1, job["nodes_allocated"] or job["nodes_requested"])
        self.tasks: int = max([1, *(step["tasks"] for step in steps)])
        used_us = sum(step["user_cpu_us"] + step["system_cpu_us"] for step in steps)
        self.cpu_s = int(used_us // SECOND_US)
        self.wall_s: int = _wall_s(job, now_us)
        self.memory_kib = max([0, *(_amount(step, "tot", "mem") // 1024 for step in steps)])
        units = self.cpus if job["mem_is_per_cpu"] else self.nodes
        limit_mib = job["mem_mib"] * units or tres_count(job["tres_allocated"], "mem")
        self.memory_limit_kib: int = limit_mib * 1024
        gpus = tres_count(job["tres_allocated"], "gres/gpu")
        gpu_memory = [_usage(step, "tot", "gres/gpumem") for step in steps]
        # A task's utilisation is the sum over its GPUs, a step's the sum over its tasks.
        busy = [_usage(step, "tot", "gres/gpuutil") for step in steps]
        self.gpu_percent = max(
            (int(text) / max(1, gpus) for text in busy if text.isdecimal()), default=None
        )
        self.gpu_memory_kib = max(
            (int(text) // 1024 for text in gpu_memory if text.isdecimal()), default=None
        )

    @property
    def core_s(self) -> int:
        """The processor time that the job had."""
        return self.cpus * self.wall_s

    @property
    def cpu_percent(self) -> float:
        """The part of its processor time that the job used."""
        return 100 * self.cpu_s / self.core_s if self.core_s else 0.0

    @property
    def memory_percent(self) -> float:
        """The part of its memory that the job used."""
        return 100 * self.memory_kib / self.memory_limit_kib if self.memory_limit_kib else 0.0

    @property
    def time_percent(self) -> float:
        """The part of its time limit for which the job ran."""
        limit_s = self.job["time_limit_min"] * 60
        return 100 * self.wall_s / limit_s if limit_s > 0 else 0.0

    @property
    def exit_status(self) -> int:
        """The exit code of the wait status that is stored."""
        status: int = self.job["exit_code"]
        return status >> 8 & 0xFF

    @property
    def array_name(self) -> str:
        """The id of an array task as users know it, "" for other jobs."""
        job = self.job
        if not job["array_job_id"]:
            return ""
        task = job["array_task_id"]
        return f"{job['array_job_id']}_{task if task >= 0 else '[' + job['array_tasks'] + ']'}"


def _wall_s(job: "Row", now_us: int) -> int:
    start_us, end_us = job["start_us"], job["end_us"] or now_us
    if not start_us:
        return 0
    suspended_us = job["suspended_us"]
    if job["suspend_start_us"] and not job["end_us"]:
        suspended_us += now_us - job["suspend_start_us"]
    span_s = end_us // SECOND_US - start_us // SECOND_US
    return int(max(0, span_s - suspended_us // SECOND_US))


def _usage(step: "Row", what: str, name: str) -> str:
    """Return a figure of a step's usage list, "" if it is not there."""
    for word in step[f"tres_usage_in_{what}"].split(","):
        key, _, value = word.partition("=")
        if key == name:
            return str(value)
    return ""


def tres_count(text: str, name: str) -> int:
    """Return how much of one TRES a list such as `cpu=4,gres/gpu=2` has."""
    for word in text.split(","):
        key, _, value = word.partition("=")
        if key == name and value.isdecimal():
            return int(value)
    return 0


def _amount(step: "Row", what: str, name: str) -> int:
    text = _usage(step, what, name)
    return int(text) if text.isdecimal() else 0


def time_text(seconds: int) -> str:
    """Return a time as [days-]hours:minutes:seconds."""
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def memory_text(kib: float) -> str:
    """Return an amount of memory with two decimals, in the largest unit that is not above it."""
    for unit in ("KB", "MB", "GB", "TB"):
        if kib < 1024:
            return f"{kib:.2f} {unit}"
        kib /= 1024
    return f"{kib:.2f} PB"
