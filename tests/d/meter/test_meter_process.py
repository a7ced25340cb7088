"""The meter as a process beside recorded GPUs and counters of RAPL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.meter.snapshot import MEMORY_KIB, PERCENT, PID
from tests.world.recorded_gpus.host import BINDING, RecordedHost
from tests.world.waiting import wait_until


class RunningMeter:
    """One meter; `settings` are more of them."""

    def __init__(self, folder: Path, host: RecordedHost, **settings: Any) -> None:
        self.path = str(folder / "measured")
        words = {
            "path": self.path, "pause_s": 0.05, "gpus": True, "energy": ["gpu", "rapl"],
            "ipmi_s": 1, "ipmi_limit_s": 1, "ipmi_sensors": [], "rapl_root": str(folder / "rapl"),
        }  # fmt: skip
        paths = os.pathsep.join([str(BINDING.parent), *(path for path in sys.path if path)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pyslurm_ng.d.meter"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **host.environment, "PYTHONPATH": paths},
        )  # fmt: skip
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words | settings) + "\n")
        self.process.stdin.flush()

    def fields(self) -> dict[str, Any]:
        return snapshot.read(self.path)

    def close(self) -> str:
        """End its stdin; return what it has said."""
        return self.process.communicate(timeout=60)[0]


@pytest.fixture
def host(tmp_path: Path) -> RecordedHost:
    zone = tmp_path / "rapl" / "intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "energy_uj").write_text("5000000\n")
    (zone / "max_energy_range_uj").write_text("9000000000\n")
    return RecordedHost(tmp_path / "gpus", "a100x4")


@pytest.fixture
def meter(tmp_path: Path, host: RecordedHost) -> Iterator[RunningMeter]:
    made = RunningMeter(tmp_path, host)
    yield made
    made.process.kill()
    made.process.communicate()


def test_the_file_has_processes_gpus_and_the_node(
    tmp_path: Path, host: RecordedHost, meter: RunningMeter
) -> None:
    """Other users cannot read it: it tells who uses which GPU."""
    host.run({"gpu": 2, "pid": os.getpid(), "percent": 66, "mib": 300})
    wait_until(lambda: meter.fields().get("processes"), "the process is measured")
    [row] = meter.fields()["processes"]
    assert (row[PID], row[PERCENT], row[MEMORY_KIB]) == (os.getpid(), 66, 300 << 10)
    assert os.stat(meter.path).st_mode & 0o777 == 0o600
    (tmp_path / "rapl" / "intel-rapl:0" / "energy_uj").write_text("8000000\n")
    wait_until(lambda: meter.fields()["node"][:1] == [3_000_000], "the node's energy is counted")
    assert [row[1] for row in meter.fields()["gpus"].values()] == [53_000] * 4
    assert meter.close() == ""


def test_a_driver_that_hangs_delays_nothing(
    tmp_path: Path, host: RecordedHost, meter: RunningMeter
) -> None:
    """Power goes on, the file is renewed, and the process ends when slurmd does."""
    wait_until(lambda: meter.fields().get("gpus"), "GPUs are measured")
    host.hang(hangs=True)
    zone = tmp_path / "rapl" / "intel-rapl:0"
    (zone / "energy_uj").write_text("6000000\n")
    wait_until(lambda: meter.fields()["node"][:1] == [1_000_000], "the node's energy is counted")
    meter.close()
    assert meter.process.returncode == 0


def test_what_is_missing_is_said_once(tmp_path: Path, host: RecordedHost) -> None:
    """A lost GPU and a host without RAPL are lines for slurmd's log, and cost no other source."""
    (host.folder / "refuse").touch()
    meter = RunningMeter(tmp_path, host, energy=["rapl"], rapl_root=str(tmp_path / "none"))
    assert meter.process.stdout is not None
    said = {meter.process.stdout.readline() for _ in range(2)}
    assert said == {
        "GPUs: NVML: GPU is lost\n",
        f"rapl: {tmp_path}/none: there is no counter of RAPL\n",
    }
    wait_until(meter.fields, "the file is written")
    assert meter.fields()["processes"] == []
    assert meter.close() == ""


def test_a_meter_goes_on_from_its_predecessors_file(
    tmp_path: Path, host: RecordedHost, meter: RunningMeter
) -> None:
    """Steps that run while slurmd is restarted have all of their energy."""
    wait_until(lambda: meter.fields().get("node"), "the node is measured")
    meter.close()
    (tmp_path / "rapl" / "intel-rapl:0" / "energy_uj").write_text("9000000\n")
    second = RunningMeter(tmp_path, host)
    try:
        wait_until(lambda: second.fields()["node"][:1] == [4_000_000], "the gap is counted")
    finally:
        second.process.kill()
        second.process.communicate()
