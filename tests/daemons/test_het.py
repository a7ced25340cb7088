"""A heterogeneous job on real daemons: one script, steps in and across its components."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.hostlist import expand, fold
from tests.daemons.live import LiveCluster

pytestmark = pytest.mark.daemons

SCRIPT = """#!/bin/bash
#SBATCH --job-name=mixed --ntasks=1 --time=5
#SBATCH hetjob
#SBATCH --ntasks=2 --nodes=2 --gpus-per-node=1
echo "size $SLURM_HET_SIZE ids $SLURM_JOB_ID_HET_GROUP_0 $SLURM_JOB_ID_HET_GROUP_1"
echo "tasks $SLURM_NTASKS_HET_GROUP_0 $SLURM_NTASKS_HET_GROUP_1"
srun --het-group=1 bash -c 'echo "one: $SLURM_JOB_ID rank $SLURM_PROCID of $SLURM_NTASKS"'
srun -l --het-group=0,1 bash -c 'echo "both: $SLURM_JOB_ID rank $SLURM_PROCID of $SLURM_NTASKS"'
srun --het-group=0,1 bash -c 'echo "node $SLURM_PROCID\
 $SLURM_NODEID/$SLURM_NNODES/$SLURM_STEP_NUM_NODES\
 $SLURM_STEP_TASKS_PER_NODE $SLURM_JOB_CPUS_PER_NODE $SLURM_STEP_NODELIST"'
