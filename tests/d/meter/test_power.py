"""The node's energy from the kernel's counters and from its BMC."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.d.meter.power import (
    CrayPower,
    IpmiPower,
    PowerError,
    RaplPower,
    run_command,
    sensor_milliwatts,
)

RANGE_UJ = 262_143_328_850


def rapl(root: Path, **counters: int) -> Path:
    """Write zones as the kernel names them: two packages, one's memory and cores."""
    zones = {
        "package-0": "intel-rapl:0", "package-1": "intel-rapl:1", "dram": "intel-rapl:0:1",
        "core": "intel-rapl:0:0", "psys": "intel-rapl:2",
    }  # fmt: skip
    for name, zone in zones.items():
        folder = root / zone
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        (folder / "energy_uj").write_text(f"{counters[name.replace('-', '')]}\n")
    return root


def test_packages_and_memory_count_and_begin_again(tmp_path: Path) -> None:
    """Cores are part of a package, psys of all. A counter that has reached its range goes on."""
    power = RaplPower(root=str(tmp_path))
    rapl(tmp_path, package0=RANGE_UJ - 1_000_000, package1=5, dram=10, core=0, psys=0)
    power.sample(SECOND_US)
    assert power.reading() == (0, 0)
    rapl(tmp_path, package0=4_000_000, package1=5, dram=1_000_010, core=9 << 30, psys=9 << 30)
    power.sample(3 * SECOND_US)
    assert power.reading() == (6_000_000, 3_000)


def test_another_meter_goes_on(tmp_path: Path) -> None:
    """What was drawn while slurmd was restarted is counted, too."""
    rapl(tmp_path, package0=1_000_000, package1=0, dram=0, core=0, psys=0)
    first = RaplPower(root=str(tmp_path))
    first.sample(SECOND_US)
    rapl(tmp_path, package0=8_000_000, package1=0, dram=0, core=0, psys=0)
    second = RaplPower(first.state(), str(tmp_path))
    second.sample(8 * SECOND_US)
    assert second.reading() == (7_000_000, 1_000)


def test_a_host_without_counters_says_so(tmp_path: Path) -> None:
    with pytest.raises(PowerError, match="there is no counter of RAPL"):
        RaplPower(root=str(tmp_path / "none")).sample(0)
    with pytest.raises(PowerError, match="energy: there is no such counter"):
        CrayPower(root=str(tmp_path)).sample(0)


def test_counters_of_a_cray(tmp_path: Path) -> None:
    (tmp_path / "energy").write_text("1234567 J 1700000000000000 us\n")
    (tmp_path / "power").write_text("345 W 1700000000000000 us\n")
    power = CrayPower(root=str(tmp_path))
    power.sample(0)
    assert power.reading() == (1_234_567_000_000, 345_000)


DCMI = """\
Current Power                        : 164 Watts
Minimum Power over sampling duration : 155 watts
"""
IPMITOOL = """

    Instantaneous power reading:                   220 Watts
    Minimum during sampling period:                  1 Watts
"""


def test_the_bmc_is_asked_by_the_command_that_is_there() -> None:
    """FreeIPMI's command, or ipmitool's; power is added up between the looks."""
    asked: list[str] = []

    def run(words: Sequence[str], limit_s: float) -> str:
        asked.append(words[0])
        if words[0] == "ipmi-dcmi":
            raise PowerError("ipmi-dcmi is not installed")
        return IPMITOOL

    power = IpmiPower(run=run)
    power.sample(SECOND_US)
    power.sample(31 * SECOND_US)
    assert power.reading() == (6_600_000_000, 220_000)
    assert asked == ["ipmi-dcmi", "ipmitool"] * 2
    free = IpmiPower(run=lambda words, limit_s: DCMI)
    free.sample(0)
    assert free.reading() == (0, 164_000)


def test_sensors_of_the_configuration_are_added() -> None:
    text = (
        "16,Pwr Consumption,Current,176.00,W,'OK'\n19,PSU2,Current,24.5,W,'OK'\n"
        "3,Inlet,Temperature,30.00,C,'OK'\n"
    )
    words: list[str] = []

    def run(command: Sequence[str], limit_s: float) -> str:
        words.extend(command)
        return text

    power = IpmiPower(sensors=(("Node", (16, 19)), ("PSU2", (19,))), run=run)
    power.sample(0)
    assert power.reading()[1] == 200_500
    assert power.sensors() == {"Node": 200_500, "PSU2": 24_500}
    assert words[:2] == ["ipmi-sensors", "--record-ids=16,19"]
    with pytest.raises(PowerError, match="no sensor of EnergyIPMIPowerSensors tells watts"):
        sensor_milliwatts("16,Pwr Consumption,Current,N/A,W,'OK'\n")


def test_a_bmc_that_lies_or_is_silent_costs_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watts are bounded; a command that hangs is ended; one that fails is quoted."""
    power = IpmiPower(run=lambda words, limit_s: "Current Power : 999999999 Watts\n")
    power.sample(0)
    assert power.reading()[1] == 1_000_000_000
    script = tmp_path / "ipmi-dcmi"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(PowerError, match="ipmi-dcmi did not answer within 0 s"):
        run_command(["ipmi-dcmi"], 0.2)
    script.write_text("#!/bin/sh\necho no BMC here >&2\nexit 3\n")
    with pytest.raises(PowerError, match="ipmi-dcmi ended with 3: no BMC here"):
        run_command(["ipmi-dcmi"], 20.0)
