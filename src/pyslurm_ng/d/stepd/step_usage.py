"""What a step's tasks use, sampled while they run and counted by the kernel at their end.

Each task has rss_kib, virtual_kib, pages, cpu_us, read_bytes and written_bytes, and after its end
user_us and system_us. A task with GPUs has gpu_percent, gpu_mean_percent and gpu_memory_kib, too.
"""

from pyslurm_ng.base.numbers import END_OVER_MEMORY
from pyslurm_ng.d.stepd.step_meter import StepMeter
from pyslurm_ng.daemon.process_tree import descendants, own_peak_kib, sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import StepSpec
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_notices import StepNotices
    from pyslurm_ng.d.stepd.step_processes import StepProcesses
    from pyslurm_ng.d.stepd.step_profile import StepProfile
    from pyslurm_ng.d.stepd.step_result import StepResult
    from pyslurm_ng.d.stepd.task import Task, Tasks

_USUAL_PAUSE_S = 30.0


class StepUsage:
    """Measures the tasks, and ends the step if together they use more memory than allowed.

    Attributes:
        profile: keeps samples of tasks; None if nobody asked for a profile.
    """

    def __init__(
        self,
        loop: "PollLoop",
        spec: "StepSpec",
        tasks: "Tasks",
        processes: "StepProcesses",
        ending: "StepEnding",
        notices: "StepNotices",
        result: "StepResult",
    ) -> None:
        self._loop = loop
        self._spec = spec
        self._tasks = tasks
        self._processes = processes
        self._ending = ending
        self._notices = notices
        self._result = result
        self._peaks: dict[int, dict[str, int]] = {}
        self._has_outside = False
        self._meter = StepMeter(spec.get("meter"))
        self.profile: StepProfile | None = None
        self._own_rss_kib = own_peak_kib()
        self._counts_shared: bool = spec.get("counts_shared", True)

    def begin(self) -> None:
        """Measure from time to time, if accounting or a memory limit needs it."""
        pause_s = self._spec["acct_every"]
        if pause_s or self._spec["memory_limit_kib"]:
            self._loop.later(min(1.0, pause_s or 1.0), self._sample, "usage")

    def rows(self) -> "list[tuple[int, dict[str, int]]]":
        """Return (task, usage) for each task; for an extern step as of one task."""
        outside = self._processes.outside
        if outside is not None:
            return [(0, outside.counts(self._processes.group_usage()))]
        return list(self._peaks.items())

    def traffic(self) -> "list[tuple[str, int, int]]":
        """Return TRES of networks and file systems with the bytes that came and went so far."""
        self._meter.look()
        return self._meter.traffic()

    def energy_j(self) -> int:
        """Return the joules of the step on this node so far; 0 where they are not measured."""
        self._meter.look()
        return self._meter.energy_j()

    def _sample(self) -> None:
        self.measure(is_sample=True)
        if self._tasks.by_pid or self._has_outside:
            pause_s = max(1.0, float(self._spec["acct_every"] or _USUAL_PAUSE_S))
            self._loop.later(pause_s, self._sample, "usage")

    def measure(self, *, is_sample: bool = False) -> None:
        """Measure all tasks now; samples that are due go into the profile."""
        total_kib = 0
        self._meter.look()
        self.measure_outside()
        for pid, task in self._tasks.by_pid.items():
            pids = [pid, *descendants(pid)]
            use = sample(pids, counts_shared=self._counts_shared)
            total_kib += use.rss_kib
            peaks = self._peaks.setdefault(task.task, {})
            for name in ("rss_kib", "virtual_kib", "pages", "cpu_us", "read_bytes",
                         "written_bytes"):  # fmt: skip
                peaks[name] = max(peaks.get(name, 0), getattr(use, name))
            peaks.update(self._meter.add(task.task, pids))
            if is_sample and self.profile is not None and self.profile.wants_tasks:
                counts = {name: getattr(use, name) for name in use.__slots__}
                self.profile.add_task(task.task, pid, counts | self._meter.now(task.task))
        limit_kib = self._spec["memory_limit_kib"]
        if limit_kib and total_kib > limit_kib and not self._ending.is_dying:
            self._end_over_limit(total_kib, limit_kib)

    def measure_outside(self) -> None:
        """Measure the processes of an extern step now."""
        outside = self._processes.outside
        if outside is not None:
            pids = self._processes.living()
            self._has_outside = bool(pids)
            outside.measure(pids)

    def _end_over_limit(self, total_kib: int, limit_kib: int) -> None:
        self._notices.say(
            f"StepId={self._spec['name']} exceeded memory limit ({total_kib * 1024} > "
            f"{limit_kib * 1024}), being killed"
        )
        self._notices.say("Exceeded job memory limit")
        self._result.flags |= END_OVER_MEMORY
        self._ending.terminate("DUE to SIGNAL Killed", 0.0)

    def count(self, task: "Task", rusage: "Any") -> None:
        """Add what the kernel counted for a task and the descendants that it waited for."""
        peaks = self._peaks.setdefault(task.task, {})
        self._meter.look()
        peaks.update(self._meter.add(task.task, []))
        peaks["user_us"] = int(rusage.ru_utime * 1e6)
        peaks["system_us"] = int(rusage.ru_stime * 1e6)
        # Between vfork and exec a task shares our memory, and the kernel counts that as its peak.
        if rusage.ru_maxrss > self._own_rss_kib and self._counts_shared:
            peaks["rss_kib"] = max(peaks.get("rss_kib", 0), int(rusage.ru_maxrss))
        # What was resident was mapped, too, also where the task ended before it was sampled.
        peaks["virtual_kib"] = max(peaks.get("virtual_kib", 0), peaks.get("rss_kib", 0))
        peaks["pages"] = max(peaks.get("pages", 0), int(rusage.ru_majflt))
        peaks["cpu_us"] = max(peaks.get("cpu_us", 0), peaks["user_us"] + peaks["system_us"])
