"""The batch scripts of `make demo`, submitted unchanged to real daemons."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.up import host_names
from tests.daemons.live import BIN, LiveCluster

DEMO = Path(__file__).resolve().parents[2] / "demo"

pytestmark = pytest.mark.daemons


@pytest.fixture
def work(live_cluster: LiveCluster, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return a directory for one test's jobs; everybody may enter, only its owner writes."""
    directory = live_cluster.directory.parent / request.node.name
    directory.mkdir(mode=0o755)
    yield directory
    live_cluster.run("scancel", "--me")


def test_training_script_runs_on_all_nodes(live_cluster: LiveCluster, work: Path) -> None:
    """Eight ranks, two for each node, see their node's GPUs and agree where to meet."""
    job_id = live_cluster.submit(str(DEMO / "train.sh"), cwd=work)
    live_cluster.wait_for_jobs(job_id)
    assert live_cluster.accounted(job_id) == "COMPLETED|0:0"
    lines = (work / f"train-{job_id}.out").read_text().splitlines()
    ranks = sorted(line.split(": ", 1)[1] for line in lines if ": rank " in line)
    assert ranks == [
        f"rank {rank} of 8 on n{rank // 2 + 1} local {rank % 2} gpus 0,1 master n1"
        for rank in range(8)
    ]
    ready = sorted(line.split()[-1] for line in lines if "data ready" in line)
    assert ready == ["n1", "n2", "n3", "n4"]
    labels = [line.split(":")[0].strip() for line in lines if ": rank " in line]
    assert sorted(labels) == [str(rank) for rank in range(8)]


@pytest.mark.skipif(bool(host_names.why_not()), reason="no namespaces here")
def test_each_node_is_a_host(live_cluster: LiveCluster) -> None:
    """`hostname` prints the node's name, and every node's name resolves inside a job."""
    assert sorted(live_cluster.out("srun", "-N4", "hostname").split()) == ["n1", "n2", "n3", "n4"]
    assert live_cluster.out("srun", "-N1", "-w", "n1", "getent", "hosts", "n4").split() == [
        "127.64.0.4",
        "n4",
    ]


def test_array_and_the_job_that_collects(live_cluster: LiveCluster, work: Path) -> None:
    """`%8` bounds how many run at once; `afterok` on an array waits for every task."""
    (work / "squares").mkdir()
    array = live_cluster.submit(str(DEMO / "array.sh"), cwd=work)
    collect = live_cluster.submit(
        f"--dependency=afterok:{array}", str(DEMO / "collect.sh"), cwd=work
    )
    most = 0

    def done() -> bool:
        nonlocal most
        running = live_cluster.run("squeue", "-h", "-r", "-t", "R", "-j", str(array), "-o", "%K")
        most = max(most, len(running.stdout.split()))
        return not live_cluster.run("squeue", "-h", "-j", f"{array},{collect}").stdout.strip()

    live_cluster.wait_until("array and collector", done, limit_s=120)
    assert 1 <= most <= 8
    assert (work / "collect.out").read_text() == "100 results, sum 338350\n"
    assert live_cluster.accounted(collect) == "COMPLETED|0:0"


def test_pipeline_goes_on_after_its_failure(live_cluster: LiveCluster, work: Path) -> None:
    """afterok holds back what follows a failure; afternotok is how a repair is asked for."""
    ids: list[int] = []
    for stage in range(1, 21):
        words = [f"--job-name=stage-{stage}"]
        if ids:
            kind = "afternotok" if stage == 14 else "afterok"
            words.append(f"--dependency={kind}:{ids[-1]}")
        ids.append(
            live_cluster.submit(
                *words, str(DEMO / "stage.sh"), cwd=work, STAGE=str(stage), BROKEN_STAGE="13"
            )
        )
    live_cluster.wait_for_jobs(*ids, limit_s=120)
    text = (work / "pipeline.out").read_text()
    assert text == "".join(f"stage {stage}\n" for stage in range(1, 21))
    assert live_cluster.accounted(ids[12]) == "FAILED|3:0"
    assert live_cluster.accounted(ids[19]) == "COMPLETED|0:0"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can submit as two users")
def test_two_users_are_kept_apart(live_cluster: LiveCluster, work: Path) -> None:
    """Neither reads the other's files nor signals the other's processes. No process survives."""
    users = ["nobody", "games"]
    if subprocess.run(
        ["setpriv", "--reuid=nobody", "--clear-groups", BIN / "sbatch", "-V"]
    ).returncode:
        pytest.skip(f"other users may not enter {BIN}")
    shutil.copy(DEMO / "private.sh", work)
    jobs = []
    for user in users:
        (work / user).mkdir(mode=0o700)
        shutil.chown(work / user, user)
    for user, other in zip(users, reversed(users), strict=True):
        done = live_cluster.run(
            "setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", "--",
            "sbatch", "--parsable", "-D", str(work / user), str(work / "private.sh"),
            cwd=work, OTHER_USER=other, OTHER_DIR=str(work / other),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        jobs.append(int(done.stdout))
    live_cluster.wait_for_jobs(*jobs)
    for user in users:
        pid_file = Path(f"/tmp/pyslurm-ng-demo-{user}.pid")
        text = (work / user / f"private-{user}.out").read_text()
        assert text == f"I am {user}\nfile kept apart\nprocess kept apart\n"
        assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()
        pid_file.unlink()
