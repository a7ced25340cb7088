"""The profile of a step: samples by series, kept in a file until a process publishes them."""

import json
import os
import time

from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.profile.samples import (
    ENERGY,
    FILESYSTEM,
    MOST_BYTES,
    NETWORK,
    TASK,
    TASK_AMOUNTS,
    TRAFFIC_AMOUNTS,
    SampleFile,
)
from pyslurm_ng.d.stepd.beside_process import BesideProcess
from pyslurm_ng.daemon.process_tree import read_proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import ProfileSpec
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_processes import StepProcesses

_LIMIT_S = 30.0
_DYING_S = 10.0
_LAST_CPU = 36  # which word of /proc/PID/stat, after the name, says where a process ran last
_TRAFFIC = {"network": (NETWORK, "network"), "lustre": (FILESYSTEM, "filesystem")}


class StepProfile:
    """Samples what was asked for, and has it published at the step's end.

    Args:
        path: of the step's file; the samples lie beside it.
        tell: is called with each line about what went wrong.
    """

    def __init__(
        self,
        loop: "PollLoop",
        spec: "ProfileSpec",
        processes: "StepProcesses",
        ending: "StepEnding",
        path: str,
        tell: "Callable[[str], None]",
    ) -> None:
        self._loop = loop
        self._spec = spec
        self._processes = processes
        self._ending = ending
        self._path = f"{path}.profile"
        self._tell = tell
        self._samples: SampleFile | None = None
        self._publisher: BesideProcess | None = None
        self._about = {**spec["about"], "samples": self._path, "start_s": int(time.time())}

    @property
    def wants_tasks(self) -> bool:
        """Whether samples of tasks are kept."""
        return self._samples is not None and "task" in self._spec["every_s"]

    def begin(self) -> None:
        """Begin to sample."""
        try:
            self._samples = SampleFile(self._path)
        except OSError as error:
            self._tell(f"there is no profile: {self._path}: {error.strerror}")
            return
        if self._spec["starts_at_once"]:
            self._publisher = self._start_publisher()
        for name in self._spec["every_s"]:
            if name != "task":
                self._sample_again(name)

    def add_task(self, task: int, pid: int, counts: "dict[str, int]") -> None:
        """Keep a sample of a task; `counts` are by the names of TASK_AMOUNTS."""
        if self._samples is not None:
            amounts = {**counts, "cpu_khz": _khz(pid)}
            row = [int(amounts.get(name, 0)) for name in TASK_AMOUNTS]
            self._samples.add(TASK, task, int(time.time()), row)

    def _sample_again(self, name: str) -> None:
        self._sample(name)
        every_s = float(self._spec["every_s"][name])
        self._loop.later(every_s, lambda: self._sample_again(name), f"profile {name}")

    def _sample(self, name: str) -> None:
        if self._samples is None:
            return
        fields = snapshot.read(self._spec["meter"])
        if not fields:
            return
        if name == "energy":
            row = _milliwatts(fields, self._about["labels"])
            self._samples.add(ENERGY, -1, int(time.time()), row)
            return
        series, part = _TRAFFIC[name]
        totals = fields.get(part)
        if totals:
            row = list(totals[: len(TRAFFIC_AMOUNTS)])
            self._samples.add(series, -1, int(time.time()), row)

    def finish(self) -> None:
        """Have what was sampled published; this waits for it, but not for ever."""
        if self._samples is None:
            return
        for name in self._spec["every_s"]:
            if name != "task":
                self._loop.cancel(f"profile {name}")
                self._sample(name)
        if self._samples.lost:
            text = f"{self._samples.lost} samples of the profile were not kept"
            self._tell(f"{text}: there is room for {MOST_BYTES >> 20} MiB, and while the disk has")
        self._samples.close()
        self._samples = None
        publisher = self._publisher or self._start_publisher()
        if publisher is not None:
            limit_s = _DYING_S if self._ending.is_dying else _LIMIT_S
            said = publisher.finish(limit_s)
            if said is None:
                said = f"the profile was not published within {limit_s:.0f} s"
            for line in said.splitlines():
                self._tell(f"profile: {line}")
        os.unlink(self._path)

    def _start_publisher(self) -> "BesideProcess | None":
        about = json.dumps(self._about).encode() + b"\n"
        try:
            return BesideProcess(self._loop, self._processes, self._spec["command"], about)
        except OSError as error:
            self._tell(f"there is no profile: {self._spec['command'][0]}: {error.strerror}")
            return None


def _milliwatts(fields: "dict[str, Any]", labels: "list[str]") -> "list[int]":
    """Return the power of each label of EnergyIPMIPowerSensors; without any, the node's."""
    if labels != [""]:
        sensors = fields.get("sensors") or {}
        return [int(sensors.get(label, 0)) for label in labels]
    rows = [*fields["gpus"].values(), fields["node"] or (0, 0)]
    return [sum(int(row[1]) for row in rows)]


def _khz(pid: int) -> int:
    """Return the frequency of the CPU on which a process ran last, 0 if the kernel does not say."""
    try:
        stat = read_proc(f"/proc/{pid}/stat")
        cpu = int(stat[stat.rindex(b")") + 2 :].split()[_LAST_CPU])
        folder = f"/sys/devices/system/cpu/cpu{cpu}/cpufreq"
        return int(read_proc(f"{folder}/scaling_cur_freq"))
    except (OSError, ValueError, IndexError):
        return 0
