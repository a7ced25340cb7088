"""RELIABILITY 44, 46: whatever one user does to the daemons, another's commands and jobs succeed.

The attacks are those of bench/hostile_load.py, which also says how long the commands take.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.faults import AS_OTHERS, as_user, open_directory, pid_of, without_faults
from tests.daemons.live import LiveCluster, start

pytestmark = AS_OTHERS
PROGRAM = Path(__file__).parents[2] / "bench" / "hostile_load.py"
MOST_MIB = 768
"""64 MiB of answers, 128 MiB of requests, and what 10,000 jobs with long texts take."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        made = start(directory / "c", "--nodes", "1", "--cpus", "8")
        with without_faults(made):
            yield made


def attacked(cluster: LiveCluster, seconds: float, only: str) -> list[dict[str, object]]:
    """Return the rows of the benchmark, which fails when a command of the other user's fails."""
    done = cluster.run(
        sys.executable, str(PROGRAM), "--json", "--seconds", str(seconds), "--only", only,
        PYTHONPATH=str(PROGRAM.parents[1] / "src"),
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stderr}\n{cluster.logs()}"
    return [json.loads(line) for line in done.stdout.splitlines()]


ATTACKS = (
    "declared",
    "half bodies",
    "slow",
    "connection flood",
    "squeue",
    "unread",
    "step flood",
    "steps of",
    "sacct",
    "refusals of accounting",
    "explanations",
    "ids of tasks",
    "long texts",
    "as many names",
    "changes",
    "listings",
    "arrays",
    "mixed",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_another_user_is_served_beside_an_attack(cluster: LiveCluster, attack: str) -> None:
    """Every squeue and sbatch succeeds, every job runs, the controller stays of a size."""
    pid = pid_of(cluster, "slurmctld")
    (row,) = attacked(cluster, 1.0, attack)
    assert int(str(row["commands"])) >= 2
    assert int(str(row["starts"])) >= 1
    assert float(str(row["slurmctld_mib"])) < MOST_MIB
    assert pid_of(cluster, "slurmctld") == pid
    said = cluster.out("sdiag")
    assert "Connections, what they hold now" in said
    assert as_user(cluster, "nobody", "squeue").returncode == 0


def test_a_limited_user_is_slowed_down_and_loses_nothing(cluster: LiveCluster) -> None:
    """rl_enable by `scontrol reconfigure`: sixty commands of a user succeed, and sdiag tells."""
    conf = Path(cluster.environment["SLURM_CONF"])
    before = conf.read_text()
    words = "rl_enable,rl_bucket_size=10,rl_refill_rate=20"
    try:
        conf.write_text(f"{before}SlurmctldParameters={words}\n")
        cluster.out("scontrol", "reconfigure")
        script = (
            "for n in $(seq 60); do squeue -h & all=$all\\ $!; done; "
            "for one in $all; do wait $one || exit 1; done"
        )
        done = as_user(cluster, "games", "bash", "-c", script)
        assert (done.returncode, done.stderr) == (0, "")
        said = cluster.out("sdiag")
        assert "Requests told to back off by user" in said
        assert "games" in said.partition("Requests told to back off by user")[2]
        # Administrators are not limited.
        for _ in range(15):
            cluster.out("squeue", "-h")
        assert "root" not in cluster.out("sdiag").partition("Requests told to back off")[2]
        log = (cluster.directory / "log" / "slurmctld.log").read_text()
        assert "is over its limit of requests (rl_enable)" in log
    finally:
        conf.write_text(before)
        cluster.out("scontrol", "reconfigure")


def test_words_that_limit_everybody_are_left_out(cluster: LiveCluster) -> None:
    """A bucket of no tokens would turn everybody away: it is named, and the default holds."""
    conf = Path(cluster.environment["SLURM_CONF"])
    before = conf.read_text()
    try:
        conf.write_text(f"{before}SlurmctldParameters=rl_enable,rl_bucket_size=0\n")
        cluster.out("scontrol", "reconfigure")
        assert "rl_bucket_size" in (cluster.directory / "log" / "slurmctld.log").read_text()
        assert as_user(cluster, "nobody", "squeue").returncode == 0
    finally:
        conf.write_text(before)
