"""What processes do on a host's GPUs, and what the GPUs draw, added up from NVML's samples."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pyslurm_ng.base.numbers import SECOND_US

_MOST_PROCESSES = 8192
_FORGET_US = 180 * SECOND_US  # after a process has ended; its supervisor has looked by then
_MOST_PERCENT = 100
_MOST_SLICES = 7
# NVML_ERROR_GPU_IS_LOST and NVML_ERROR_RESET_REQUIRED, after errors such as Xid 79 and 95.
_LOST = frozenset((15, 16))


class _Process:
    """The row of one process; see `snapshot`."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.percent = self.most_percent = self.busy_ms = 0
        self.memory_kib = self.most_memory_kib = 0
        self.seen_us = 0

    def add(self, percent: int, memory_kib: int, span_us: int) -> None:
        self.percent, self.memory_kib = percent, memory_kib
        self.most_percent = max(self.most_percent, percent)
        self.most_memory_kib = max(self.most_memory_kib, memory_kib)
        self.busy_ms += percent * span_us // 100_000


class GpuUse:
    """Sums by process and by GPU.

    Attributes:
        lost: numbers of the files of GPUs that the driver has lost, at the last look.

    Args:
        start_of: returns when a process began, in ticks since boot; 0 if there is none.
        numbers: of the files of the node's GPUs.
        energy: whether the GPUs' energy is counted.
        before: the `state` of an earlier meter of this boot.
    """

    def __init__(
        self,
        start_of: Callable[[int], int],
        numbers: Collection[int] = (),
        *,
        energy: bool = False,
        before: Any = None,
    ) -> None:
        self.lost: set[int] = set()
        self._start_of = start_of
        self._numbers = frozenset(numbers)
        self._seen: set[int] = set()  # GPUs that have answered
        self._counts_energy = energy
        self._processes: dict[int, _Process] = {}
        self._newest_us: dict[int, int] = {}  # NVML's time of the newest sample, by GPU
        self._sampled_us = 0
        # By GPU: microjoules, milliwatts, when they were read. Only where there is no counter.
        self._added: dict[int, list[int]] = {
            int(minor): list(row) for minor, row in (before or {}).items()
        }
        self._gpus: dict[int, tuple[int, int]] = {}

    def sample(self, nvml: Any, now_us: int) -> None:
        """Ask for what has happened since the last time; raises the binding's NVMLError."""
        span_us = min(max(0, now_us - self._sampled_us), 60 * SECOND_US) if self._sampled_us else 0
        self._sampled_us = now_us
        percents: dict[int, int] = {}
        memories: dict[int, int] = {}
        for minor, gpu in self._answering(nvml):
            on_gpu: set[int] = set()
            for handle in _slices(nvml, gpu) or [gpu]:  # a cut GPU lists them once more
                for pid, memory_kib in _running(nvml, handle):
                    memories[pid] = memories.get(pid, 0) + memory_kib
                    on_gpu.add(pid)
            for pid, percent in self._busy(nvml, gpu, minor, on_gpu).items():
                percents[pid] = percents.get(pid, 0) + percent
            if self._counts_energy:
                self._gpus[minor] = self._energy(nvml, gpu, minor, now_us)
        for pid in percents.keys() | memories.keys():
            process = self._process(pid)
            if process is not None:
                process.seen_us = now_us
                process.add(percents.get(pid, 0), memories.get(pid, 0), span_us)
        self._let_go(percents.keys() | memories.keys(), now_us)

    def _answering(self, nvml: Any) -> list[tuple[int, Any]]:
        """Return the GPUs with the numbers of their files; note which are lost.

        A lost GPU may not even tell its number, or be counted no longer.
        """
        gpus = []
        is_nameless = False
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                gpu = nvml.nvmlDeviceGetHandleByIndex(index)
                minor = nvml.nvmlDeviceGetMinorNumber(gpu)
                nvml.nvmlDeviceGetMemoryInfo(gpu)  # the driver asks the GPU itself
            except nvml.NVMLError as error:
                if getattr(error, "value", 0) not in _LOST:
                    raise
                is_nameless = True
                continue
            gpus.append((minor, gpu))
        here = {minor for minor, _ in gpus}
        self._seen |= here
        self.lost = (self._seen | self._numbers if is_nameless else self._seen) - here
        return gpus

    def rows(self) -> list[list[int]]:
        """Return a row for each process, as in a snapshot."""
        return [
            [
                pid, process.start, process.percent, process.most_percent, process.busy_ms,
                process.memory_kib, process.most_memory_kib,
            ]
            for pid, process in self._processes.items()
        ]  # fmt: skip

    def gpus(self) -> dict[int, list[int]]:
        """Return microjoules and milliwatts by the number of the GPU's file."""
        return {minor: list(pair) for minor, pair in self._gpus.items()}

    def state(self) -> dict[int, list[int]]:
        """Return what another meter needs to go on."""
        return self._added

    def _process(self, pid: int) -> _Process | None:
        """Return the sums of a process, new ones where its number was another's before."""
        start = self._start_of(pid)
        process = self._processes.get(pid)
        if process is not None and (process.start == start or not start):
            return process
        if not start or (process is None and len(self._processes) >= _MOST_PROCESSES):
            return None
        process = self._processes[pid] = _Process(start)
        return process

    def _let_go(self, seen: Any, now_us: int) -> None:
        for pid, process in list(self._processes.items()):
            if pid in seen:
                continue
            process.percent = process.memory_kib = 0
            if now_us - process.seen_us > _FORGET_US:
                del self._processes[pid]

    def _busy(self, nvml: Any, gpu: Any, minor: int, on_gpu: set[int]) -> dict[int, int]:
        """Return what each process took of a GPU's time since the last sample, in percent.

        A GPU in MIG mode tells nothing of that. One that knows only its own use is its one
        process's.
        """
        newest_us = self._newest_us.get(minor, 0)
        sums: dict[int, list[int]] = {}
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(gpu, newest_us)
        except nvml.NVMLError_NotFound:
            return {}  # no process used it
        except nvml.NVMLError:
            return _busy_of_one(nvml, gpu, on_gpu)
        for sample in samples:
            if int(sample.timeStamp) <= newest_us:
                continue
            self._newest_us[minor] = max(self._newest_us.get(minor, 0), int(sample.timeStamp))
            percent = min(int(sample.smUtil), _MOST_PERCENT)
            if int(sample.pid):
                sums.setdefault(int(sample.pid), []).append(percent)
        return {pid: sum(values) // len(values) for pid, values in sums.items()}

    def _energy(self, nvml: Any, gpu: Any, minor: int, now_us: int) -> tuple[int, int]:
        """Return microjoules, by the GPU's own counter or added up, and milliwatts."""
        try:
            milliwatts = int(nvml.nvmlDeviceGetPowerUsage(gpu))
        except nvml.NVMLError:
            milliwatts = 0
        try:
            return int(nvml.nvmlDeviceGetTotalEnergyConsumption(gpu)) * 1000, milliwatts
        except nvml.NVMLError:
            total_uj, before_mw, before_us = self._added.get(minor, [0, milliwatts, now_us])
            total_uj += added_uj(before_mw, milliwatts, now_us - before_us)
            self._added[minor] = [total_uj, milliwatts, now_us]
            return total_uj, milliwatts


def added_uj(before_mw: int, now_mw: int, span_us: int) -> int:
    """Return the energy between two looks at a power that changed evenly; nothing after a gap."""
    if not 0 <= span_us <= 600 * SECOND_US:
        return 0
    return (before_mw + now_mw) // 2 * span_us // 1000


def _busy_of_one(nvml: Any, gpu: Any, on_gpu: set[int]) -> dict[int, int]:
    if len(on_gpu) != 1:
        return {}
    try:
        percent = min(int(nvml.nvmlDeviceGetUtilizationRates(gpu).gpu), _MOST_PERCENT)
    except nvml.NVMLError:
        return {}
    return dict.fromkeys(on_gpu, percent)


def _running(nvml: Any, handle: Any) -> list[tuple[int, int]]:
    """Return the processes on a GPU or slice with their memory in KiB, 0 where it is not told."""
    memories: dict[int, int] = {}
    for ask in (
        nvml.nvmlDeviceGetComputeRunningProcesses,
        nvml.nvmlDeviceGetGraphicsRunningProcesses,
    ):
        try:
            processes = ask(handle)
        except nvml.NVMLError:
            continue
        for process in processes:
            memory_kib = int(process.usedGpuMemory or 0) >> 10
            memories[int(process.pid)] = max(memories.get(int(process.pid), 0), memory_kib)
    return list(memories.items())


def _slices(nvml: Any, gpu: Any) -> list[Any]:
    """Return the slices of a GPU in MIG mode."""
    slices = []
    try:
        if not nvml.nvmlDeviceGetMigMode(gpu)[0]:
            return []
        most = min(int(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)), _MOST_SLICES)
    except nvml.NVMLError:
        return []
    for number in range(most):
        try:
            slices.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, number))
        except nvml.NVMLError:
            continue
    return slices
