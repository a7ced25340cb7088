"""What is added up of NVML's answers on three recorded hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.d.host import nvml
from pyslurm_ng.d.meter.gpu_usage import GpuUse, added_uj
from pyslurm_ng.d.meter.snapshot import (
    BUSY_MS,
    MEMORY_KIB,
    MOST_MEMORY_KIB,
    MOST_PERCENT,
    PERCENT,
    PID,
    START,
)
from tests.world.recorded_gpus.host import RecordedHost, binding

Row = list[int]


def started(pid: int) -> int:
    """Return when a process began: it tells nothing else apart here."""
    return 1000 + pid


def rows(use: GpuUse) -> dict[int, Row]:
    return {row[PID]: row for row in use.rows()}


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        ("h100x8", ["nvidia_h100_80gb_hbm3"] * 8),
        ("a100x4", ["nvidia_a100-sxm4-40gb"] * 4),
        ("mig", [f"nvidia_a100-sxm4-40gb{part}" for part in
                 ("_1g.5gb", "_2g.10gb", "_3g.20gb", "")]),
    ],
)  # fmt: skip
def test_the_recorded_hosts_are_detected(tmp_path: Path, shape: str, names: list[str]) -> None:
    """What slurmd detects and what the meter measures are the same devices."""
    gpus = nvml.ask(binding(RecordedHost(tmp_path, shape)))
    assert [gpu.type_name for gpu in gpus] == names


def test_a_process_on_two_gpus_has_the_sum_of_both(tmp_path: Path) -> None:
    """As in Slurm four busy GPUs are 400 percent; busy time is added over the looks."""
    host = RecordedHost(tmp_path, "h100x8")
    use, api = GpuUse(started), binding(host)
    host.run(
        {"gpu": 0, "pid": 7, "percent": 90, "mib": 100},
        {"gpu": 5, "pid": 7, "percent": 60, "mib": 50},
    )
    use.sample(api, SECOND_US)
    assert rows(use)[7] == [7, 1007, 150, 150, 0, 150 << 10, 150 << 10]
    host.run({"gpu": 0, "pid": 7, "percent": 50, "mib": 30})
    use.sample(api, 5 * SECOND_US)
    row = rows(use)[7]
    assert (row[PERCENT], row[MOST_PERCENT], row[BUSY_MS]) == (50, 150, 2000)
    assert (row[MEMORY_KIB], row[MOST_MEMORY_KIB]) == (30 << 10, 150 << 10)


def test_slices_tell_memory_and_no_utilisation(tmp_path: Path) -> None:
    """A cut GPU has processes on its slices only; the whole one beside it tells everything."""
    host = RecordedHost(tmp_path, "mig")
    use = GpuUse(started)
    host.run(
        {"gpu": 0, "slice": 1, "pid": 7, "percent": 0, "mib": 900},
        {"gpu": 0, "slice": 2, "pid": 8, "percent": 0, "mib": 10},
        {"gpu": 1, "pid": 9, "percent": 77, "mib": 20},
    )
    use.sample(binding(host), SECOND_US)
    measured = {pid: (row[PERCENT], row[MEMORY_KIB] >> 10) for pid, row in rows(use).items()}
    assert measured == {7: (0, 900), 8: (0, 10), 9: (77, 20)}


def test_a_number_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    """One that has ended is kept for its supervisor's last look, and then forgotten."""
    host = RecordedHost(tmp_path, "a100x4")
    starts = {7: 100}
    use, api = GpuUse(lambda pid: starts.get(pid, 0)), binding(host)
    host.run({"gpu": 0, "pid": 7, "percent": 90, "mib": 100})
    use.sample(api, SECOND_US)
    starts.pop(7)
    host.run()
    use.sample(api, 2 * SECOND_US)
    assert rows(use)[7] == [7, 100, 0, 90, 0, 0, 100 << 10]
    starts[7] = 200
    host.run({"gpu": 0, "pid": 7, "percent": 5, "mib": 1})
    use.sample(api, 3 * SECOND_US)
    assert rows(use)[7][START:BUSY_MS] == [200, 5, 5]
    starts.pop(7)
    host.run()
    use.sample(api, 200 * SECOND_US)
    assert rows(use) == {}


def test_a_processs_utilisation_is_bounded(tmp_path: Path) -> None:
    """A driver that tells nonsense makes no GPU busier than it can be."""
    host = RecordedHost(tmp_path, "a100x4")
    use = GpuUse(started)
    host.run({"gpu": 0, "pid": 7, "percent": 4_000_000_000, "mib": 1})
    use.sample(binding(host), SECOND_US)
    assert rows(use)[7][PERCENT] == 100


def test_energy_is_the_gpus_own_counter_or_added_up(tmp_path: Path) -> None:
    """An older GPU tells only its power."""
    api: Any = binding(RecordedHost(tmp_path, "a100x4"))
    use = GpuUse(started, energy=True)
    use.sample(api, SECOND_US)
    assert [milliwatts for _, milliwatts in use.gpus().values()] == [53_000] * 4
    assert use.gpus()[0][0] > 53_000_000

    def refused(gpu: int) -> int:
        raise api.NVMLError_NotSupported("Not Supported")

    api.nvmlDeviceGetTotalEnergyConsumption = refused
    use = GpuUse(started, energy=True)
    use.sample(api, SECOND_US)
    use.sample(api, 3 * SECOND_US)
    assert use.gpus()[3] == [106_000_000, 53_000]
    later = GpuUse(started, energy=True, before=use.state())
    later.sample(api, 4 * SECOND_US)
    assert later.gpus()[3] == [159_000_000, 53_000]


def test_nothing_is_added_for_a_gap() -> None:
    """After an hour without a look the power of both ends says nothing."""
    assert added_uj(100_000, 300_000, 10 * SECOND_US) == 2_000_000_000
    assert added_uj(100_000, 300_000, 3600 * SECOND_US) == 0
    assert added_uj(100_000, 300_000, -5) == 0


def test_a_lost_gpu_costs_the_others_nothing(tmp_path: Path) -> None:
    """It may not even tell its number: then it is the one of the node's that does not answer."""
    host = RecordedHost(tmp_path, "a100x4")
    use, api = GpuUse(started, range(4)), binding(host)
    host.lose(2)
    host.run(
        {"gpu": 2, "pid": 7, "percent": 90, "mib": 100},
        {"gpu": 3, "pid": 8, "percent": 60, "mib": 50},
    )
    use.sample(api, SECOND_US)
    assert use.lost == {2}
    assert [*rows(use)] == [8]


def test_a_gpu_that_is_no_longer_counted_is_lost(tmp_path: Path) -> None:
    """GPUs of gres.conf that NVML never told of are another matter, and not said to be lost."""
    host = RecordedHost(tmp_path, "h100x8")
    use, api = GpuUse(started, range(9)), binding(host)
    use.sample(api, SECOND_US)
    assert use.lost == set()
    (tmp_path / "host").write_text("a100x4")
    use.sample(api, 2 * SECOND_US)
    assert use.lost == {4, 5, 6, 7}
