"""A profile of a job on two real nodes, from srun's option to sh5util's table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster, missing_programs, start

pytestmark = pytest.mark.daemons

CONF = """
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1,network=1
AcctGatherInterconnectType=acct_gather_interconnect/sysfs
AcctGatherProfileType=acct_gather_profile/hdf5
AccountingStorageTRES=ic/sysfs
"""


@pytest.fixture(scope="module")
def profiled() -> Iterator[LiveCluster]:
    """Two nodes; profiles go below the directory of the cluster."""
    pytest.importorskip("h5py")
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)
        folder = Path(name)
        (folder / "extra.conf").write_text(CONF)
        (folder / "profiles").mkdir()
        (folder / "c" / "etc").mkdir(parents=True)
        (folder / "c" / "etc" / "acct_gather.conf").write_text(
            f"ProfileHDF5Dir={folder}/profiles\nSysfsInterfaces=lo\n"
        )
        cluster = start(
            folder / "c", "--nodes", "2", "--cpus", "2", "--memory", "1024",
            "--conf", str(folder / "extra.conf"),
        )  # fmt: skip
        try:
            yield cluster
        finally:
            cluster.down()


def sh5util(cluster: LiveCluster, *words: str) -> str:
    """Return what it prints; it says on stderr what it does."""
    done = cluster.run("sh5util", *words)
    assert done.returncode == 0, done
    return done.stdout


def test_a_profile_of_two_nodes(profiled: LiveCluster) -> None:
    """The script has no profile, its step has: each node's file is there when srun has ended."""
    job_id = profiled.submit(
        "-N2", "-n2", "--mem=100", "-o", "/dev/null",
        "--wrap", "srun --profile=task,network sleep 2.5",
    )  # fmt: skip
    profiled.wait_for_jobs(job_id)
    (own,) = (profiled.directory.parent / "profiles").iterdir()
    assert sorted(path.name for path in own.iterdir()) == [
        f"{job_id}_0_n1.h5", f"{job_id}_0_n2.h5",
    ]  # fmt: skip
    merged = profiled.directory / "job.h5"
    sh5util(profiled, "-j", str(job_id), "-o", str(merged))
    assert list(own.iterdir()) == []
    table = profiled.directory / "rss.csv"
    sh5util(
        profiled, "-j", str(job_id), "-i", str(merged), "-E", "-s", "Task",
        "-l", "Node:TimeSeries", "-o", str(table),
    )  # fmt: skip
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    assert {(row[0], row[1], row[2]) for row in rows} == {("0", "n1", "0"), ("0", "n2", "1")}
    assert all(int(row[8]) > 0 for row in rows)  # RSS
    items = sh5util(profiled, "-j", str(job_id), "-i", str(merged), "-L", "-s", "Network")
    assert items.split()[2:] == ["PacketsIn", "PacketsOut", "InMB", "OutMB"]
    profiled.accounted(job_id)
    used = profiled.out(
        "sacct", "-n", "-P", "-j", f"{job_id}.0", "-o", "TRESUsageInTot,TRESUsageOutTot"
    )
    assert used.count("ic/sysfs=") == 2
