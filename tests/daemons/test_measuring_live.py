"""GPU use and energy of jobs on real daemons, whose NVML and BMC are recorded ones.

The daemons run in a mount namespace in which the recorded binding lies over NVML's.
"""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster, missing_programs, start
from tests.world.recorded_gpus.host import BINDING, RecordedHost

pytestmark = pytest.mark.daemons

CONF = """
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
AcctGatherEnergyType=acct_gather_energy/ipmi,acct_gather_energy/gpu
AcctGatherNodeFreq=1
"""
BMC = "#!/bin/sh\necho 'Current Power                        : 200 Watts'\n"


class Measured:
    """A cluster, and what runs on its node's GPUs."""

    def __init__(self, cluster: LiveCluster, host: RecordedHost) -> None:
        self.cluster = cluster
        self.host = host


@pytest.fixture(scope="module")
def measured() -> Iterator[Measured]:
    """One node of four A100 and a BMC that says 200 W."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    if os.getuid():
        pytest.skip("a mount namespace needs root")
    spec = importlib.util.find_spec("pynvml")
    assert spec is not None and spec.origin is not None
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)
        folder = Path(name)
        (folder / "extra.conf").write_text(CONF)
        programs = folder / "bin"
        programs.mkdir()
        (programs / "ipmi-dcmi").write_text(BMC)
        (programs / "ipmi-dcmi").chmod(0o755)
        host = RecordedHost(folder / "gpus", "a100x4")
        mounts = f'mount --bind {BINDING} {spec.origin} && exec "$@"'
        cluster = start(
            folder / "c", "--nodes", "1", "--cpus", "8", "--gpus", "4", "--memory", "2048",
            "--conf", str(folder / "extra.conf"),
            wrapper=["unshare", "-m", "sh", "-c", mounts, "sh"],
            variables={**host.environment, "PATH": f"{programs}:{os.environ['PATH']}"},
        )  # fmt: skip
        try:
            yield Measured(cluster, host)
        finally:
            cluster.down()


def pid_of(cluster: LiveCluster, job_id: int) -> int:
    """Return the process of a script that runs."""
    shown: list[int] = []

    def runs() -> bool:
        lines = cluster.run("scontrol", "listpids", str(job_id)).stdout.splitlines()[1:]
        shown[:] = [int(line.split()[0]) for line in lines if line.split()[3] == "0"]
        return bool(shown)

    cluster.wait_until(f"job {job_id} has processes", runs)
    return shown[0]


def test_gpu_use_and_energy_of_a_job(measured: Measured) -> None:
    """sstat while it runs, sacct and seff after its end; the node's power in scontrol."""
    cluster, host = measured.cluster, measured.host
    job_id = cluster.submit(
        "-n1", "--gpus=2", "--mem=100", "-o", "/dev/null",
        "--wrap", "while ! [ -e go ]; do sleep 0.2; done",
    )  # fmt: skip
    pid = pid_of(cluster, job_id)
    host.run({"gpu": 0, "pid": pid, "percent": 80, "mib": 500},
             {"gpu": 1, "pid": pid, "percent": 40, "mib": 100},
             {"gpu": 3, "pid": 1, "percent": 99, "mib": 9999})  # fmt: skip

    def use(command: str, field: str) -> dict[str, str]:
        words = [command, "-n", "-P", "-j", f"{job_id}.batch", "-o", field]
        text = cluster.run(*words, "--noconvert").stdout.strip()
        return dict(word.split("=", 1) for word in text.split(",") if "=" in word)

    cluster.wait_until(
        "sstat tells the use of both GPUs",
        lambda: use("sstat", "TRESUsageInMax").get("gres/gpuutil") == "120",
    )
    memory = use("sstat", "TRESUsageInMax")["gres/gpumem"]
    assert memory in (str(600 << 20), "600M")
    cluster.wait_until(
        "the node's power is known",
        lambda: "CurrentWatts=412 " in cluster.out("scontrol", "show", "node", "n1"),
    )
    mean = re.search(r"AveWatts=(\d+)", cluster.out("scontrol", "show", "node", "n1"))
    assert mean is not None and 400 <= int(mean[1]) <= 425
    cluster.wait_until(
        "the job has drawn a kilojoule",
        lambda: int(use("sstat", "TRESUsageInTot").get("energy", "0")) > 1000,
    )
    (cluster.directory / "go").touch()
    cluster.wait_for_jobs(job_id)
    cluster.accounted(job_id)
    assert use("sacct", "TRESUsageInMax")["gres/gpuutil"] == "120"
    assert 0 < int(use("sacct", "TRESUsageInAve")["gres/gpuutil"]) <= 120
    joules = cluster.out("sacct", "-n", "-P", "-X", "-j", str(job_id), "-o", "ConsumedEnergyRaw")
    assert int(joules) > 1000
    shown = cluster.out("seff", str(job_id))
    percent = re.search(r"GPU Efficiency: ([\d.]+)%", shown)
    assert percent is not None and 0 < float(percent[1]) <= 60
    assert "GPU Memory Utilized: 600.00 MB" in shown


def test_a_driver_that_hangs_delays_no_job(measured: Measured) -> None:
    """slurmd answers, and a job starts and ends, while NVML answers no call."""
    cluster, host = measured.cluster, measured.host
    host.hang(hangs=True)
    try:
        job_id = cluster.submit("--gpus=1", "--mem=100", "-o", "/dev/null", "--wrap", "true")
        cluster.wait_for_jobs(job_id)
        assert cluster.accounted(job_id) == "COMPLETED|0:0"
    finally:
        host.hang(hangs=False)


def test_slurmd_registers_without_a_lost_gpu(measured: Measured) -> None:
    """Its file stays, so that only the driver tells. Hardware of these nodes is only pretended,
    so that this one is not drained."""
    measured.host.lose(3)
    cluster = measured.cluster
    log = cluster.directory / "log" / "slurmd-n1.log"
    cluster.wait_until(
        "the lost GPU is noticed",
        lambda: "nvidia3: NVML says that the GPU is lost" in log.read_text(),
    )
    cluster.wait_until("registered", lambda: log.read_text().count("registered with") == 2)