srun --het-group=2 true || echo refused
"""


def test_script_of_two_components(live_cluster: LiveCluster) -> None:
    """Ranks go on from one component to the next, and accounting shows both with their steps."""
    directory = live_cluster.directory.parent / "het"
    directory.mkdir(mode=0o755)
    (directory / "job.sh").write_text(SCRIPT)
    leader = live_cluster.submit("--output=out", "job.sh", cwd=directory)
    other = leader + 1
    live_cluster.wait_for_jobs(leader, other)
    lines = (directory / "out").read_text().splitlines()
    assert f"size 2 ids {leader} {other}" in lines
    assert "tasks 1 2" in lines
    assert sorted(line for line in lines if line.startswith("one:")) == [
        f"one: {leader} rank 0 of 2",
        f"one: {leader} rank 1 of 2",
    ]
    assert sorted(line for line in lines if "both:" in line) == [
        f"0: both: {leader} rank 0 of 3",
        f"1: both: {leader} rank 1 of 3",
        f"2: both: {leader} rank 2 of 3",
    ]
    shown = live_cluster.out("squeue", "-h", "-t", "all", "-o", "%i %N", "-j", str(leader))
    nodes = dict(line.split() for line in shown.splitlines())
    first, second = (expand(nodes[f"{leader}+{offset}"]) for offset in (0, 1))
    assert sorted(line for line in lines if line.startswith("node ")) == [
        f"node {rank} {rank}/3/3 1(x3) 1(x3) {fold([*first, *second])}" for rank in range(3)
    ]
    assert "refused" in lines
    assert any("highest hetjob index (2 > 1)" in line for line in lines)
    for job_id in (leader, other):
        assert live_cluster.accounted(job_id).splitlines()[0] == "COMPLETED|0:0"
    rows = live_cluster.out("sacct", "-n", "-P", "-j", str(leader), "-o", "JobID").split()
    expected = {f"{leader}+0", f"{leader}+0.batch", f"{leader}+1", f"{leader}+1.0"}
    assert expected <= set(rows)


def test_salloc_of_two_components(live_cluster: LiveCluster) -> None:
    """The command sees both; the end of one is the end of all."""
    shown = live_cluster.run(
        "salloc", "-n1", ":", "-n2",
        "bash", "-c", "echo $SLURM_HET_SIZE; srun hostname : hostname | wc -l",
    )  # fmt: skip
    assert (shown.returncode, shown.stdout.split()) == (0, ["2", "3"])
    live_cluster.wait_for_jobs()


def test_waiting_components_are_cancelled_together(live_cluster: LiveCluster) -> None:
    """Both want all nodes whole: they wait for ever, and go at one word."""
    leader = live_cluster.submit("-N4", "--exclusive", ":", "-N4", "--exclusive", "--wrap", "true")
    shown = live_cluster.out("squeue", "-h", "-o", "%i %t").splitlines()
    assert set(shown) == {f"{leader}+0 PD", f"{leader}+1 PD"}
    assert f"HetJobIdSet={leader}-{leader + 1}" in live_cluster.out(
        "scontrol", "show", "job", f"{leader}+1"
    )
    refused = live_cluster.run("scancel", f"{leader}+1")
    assert (refused.returncode, refused.stderr) == (
        60,
        f"scancel: error: Kill job error on job id {leader}+1: "
        "Operation not permitted on individual component of heterogeneous job\n",
    )
    live_cluster.out("scancel", str(leader))
    live_cluster.wait_for_jobs(leader, leader + 1)


def test_filters_cancel_one_component(live_cluster: LiveCluster) -> None:
    """Each has nodes of its own, so a node names one of them; the others go on."""
    words = ("-o", "/dev/null", "-w", "n1", ":", "-w", "n2", "--wrap", "sleep 60")
    leader = live_cluster.submit(*words)

    def running() -> list[str]:
        shown = live_cluster.out("squeue", "-h", "-t", "R", "-o", "%i %N", "-j", str(leader))
        return sorted(shown.splitlines())

    both = [f"{leader}+0 n1", f"{leader}+1 n2"]
    live_cluster.wait_until("both components run", lambda: running() == both)
    live_cluster.out("scancel", "-w", "n2")
    live_cluster.wait_until("the second one is over", lambda: running() == both[:1])
    live_cluster.out("scancel", str(leader))
    live_cluster.wait_for_jobs(leader, leader + 1)


def test_components_write_to_one_file(live_cluster: LiveCluster) -> None:
    """Neither empties it for the other; names with %t have the rank among all tasks."""
    directory = live_cluster.directory.parent / "het-files"
    directory.mkdir(mode=0o755)
    (directory / "both").write_text("before\n")
    first = ("srun", "-Q", "-n2", "-o", "both", "sh", "-c", "echo $SLURM_PROCID")
    second = ("-n1", "-o", "both", "sh", "-c", "echo $SLURM_PROCID")
    ran = live_cluster.run(*first, ":", *second, cwd=directory)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = (directory / "both").read_text().splitlines()
    assert (lines[0], sorted(lines[1:])) == ("before", ["0", "1", "2"])
    script = ("sh", "-c", "echo $SLURM_PROCID")
    words = ("srun", "-Q", "-n2", "-o", "of-%t", *script, ":", "-n1", "-o", "of-%t", *script)
    live_cluster.out(*words, cwd=directory)
    ranks = {path.name: path.read_text() for path in directory.glob("of-*")}
    assert ranks == {f"of-{rank}": f"{rank}\n" for rank in range(3)}


def test_a_task_that_fails_ends_all_components(live_cluster: LiveCluster) -> None:
    """With --kill-on-bad-exit, whichever component it is in."""
    waits, fails = ("-n1", "sleep", "1000"), ("-n1", "sh", "-c", "exit 3")
    for first, second in ((waits, fails), (fails, waits)):
        ran = live_cluster.run("srun", "-K", *first, ":", *second)
        # SIGKILL follows where a busy node has not seen the end by SIGTERM in time.
        assert ran.returncode in (143, 137)
        assert "Exited with exit code 3" in ran.stderr
        assert "DUE TO TASK FAILURE" in ran.stderr


def test_steps_in_components_of_a_job_from_outside(live_cluster: LiveCluster) -> None:
    """--jobid names the leader; without it in the environment, srun asks what components are."""
    words = ("salloc", "-Q", "--no-shell", "-n1", ":", "-n1", "-w", "n2")
    assert live_cluster.run(*words).returncode == 0
    shown = live_cluster.out("squeue", "-h", "--me", "-t", "R", "-o", "%i %A")
    ids = dict(line.split() for line in shown.splitlines())
    leader = next(job for job in ids.values() if f"{job}+1" in ids)
    # As in Slurm, such a job is named for what it has not.
    assert live_cluster.out("squeue", "-h", "-j", leader, "-o", "%j").splitlines()[0] == "no-shell"
    script = ("sh", "-c", "echo $SLURM_PROCID of $SLURM_NTASKS")
    both = live_cluster.out("srun", f"--jobid={leader}", "--het-group=0,1", *script)
    assert sorted(both.splitlines()) == ["0 of 2", "1 of 2"]
    second = live_cluster.run("srun", "--jobid", leader, "--het-group=1", "sleep", "0")
    assert (second.returncode, second.stderr) == (0, "")
    refused = live_cluster.run("srun", f"--jobid={leader}", "--het-group=2", "true")
    assert "highest hetjob index (2 > 1)" in refused.stderr
    live_cluster.run("scancel", leader)


def test_salloc_names_what_each_component_has(live_cluster: LiveCluster) -> None:
    """The old names too, as Slurm 22.05; a script of sbatch has the new ones only."""
    printed = live_cluster.out("salloc", "-Q", "-n1", ":", "-n2", "-N2", "env").splitlines()
    variables = dict(line.split("=", 1) for line in printed if line.startswith("SLURM_"))
    for offset, count in (("0", "1"), ("1", "2")):
        for kind in ("HET", "PACK"):
            assert variables[f"SLURM_NNODES_{kind}_GROUP_{offset}"] == count
            nodes = variables[f"SLURM_NODELIST_{kind}_GROUP_{offset}"]
            assert nodes == variables[f"SLURM_JOB_NODELIST_{kind}_GROUP_{offset}"]
    assert variables["SLURM_JOBID_HET_GROUP_0"] == variables["SLURM_JOB_ID"]
