"""How a step ends on this node, for its `end` record."""

import time

from pyslurm_ng.base.numbers import END_OUT_OF_MEMORY, OOM_STATUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.d.stepd.task import Task


class StepResult:
    """The result of a step, gathered while the step runs.

    Attributes:
        status: the wait status of a step that could not start; 0 for other steps.
        error: why the step could not start.
        drain: why no other could here; "" if the step is the cause.
        flags: END_* of the result.
    """

    def __init__(self) -> None:
        self.status = 0
        self.error = ""
        self.drain = ""
        self.flags = 0
        self._start_us = time.time_ns() // 1000
        self._started_s = time.monotonic()
        self._end_us = 0

    def tasks_ended(self) -> None:
        """Note the time of the step's end."""
        # The wall clock is not read again, because an administrator may have set it meanwhile.
        self._end_us = self._start_us + int((time.monotonic() - self._started_s) * 1e6)

    def status_of(self, tasks: "list[Task]") -> int:
        """Return the wait status of the whole step."""
        status = self.status
        for task in tasks:
            # As in Slurm the highest status counts, and a signal counts more than any exit code.
            status = max(status, task.status, key=lambda number: (number & 0x7F, number))
        if self.flags & END_OUT_OF_MEMORY:
            status = OOM_STATUS
        return status

    def record(
        self, status: int, ntasks: int, usage: "list[Any] | None", energy_j: int
    ) -> "dict[str, Any]":
        """Return the record of the step's end."""
        return {
            "kind": "end",
            "status": status,
            "flags": self.flags,
            "error": self.error,
            "drain": self.drain,
            "start_us": self._start_us,
            "end_us": self._end_us,
            "usage": usage,
            "ntasks": ntasks,
            "energy_j": energy_j,
        }
