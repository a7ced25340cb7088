"""What the node's meter says of one step: its tasks' use of GPUs, and its energy.

It is read from a file of root's (`d.meter.snapshot`), so a driver that hangs hangs no supervisor.
"""

from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.meter.snapshot import (
    BUSY_MS,
    MEMORY_KIB,
    MOST_MEMORY_KIB,
    MOST_PERCENT,
    PERCENT,
    PID,
    START,
)
from pyslurm_ng.d.spool.step_record import start_ticks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.d.spool.step_contract import MeterSpec

_MOST_EXTRA_US = 10_000_000  # that a power is taken to go on for, after it was measured
_UJ = 1_000_000


class StepMeter:
    """Adds up what the file says.

    Args:
        spec: None if nothing is measured.
    """

    def __init__(self, spec: "MeterSpec | None") -> None:
        self._spec = spec
        self._fields: dict[str, Any] = {}
        self._rows: dict[int, list[int]] = {}
        self._processes: dict[int, dict[int, list[int]]] = {}  # newest row by process, by task
        self._peaks: dict[int, tuple[int, int]] = {}  # percent and KiB, by task
        self._began_us = snapshot.now_us()
        self._began_uj = -1
        self._energy_uj = 0
        self._began: dict[str, list[int]] = {}  # totals of bytes in and out at the start, by TRES
        self._moved: dict[str, list[int]] = {}
        self.look()

    def look(self) -> bool:
        """Read the file; return whether it says something."""
        spec = self._spec
        if spec is None:
            return False
        self._fields = snapshot.read(spec["path"])
        self._rows = {row[PID]: row for row in self._fields.get("processes", ())}
        self._count_energy()
        self._count_traffic(spec)
        return bool(self._fields)

    def has_gpus(self) -> bool:
        """Return whether the step's use of GPUs is measured now."""
        return bool(self._spec and self._spec["gpu_use"] and self._fields)

    def add(self, task: int, pids: "list[int]") -> "dict[str, int]":
        """Return a task's use of GPUs so far, after a look.

        Its mean is over the time from the step's start until the file was written. A process that
        has ended is remembered by what was last said of it.
        """
        if not self.has_gpus():
            return {}
        known = self._processes.setdefault(task, {})
        for pid in {*pids, *known}:
            row = self._rows.get(pid)
            if row is None:
                continue
            is_same = row[START] == (known[pid][START] if pid in known else start_ticks(pid))
            if is_same:
                known[pid] = row
        alive = [row for pid, row in known.items() if pid in self._rows]
        percent, memory_kib = self._peaks.get(task, (0, 0))
        ones = known.values()
        percent = max(percent, sum(row[PERCENT] for row in alive),
                      *(row[MOST_PERCENT] for row in ones), 0)  # fmt: skip
        memory_kib = max(memory_kib, sum(row[MEMORY_KIB] for row in alive),
                         *(row[MOST_MEMORY_KIB] for row in ones), 0)  # fmt: skip
        self._peaks[task] = percent, memory_kib
        span_ms = max(1, (self._fields["time_us"] - self._began_us) // 1000)
        busy_ms = sum(row[BUSY_MS] for row in ones)
        mean = min(100 * busy_ms // span_ms, percent)
        return {"gpu_percent": percent, "gpu_mean_percent": mean, "gpu_memory_kib": memory_kib}

    def now(self, task: int) -> "dict[str, int]":
        """Return what a task does on its GPUs at the last look, as a profile has it."""
        known = self._processes.get(task, {})
        alive = [row for pid, row in known.items() if pid in self._rows]
        return {
            "gpu_memory_kib": sum(row[MEMORY_KIB] for row in alive),
            "gpu_percent": sum(row[PERCENT] for row in alive),
        }

    def traffic(self) -> "list[tuple[str, int, int]]":
        """Return each TRES that is counted, with the bytes in and out since the step's start."""
        return [(tres, moved[0], moved[1]) for tres, moved in self._moved.items()]

    def energy_j(self) -> int:
        """Return the joules since the step's start, as of the last look."""
        return self._energy_uj // _UJ

    def _count_energy(self) -> None:
        now_uj = self._counter_uj()
        if now_uj < 0:
            return
        if self._began_uj < 0:
            self._began_uj = now_uj
        self._energy_uj = max(self._energy_uj, now_uj - self._began_uj)

    def _count_traffic(self, spec: "MeterSpec") -> None:
        for tres, part in spec["traffic"]:
            totals = self._fields.get(part)
            if not totals:
                continue
            began = self._began.setdefault(tres, totals[2:])
            self._moved[tres] = [
                max(0, now - then) for now, then in zip(totals[2:], began, strict=True)
            ]

    def _counter_uj(self) -> int:
        """Return the step's counters at this moment, -1 if there are none.

        Since they were read the power has gone on, so short steps have energy, too.
        """
        spec, fields = self._spec, self._fields
        if spec is None or not fields:
            return -1
        rows = [fields["node"]] if spec["node_energy"] and fields["node"] else []
        if spec["gpu_energy"]:
            rows += [fields["gpus"][gpu] for gpu in spec["gpus"] if gpu in fields["gpus"]]
        if not rows:
            return -1
        extra_us = min(max(0, snapshot.now_us() - fields["time_us"]), _MOST_EXTRA_US)
        return sum(total_uj + milliwatts * extra_us // 1000 for total_uj, milliwatts in rows)
