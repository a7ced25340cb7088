"""Effects of the keys about energy and GPU use, on what slurmd tells its meter and supervisors."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.node.bad_setup import BadSetup
from pyslurm_ng.d.node.node_meter import NodeMeter, settings_of
from pyslurm_ng.d.spec.step_clocks import clocks_spec
from pyslurm_ng.d.spec.step_meter import meter_spec
from pyslurm_ng.model.job import GresAlloc, NodeAlloc
from tests.compat.node_room import Node

GATHERS = "JobAcctGatherType=jobacct_gather/linux\nGresTypes=gpu\n"


def with_gpus(folder: Path, text: str = "") -> Node:
    (folder / "gres.conf").write_text("Name=gpu File=/dev/nvidia[0-3]\n")
    return Node(folder, GATHERS + text, node="Gres=gpu:4")


@pytest.mark.parametrize("name", ["rapl", "pm_counters"])
def test_sources_of_energy(tmp_path: Path, name: str) -> None:
    """The meter is told the sources by name, and steps count the node's energy."""
    node = Node(tmp_path, f"{GATHERS}AcctGatherEnergyType=acct_gather_energy/{name}")
    settings = settings_of(node.setup.node)
    assert settings is not None and settings["energy"] == [name] and not settings["gpus"]
    meter = node.step()["meter"]
    assert meter is not None
    assert (meter["node_energy"], meter["gpu_energy"], meter["gpu_use"]) == (True, False, False)
    assert settings_of(Node(tmp_path, GATHERS).setup.node) is None
    assert Node(tmp_path, GATHERS).step()["meter"] is None


def test_a_source_that_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetup) as refused:
        Node(tmp_path, "AcctGatherEnergyType=acct_gather_energy/xcc")
    assert "allowed: gpu, ipmi, pm_counters, rapl" in refused.value.lines[0]


def test_gpus_are_not_measured_where_they_shall_not(tmp_path: Path) -> None:
    """DisableGPUAcct; else a step is told which GPUs are its own."""
    node = with_gpus(tmp_path)
    settings = settings_of(node.setup.node)
    assert settings is not None and settings["gpus"]
    assert node.step()["meter"] is None  # it has no GPU
    alloc = NodeAlloc(0, 1, b"\x01", 100, 1, (GresAlloc("gpu", "", 2, b"\x0a"),))
    credential = msgspec.structs.replace(node.credential(0), step_allocs=(alloc,))
    meter = meter_spec(node.setup.node, credential)
    assert meter is not None and meter["gpus"] == [1, 3] and meter["gpu_use"]
    quiet = with_gpus(tmp_path, "JobAcctGatherParams=DisableGPUAcct")
    assert settings_of(quiet.setup.node) is None
    assert meter_spec(quiet.setup.node, credential) is None


def test_clocks_of_gpus(tmp_path: Path) -> None:
    """--gpu-freq of srun, else of the job; GpuFreqDef is for steps that ask for nothing."""
    node = with_gpus(tmp_path, "GpuFreqDef=low")
    alloc = NodeAlloc(0, 1, b"\x01", 100, 1, (GresAlloc("gpu", "", 2, b"\x0a"),))

    def asked(tres_freq: str = "", **variables: str) -> tuple[object, ...]:
        credential = msgspec.structs.replace(
            node.credential(0, tres_freq=tres_freq), step_allocs=(alloc,)
        )
        clocks = clocks_spec(node.setup.node, credential, variables)
        assert clocks is not None and clocks["gpus"] == [1, 3]
        return clocks["graphics"], clocks["memory"], clocks["is_asked"]

    assert asked() == ("low", "", False)
    assert asked("gpu:high") == ("high", "", True)
    assert asked("gpu:high", SLURMD_TRES_FREQ="gpu:900,memory=low") == ("900", "low", True)
    assert node.step()["clocks"] is None  # it has no GPU
    with pytest.raises(BadSetup, match="GpuFreqDef=fast: low, medium"):
        with_gpus(tmp_path, "GpuFreqDef=fast")


def test_power_is_told_as_often_as_asked(tmp_path: Path) -> None:
    """AcctGatherNodeFreq is how often power is read, and 0 tells slurmctld nothing of it."""
    energy = f"{GATHERS}AcctGatherEnergyType=acct_gather_energy/rapl\n"
    node = Node(tmp_path, f"{energy}AcctGatherNodeFreq=2")
    settings = settings_of(node.setup.node)
    assert settings is not None and settings["pause_s"] == 2
    fields = {
        "boot": snapshot.boot_id(), "time_us": snapshot.now_us(), "processes": [], "state": {},
        "gpus": {0: [1, 70_000]}, "node": [5, 330_000], "mean": 10**15,
    }  # fmt: skip
    snapshot.write(settings["path"], fields)

    async def told(some_node: Node) -> tuple[int, int]:
        meter = NodeMeter(some_node.local())
        meter.follow()
        try:
            return meter.watts()
        finally:
            meter.stop()

    assert asyncio.run(told(node)) == (400, 1_000_000)
    assert asyncio.run(told(Node(tmp_path, energy))) == (0, 0)
