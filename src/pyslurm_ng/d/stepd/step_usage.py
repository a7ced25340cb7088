"""What a step's tasks use, sampled while they run and counted by the kernel at their end.

By task: rss_kib, virtual_kib, pages, cpu_us, read_bytes, written_bytes; user_us and system_us once
it has ended.
"""

from pyslurm_ng.base.numbers import END_OVER_MEMORY
from pyslurm_ng.daemon.process_tree import descendants, own_peak_kib, sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import StepSpec
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_notices import StepNotices
    from pyslurm_ng.d.stepd.step_result import StepResult
    from pyslurm_ng.d.stepd.task import Task, Tasks

_USUAL_PAUSE_S = 30.0


class StepUsage:
    """Measures the tasks, and ends the step when they are over the memory limit together."""

    def __init__(
        self,
        loop: "PollLoop",
        spec: "StepSpec",
        tasks: "Tasks",
        ending: "StepEnding",
        notices: "StepNotices",
        result: "StepResult",
    ) -> None:
        self._loop = loop
        self._spec = spec
        self._tasks = tasks
        self._ending = ending
        self._notices = notices
        self._result = result
        self._used: dict[int, dict[str, int]] = {}
        self._own_rss_kib = own_peak_kib()

    def begin(self) -> None:
        """Measure from time to time, if that is wanted."""
        pause_s = self._spec["acct_every"]
        if pause_s or self._spec["memory_limit_kib"]:
            self._loop.later(min(1.0, pause_s or 1.0), self._sample)

    def rows(self) -> "list[tuple[int, dict[str, int]]]":
        """Return what is known of each task."""
        return list(self._used.items())

    def _sample(self) -> None:
        self.measure()
        if self._tasks.by_pid:
            pause_s = max(1.0, float(self._spec["acct_every"] or _USUAL_PAUSE_S))
            self._loop.later(pause_s, self._sample)

    def measure(self) -> None:
        """Look at all tasks now."""
        total_kib = 0
        for pid, task in self._tasks.by_pid.items():
            seen = sample([pid, *descendants(pid)])
            total_kib += seen.rss_kib
            used = self._used.setdefault(task.task, {})
            for name in ("rss_kib", "virtual_kib", "pages", "cpu_us", "read_bytes",
                         "written_bytes"):  # fmt: skip
                used[name] = max(used.get(name, 0), getattr(seen, name))
        limit_kib = self._spec["memory_limit_kib"]
        if limit_kib and total_kib > limit_kib and not self._ending.is_dying:
            self._end_over_limit(total_kib, limit_kib)

    def _end_over_limit(self, total_kib: int, limit_kib: int) -> None:
        self._notices.say(
            f"StepId={self._spec['name']} exceeded memory limit ({total_kib * 1024} > "
            f"{limit_kib * 1024}), being killed"
        )
        self._notices.say("Exceeded job memory limit")
        self._result.flags |= END_OVER_MEMORY
        self._ending.terminate("DUE to SIGNAL Killed", 0.0)

    def count(self, task: "Task", used: "Any") -> None:
        """Keep what the kernel counted for a task and the descendants it waited for."""
        kept = self._used.setdefault(task.task, {})
        kept["user_us"] = int(used.ru_utime * 1e6)
        kept["system_us"] = int(used.ru_stime * 1e6)
        # Between vfork and exec a task shares our memory, and the kernel counts that as its peak.
        if used.ru_maxrss > self._own_rss_kib:
            kept["rss_kib"] = max(kept.get("rss_kib", 0), int(used.ru_maxrss))
        kept["pages"] = max(kept.get("pages", 0), int(used.ru_majflt))
        kept["cpu_us"] = max(kept.get("cpu_us", 0), kept["user_us"] + kept["system_us"])
