"""What a supervisor makes of the file of the node's meter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.spool.step_contract import MeterSpec
from pyslurm_ng.d.spool.step_record import start_ticks
from pyslurm_ng.d.stepd.step_meter import StepMeter
from pyslurm_ng.d.steps.usage import usage_of_tasks
from pyslurm_ng.model.usage import merge, usage_columns, usage_from

PID = os.getpid()
START_US = 1000 * SECOND_US


class File:
    """The meter's file, and a clock since boot."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = str(folder / snapshot.FILE)
        self.now_us = START_US
        monkeypatch.setattr(snapshot, "now_us", lambda: self.now_us)

    def write(self, **fields: Any) -> None:
        base = {"boot": snapshot.boot_id(), "time_us": self.now_us, "processes": [], "gpus": {},
                "node": [], "mean": 0, "state": {}}  # fmt: skip
        snapshot.write(self.path, base | fields)

    def spec(self, **more: Any) -> MeterSpec:
        base: Any = {
            "path": self.path,
            "gpus": [1],
            "gpu_use": True,
            "node_energy": False,
            "gpu_energy": False,
            "traffic": [],
        }
        return base | more


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> File:
    return File(tmp_path, monkeypatch)


def row(percent: int, most: int, busy_ms: int, kib: int, most_kib: int, **more: int) -> list[int]:
    start = more.get("start", start_ticks(PID))
    return [more.get("pid", PID), start, percent, most, busy_ms, kib, most_kib]


def test_a_tasks_mean_is_over_the_steps_time(file: File) -> None:
    """A process that was busy for 5 of 10 seconds has a mean of half of its peak."""
    file.write()
    meter = StepMeter(file.spec())
    file.now_us += 10 * SECOND_US
    file.write(processes=[row(0, 80, 4000, 100, 300), row(50, 50, 5000, 9, 9, pid=1)])
    meter.look()
    assert meter.add(0, [PID]) == {
        "gpu_percent": 80, "gpu_mean_percent": 40, "gpu_memory_kib": 300,
    }  # fmt: skip
    assert meter.add(1, []) == dict.fromkeys(
        ("gpu_percent", "gpu_mean_percent", "gpu_memory_kib"), 0
    )
    # The process ends and the meter forgets it; what is known of it stays.
    file.now_us += 10 * SECOND_US
    file.write()
    meter.look()
    assert meter.add(0, [])["gpu_mean_percent"] == 20


def test_another_process_of_the_same_number_is_not_the_tasks(file: File) -> None:
    """What the file says of a process that began at another time is another's."""
    file.write(processes=[row(90, 90, 100, 1, 1, start=5)])
    meter = StepMeter(file.spec())
    assert meter.add(0, [PID])["gpu_percent"] == 0


def test_energy_is_the_difference_and_goes_on_since_the_last_look(file: File) -> None:
    """A node of 200 W for 3 s: 600 J, though the meter last looked a second ago."""
    file.write(node=[7_000_000, 200_000], gpus={1: [0, 50_000], 2: [0, 90_000]})
    both = StepMeter(file.spec(node_energy=True, gpu_energy=True))
    node = StepMeter(file.spec(node_energy=True))
    file.now_us += 2 * SECOND_US
    file.write(node=[407_000_000, 200_000], gpus={1: [100_000_000, 50_000], 2: [9, 9]})
    file.now_us += SECOND_US
    for meter in (both, node):
        meter.look()
    assert node.energy_j() == 600
    assert both.energy_j() == 750


@pytest.mark.parametrize("text", [b"", b"\xc1", b"\x81\xa4boot\xa1x"])
def test_a_missing_old_or_damaged_file_says_nothing(file: File, text: bytes) -> None:
    """Usage is then as without a meter; nothing is raised."""
    file.write(node=[1, 2])
    file.now_us += snapshot.STALE_US + 1
    assert StepMeter(file.spec(node_energy=True)).energy_j() == 0
    Path(file.path).write_bytes(text)
    meter = StepMeter(file.spec(node_energy=True))
    assert (meter.look(), meter.add(0, [PID]), meter.energy_j()) == (False, {}, 0)


def test_usage_has_gpus_and_energy(file: File) -> None:
    """As TRESUsage shows them; the sum is that of the means."""
    counts = {"rss_kib": 1, "gpu_percent": 90, "gpu_mean_percent": 45, "gpu_memory_kib": 2048}
    usage = usage_of_tasks([(0, counts), (1, counts | {"gpu_percent": 95})], "n1", energy_j=10**30)
    assert usage.energy_j == 10**15
    columns = usage_columns(usage)
    assert "gres/gpumem=2097152,gres/gpuutil=95" in columns["tres_usage_in_max"]
    assert "gres/gpuutil=45" in columns["tres_usage_in_ave"]
    assert "gres/gpumem=4194304,gres/gpuutil=90" in columns["tres_usage_in_tot"]
    assert "gres/gpuutil=1" in columns["tres_usage_in_max_task"]
    without = usage_columns(usage_of_tasks([(0, {"rss_kib": 1})], "n1"))
    assert "gres" not in without["tres_usage_in_max"]


def test_traffic_is_the_difference_since_the_start(file: File) -> None:
    """In bytes; of operations only profiles tell. A source that is silent keeps what was known."""
    file.write(network=[10, 10, 1000, 500], filesystem=[1, 1, 7, 7])
    meter = StepMeter(file.spec(traffic=[("ic/ofed", "network"), ("fs/lustre", "filesystem")]))
    file.write(network=[20, 30, 5000, 800], filesystem=[1, 2, 7, 4007])
    meter.look()
    assert meter.traffic() == [("ic/ofed", 4000, 300), ("fs/lustre", 0, 4000)]
    file.write(filesystem=[1, 2, 7, 9007])
    meter.look()
    assert meter.traffic() == [("ic/ofed", 4000, 300), ("fs/lustre", 0, 9000)]


def test_traffic_of_two_nodes_is_added() -> None:
    """TRESUsage has the sum, a task's mean, and the node that moved most with its first task."""
    first = usage_of_tasks([(0, {"rss_kib": 1})], "n1", traffic=[("ic/ofed", 4000, 300)])
    second = usage_of_tasks([(1, {"rss_kib": 1})], "n2", traffic=[("ic/ofed", 8000, 2**70)])
    columns = usage_columns(merge(first, second))
    assert "ic/ofed=12000" in columns["tres_usage_in_tot"]
    assert "ic/ofed=6000" in columns["tres_usage_in_ave"]
    assert "ic/ofed=8000" in columns["tres_usage_in_max"]
    assert "ic/ofed=n2" in columns["tres_usage_in_max_node"]
    assert "ic/ofed=1" in columns["tres_usage_in_max_task"]
    assert f"ic/ofed={2**60 + 300}" in columns["tres_usage_out_tot"]
    read_again = usage_from(msgspec.to_builtins(merge(first, second)))
    assert usage_columns(read_again) == columns
