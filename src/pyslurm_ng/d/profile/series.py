"""Samples as rows of Slurm's series: names of columns, and amounts since the row before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from pyslurm_ng.d.profile.samples import ENERGY, FILESYSTEM, NETWORK, TASK

Column: TypeAlias = "tuple[str, bool]"
"""A name, and whether the values have fractions; others are whole numbers of 64 bits."""

_MIB = float(1 << 20)
_TASK_COLUMNS: tuple[Column, ...] = (
    ("CPUFrequency", False), ("CPUTime", True), ("CPUUtilization", True), ("RSS", False),
    ("VMSize", False), ("Pages", False), ("ReadMB", True), ("WriteMB", True),
)  # fmt: skip
_GPU_COLUMNS: tuple[Column, ...] = (("GPUMemMB", False), ("GPUUtilization", True))
_NETWORK_COLUMNS: tuple[Column, ...] = (
    ("PacketsIn", False), ("PacketsOut", False), ("InMB", True), ("OutMB", True),
)  # fmt: skip
_FILESYSTEM_COLUMNS: tuple[Column, ...] = (
    ("Reads", False), ("ReadMB", True), ("Writes", False), ("WriteMB", True),
)  # fmt: skip


class Row(NamedTuple):
    """One row of a series; `task` is -1 where the series is the node's."""

    series: int
    task: int
    epoch_s: int
    values: tuple[int | float, ...]


def columns(series: int, labels: Sequence[str], *, has_gpus: bool) -> tuple[Column, ...]:
    """Return the columns of a series but for its times.

    Args:
        labels: of the sources of power; one without a label is called Power, as Slurm's rapl.
    """
    if series == TASK:
        return _TASK_COLUMNS + (_GPU_COLUMNS if has_gpus else ())
    if series == ENERGY:
        return tuple((f"{label}Power", False) for label in labels)
    return _NETWORK_COLUMNS if series == NETWORK else _FILESYSTEM_COLUMNS


class Rows:
    """Makes rows of samples; a total becomes the amount since the sample before, as in Slurm."""

    def __init__(self, *, has_gpus: bool) -> None:
        self._has_gpus = has_gpus
        self._before: dict[tuple[int, int], tuple[int, Sequence[int]]] = {}

    def of(self, sample: Sequence[int]) -> Iterator[Row]:
        """Yield the row of one sample."""
        series, task, epoch_s, *amounts = sample
        before_s, before = self._before.get((series, task), (epoch_s, amounts))
        self._before[series, task] = epoch_s, amounts
        added = [max(0, now - then) for now, then in zip(amounts, before, strict=True)]
        if series == TASK:
            yield Row(series, task, epoch_s, self._task(amounts, added, epoch_s - before_s))
        elif series == ENERGY:
            yield Row(series, -1, epoch_s, tuple(milliwatts // 1000 for milliwatts in amounts))
        elif series == NETWORK:
            yield Row(
                series, -1, epoch_s,
                (added[0], added[1], added[2] / _MIB, added[3] / _MIB),
            )  # fmt: skip
        elif series == FILESYSTEM:
            yield Row(
                series, -1, epoch_s,
                (added[0], added[2] / _MIB, added[1], added[3] / _MIB),
            )  # fmt: skip

    def _task(
        self, amounts: Sequence[int], added: Sequence[int], span_s: int
    ) -> tuple[int | float, ...]:
        cpu_khz, _, rss_kib, virtual_kib, pages, *_, gpu_kib, gpu_percent = amounts
        cpu_s = added[1] / 1e6
        percent = 100.0 * cpu_s / span_s if span_s > 0 else 0.0
        gpus = (gpu_kib >> 10, float(gpu_percent)) if self._has_gpus else ()
        return (
            cpu_khz // 1000, cpu_s, percent, rss_kib, virtual_kib, pages,
            added[5] / _MIB, added[6] / _MIB, *gpus,
        )  # fmt: skip
