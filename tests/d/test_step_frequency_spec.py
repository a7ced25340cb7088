"""Which steps have the frequency of their CPUs set, and to what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.d.spec.node_setup import SpecError
from pyslurm_ng.d.spec.step_frequency import frequency_spec
from pyslurm_ng.model.ids import STEP_BATCH, STEP_INTERACTIVE

CONF = "ClusterName=c\nSlurmctldHost=c\nNodeName=n1\nPartitionName=p Nodes=n1\n"


def spec(step_id: int, asked: str, lines: str = "") -> Any:
    setup: Any = SimpleNamespace(conf=parse_slurm_conf(CONF + lines))
    return frequency_spec(setup, step_id, {"SLURM_CPU_FREQ_REQ": asked}, (2, 3))


def test_steps_of_srun_get_what_they_ask_for() -> None:
    """--cpu-freq, as SLURM_CPU_FREQ_REQ tells the node."""
    assert spec(0, "Low-High:OnDemand") == {
        "cpus": [2, 3], "low": "low", "high": "high", "governor": "ondemand", "is_asked": True,
    }  # fmt: skip
    assert spec(0, "2000000")["low"] == "2000000"
    assert spec(0, "Performance")["governor"] == "performance"


@pytest.mark.parametrize("asked", ["", "fast", "0", "-5", "low:ondemand", "low-", "1" * 40, "a\0"])
def test_what_is_no_frequency_changes_nothing(asked: str) -> None:
    """The variable is the user's."""
    assert spec(0, asked) is None


def test_cpu_freq_def() -> None:
    """CpuFreqDef is for steps that ask for nothing."""
    assert spec(0, "", "CpuFreqDef=Performance\n")["is_asked"] is False
    assert spec(0, "low", "CpuFreqDef=Performance\n")["low"] == "low"


@pytest.mark.parametrize(
    ("step_id", "word"),
    [(STEP_BATCH, "batch_step_set_cpu_freq"), (STEP_INTERACTIVE, "interactive_step_set_cpu_freq")],
)
def test_scripts_and_interactive_steps_only_by_launch_parameters(step_id: int, word: str) -> None:
    assert spec(step_id, "low") is None
    assert spec(step_id, "low", f"LaunchParameters={word}\n")["low"] == "low"


def test_a_governor_that_the_site_excludes() -> None:
    """CpuFreqGovernors holds on the node, too: the variable passes by srun's own check."""
    with pytest.raises(SpecError, match="governor of powersave is not allowed"):
        spec(0, "PowerSave")
    assert spec(0, "PowerSave", "CpuFreqGovernors=PowerSave\n")["governor"] == "powersave"
