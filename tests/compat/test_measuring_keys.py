"""Effects of the keys about energy and GPU use, on what slurmd tells its meter and supervisors."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.node.bad_setup import BadSetup
from pyslurm_ng.d.node.node_meter import NodeMeter, settings_of
from pyslurm_ng.d.spec.node_setup import Account
from pyslurm_ng.d.spec.step_clocks import clocks_spec
from pyslurm_ng.d.spec.step_meter import meter_spec
from pyslurm_ng.d.spec.step_profile import profile_spec
from pyslurm_ng.model.job import GresAlloc, NodeAlloc
from tests.compat.node_room import Node

GATHERS = "JobAcctGatherType=jobacct_gather/linux\nGresTypes=gpu\n"


def with_gpus(folder: Path, text: str = "") -> Node:
    for number in range(4):
        (folder / f"nvidia{number}").touch()
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/nvidia[0-3]\n")
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


def test_sources_of_traffic(tmp_path: Path) -> None:
    """The meter is told each; a step counts those that AccountingStorageTRES tracks."""
    (tmp_path / "acct_gather.conf").write_text("InfinibandOFEDPort=2\nSysfsInterfaces=ib0,ib1\n")
    text = (
        "AcctGatherInterconnectType=acct_gather_interconnect/ofed,acct_gather_interconnect/sysfs\n"
        "AcctGatherFilesystemType=acct_gather_filesystem/lustre\n"
    )
    node = Node(tmp_path, GATHERS + text)
    settings = settings_of(node.setup.node)
    assert settings is not None and settings["traffic"] == [
        ["network", "ofed", 2], ["network", "sysfs", ["ib0", "ib1"]], ["filesystem", "lustre", 0],
    ]  # fmt: skip
    assert node.step()["meter"] is None
    tracked = Node(tmp_path, f"{GATHERS}{text}AccountingStorageTRES=ic/ofed,ic/sysfs,fs/lustre")
    meter = tracked.step()["meter"]
    assert meter is not None and meter["traffic"] == [
        ("ic/ofed", "network"), ("ic/sysfs", "network"), ("fs/lustre", "filesystem"),
    ]  # fmt: skip


def test_sensors_of_the_bmc(tmp_path: Path) -> None:
    """EnergyIPMIPowerSensors, EnergyIPMIFrequency and EnergyIPMITimeout."""
    (tmp_path / "acct_gather.conf").write_text(
        "EnergyIPMIPowerSensors=Node=16,19;Socket0=16\nEnergyIPMIFrequency=7\n"
        "EnergyIPMITimeout=3\nProfileHDF5Dir=/shared/profiles\n"
    )
    text = (
        f"{GATHERS}AcctGatherEnergyType=acct_gather_energy/ipmi\n"
        "AcctGatherProfileType=acct_gather_profile/hdf5\nJobAcctGatherFrequency=energy=5\n"
    )
    node = Node(tmp_path, text)
    settings = settings_of(node.setup.node)
    assert settings is not None
    assert settings["ipmi_sensors"] == [["Node", [16, 19]], ["Socket0", [16]]]
    assert (settings["ipmi_s"], settings["ipmi_limit_s"]) == (7, 3)
    profile = profile_spec(node.setup.node, node.credential(0, profile="Energy"), Account(()), 30)
    assert profile is not None and profile["about"]["labels"] == ["Node", "Socket0"]


PROFILES = (
    GATHERS + "AcctGatherProfileType=acct_gather_profile/{kind}\n"
    "AcctGatherEnergyType=acct_gather_energy/rapl\nJobAcctGatherFrequency=task=9,energy=5\n"
    "AcctGatherFilesystemType=acct_gather_filesystem/lustre\n"
)


def test_series_of_a_profile(tmp_path: Path) -> None:
    """--profile of a step, else of its job, else ProfileHDF5Default; each as often as was said."""
    (tmp_path / "acct_gather.conf").write_text(
        "ProfileHDF5Dir=/shared/profiles\nProfileHDF5Default=Task\n"
    )
    node = Node(tmp_path, PROFILES.format(kind="hdf5"))

    def every_s(asked: str = "", freq: str = "", **request: str) -> dict[str, int] | None:
        credential = node.credential(0, **request)
        profile = profile_spec(node.setup.node, credential, Account(()), 9, asked, freq)
        return profile["every_s"] if profile is not None else None

    assert every_s() == {"task": 9}
    assert every_s(profile="All") == {"energy": 5, "task": 9}
    assert every_s(profile="None") is None
    assert every_s("Energy", profile="Task") == {"energy": 5}
    assert every_s("All", "energy=0,filesystem=2,network=2") == {"lustre": 2, "task": 9}
    assert every_s(profile="nonsense") is None
    profile = node.step(profile="Task")["profile"]
    assert profile is not None and not profile["starts_at_once"]
    assert profile["about"]["conf"] == str(tmp_path / "acct_gather.conf")


@pytest.mark.parametrize("kind", ["HDF5", "InfluxDB"])
@pytest.mark.parametrize(
    ("word", "series"),
    [
        ("All", ["energy", "lustre", "network", "task"]), ("None", []), ("Energy", ["energy"]),
        ("Filesystem", ["lustre"]), ("Network", ["network"]), ("Task", ["task"]),
        ("Task,Network", ["network", "task"]),
    ],
)  # fmt: skip
def test_default_of_profiles(tmp_path: Path, kind: str, word: str, series: list[str]) -> None:
    """ProfileHDF5Default and ProfileInfluxDBDefault: for jobs that ask for nothing."""
    (tmp_path / "acct_gather.conf").write_text(
        f"ProfileHDF5Dir=/shared/profiles\nProfileInfluxDBHost=db\nProfileInfluxDBDatabase=slurm\n"
        f"SysfsInterfaces=lo\nProfile{kind}Default={word}\n"
    )
    text = PROFILES.format(kind=kind.lower()) + (
        "JobAcctGatherFrequency=task=9,energy=5,network=5,filesystem=5\n"
        "AcctGatherInterconnectType=acct_gather_interconnect/sysfs\n"
    )
    profile = Node(tmp_path, text).step()["profile"]
    assert sorted(profile["every_s"] if profile is not None else []) == series


def test_profiles_for_influxdb(tmp_path: Path) -> None:
    """ProfileInfluxDBDefault counts there, and the process starts with the step."""
    (tmp_path / "acct_gather.conf").write_text(
        "ProfileInfluxDBHost=db:8086\nProfileInfluxDBDatabase=slurm\n"
        "ProfileInfluxDBDefault=Energy\n"
    )
    node = Node(tmp_path, PROFILES.format(kind="influxdb"))
    profile = node.step()["profile"]
    assert profile is not None and profile["starts_at_once"]
    assert profile["every_s"] == {"energy": 5}
    assert profile["about"]["tags"]["cluster"] == "c"


def test_h5py_is_needed_for_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """slurmd does not start without it."""
    (tmp_path / "acct_gather.conf").write_text("ProfileHDF5Dir=/shared/profiles\n")
    monkeypatch.setattr("pyslurm_ng.d.node.setup.find_spec", lambda name: None)
    with pytest.raises(BadSetup) as refused:
        Node(tmp_path, PROFILES.format(kind="hdf5"))
    assert "the Python package h5py is not installed" in refused.value.lines[0]


def test_shared_memory_is_left_out(tmp_path: Path) -> None:
    """JobAcctGatherParams=NoShared."""
    assert Node(tmp_path, GATHERS).step()["counts_shared"]
    node = Node(tmp_path, f"{GATHERS}JobAcctGatherParams=NoShared")
    assert not node.step()["counts_shared"]
