"""--cpu-freq on a pretended tree of the kernel's cpufreq files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.d.spool.step_contract import FrequencySpec
from pyslurm_ng.d.stepd.step_frequency import StepFrequency

STEPS = "3000000 2000000 1500000 1000000"


def cpus_of(folder: Path, governors: str, steps: str = STEPS) -> Path:
    """Make the files of CPU 0 and 1."""
    for cpu in (0, 1):
        cpufreq = folder / f"cpu{cpu}" / "cpufreq"
        cpufreq.mkdir(parents=True)
        values = {
            "cpuinfo_min_freq": "1000000", "cpuinfo_max_freq": "3000000",
            "scaling_min_freq": "1000000", "scaling_max_freq": "3000000",
            "scaling_governor": "schedutil", "scaling_setspeed": "<unsupported>",
            "scaling_available_governors": governors,
        }  # fmt: skip
        if steps:
            values["scaling_available_frequencies"] = steps
        for name, value in values.items():
            (cpufreq / name).write_text(f"{value}\n")
    return folder


def asked(low: str = "", high: str = "", governor: str = "", cpu: int = 1) -> FrequencySpec:
    return {"cpus": [cpu], "low": low, "high": high, "governor": governor, "is_asked": True}


def read(folder: Path, cpu: int = 1) -> list[str]:
    """Return governor, speed, least and greatest frequency of a CPU."""
    names = ("scaling_governor", "scaling_setspeed", "scaling_min_freq", "scaling_max_freq")
    return [(folder / f"cpu{cpu}/cpufreq/{name}").read_text().strip() for name in names]


@pytest.mark.parametrize(
    ("words", "governors", "after"),
    [
        (("low",), "userspace schedutil", ["userspace", "1000000", "1000000", "3000000"]),
        (("medium",), "userspace", ["userspace", "1500000", "1000000", "3000000"]),
        (("highm1",), "userspace", ["userspace", "2000000", "1000000", "3000000"]),
        (("1900000",), "userspace", ["userspace", "2000000", "1000000", "3000000"]),
        (("high",), "schedutil", ["schedutil", "<unsupported>", "3000000", "3000000"]),
        (("low", "highm1"), "userspace", ["schedutil", "<unsupported>", "1000000", "2000000"]),
        (("medium", "high", "performance"), "performance",
         ["performance", "<unsupported>", "1500000", "3000000"]),
        (("", "", "powersave"), "powersave", ["powersave", "<unsupported>", "1000000", "3000000"]),
        (("", "", "powersave"), "userspace", ["schedutil", "<unsupported>", "1000000", "3000000"]),
    ],
)  # fmt: skip
def test_what_is_asked_is_set_and_taken_back(
    words: tuple[str, ...], governors: str, after: list[str], tmp_path: Path
) -> None:
    """Of the step's own CPUs only; a governor that the driver lacks changes nothing."""
    folder = cpus_of(tmp_path, governors)
    before = read(folder)
    frequency = StepFrequency(asked(*words), str(folder))
    assert frequency.set() == ""
    assert read(folder) == after
    assert read(folder, 0) == before
    frequency.restore()
    assert read(folder)[0] == before[0]
    assert read(folder)[2:] == before[2:]


def test_a_driver_without_steps_takes_all_between_its_bounds(tmp_path: Path) -> None:
    """As intel_pstate."""
    folder = cpus_of(tmp_path, "performance powersave", steps="")
    for khz, set_khz in (("1234567", "1234567"), ("5", "1000000"), ("9000000", "3000000")):
        frequency = StepFrequency(asked(khz), str(folder))
        frequency.set()
        assert read(folder)[2:] == [set_khz, set_khz]
        frequency.restore()


def test_a_node_without_cpufreq_says_so(tmp_path: Path) -> None:
    """To a user who asked, in Slurm's words; what CpuFreqDef asks for is no news."""
    frequency = StepFrequency(asked("low"), str(tmp_path))
    assert frequency.set() == "CPU frequency setting not configured for this node"
    by_default = {**asked("low"), "is_asked": False}
    assert StepFrequency(by_default, str(tmp_path)).set() == ""  # type: ignore[arg-type]
    assert StepFrequency(None, str(tmp_path)).set() == ""
