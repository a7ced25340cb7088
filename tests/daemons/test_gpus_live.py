"""GPUs and the cores near them on real daemons: one node of two sockets, two GPUs near each."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster, missing_programs, start

pytestmark = pytest.mark.daemons

STEPS = """
for number in 1 2; do
  srun --exact -n1 --gpus=1 --mem=10 \
    bash -c 'echo "step $SLURM_STEP_GPUS $CUDA_VISIBLE_DEVICES"; touch $1.$0; \
             until [ -e $1.1 ] && [ -e $1.2 ]; do sleep 0.1; done' $number {both} &
done
wait
srun -n2 --gpus-per-task=1 bash -c 'echo "task $SLURM_PROCID $CUDA_VISIBLE_DEVICES"'
srun -n1 --gres=none bash -c 'echo "none ($CUDA_VISIBLE_DEVICES)"'
echo "job $SLURM_JOB_GPUS"
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)
        made = start(
            Path(name) / "c", "--nodes", "1", "--cpus", "8", "--sockets", "2", "--gpus", "4",
            "--shards", "4", "--memory", "2048",
        )  # fmt: skip
        try:
            yield made
        finally:
            made.down()


def held(cluster: LiveCluster, job_id: int) -> tuple[str, str]:
    """Return the CPU ids and devices that `scontrol show job -d` names."""
    text = cluster.out("scontrol", "show", "job", "-d", str(job_id))
    shown = re.search(r"Nodes=n1 CPU_IDs=(\S+) Mem=\d+ GRES=(\S*)", text)
    assert shown is not None, text
    return shown[1], shown[2]


def running(cluster: LiveCluster, *words: str) -> int:
    job_id = cluster.submit("--mem=100", "-o", "/dev/null", *words, "--wrap", "sleep 600")
    cluster.wait_until(
        f"job {job_id} runs",
        lambda: "RUNNING" in cluster.run("squeue", "-h", "-o", "%T", "-j", str(job_id)).stdout,
    )
    return job_id


def test_jobs_have_gpus_near_their_cores(cluster: LiveCluster) -> None:
    """One GPU is left on each side; a job that insists on three cores near one gets them."""
    assert "Gres=gpu:4(S:0-1)" in cluster.out("scontrol", "show", "node", "n1")
    single = running(cluster, "-n1", "--gpus=1")
    two = running(cluster, "-n2", "--gpus=2")
    near = running(cluster, "-c3", "--gpus=1", "--gres-flags=enforce-binding")
    assert held(cluster, single) == ("0", "gpu:1(IDX:0)")
    assert held(cluster, two) == ("4-5", "gpu:2(IDX:2-3)")
    assert held(cluster, near) == ("1-3", "gpu:1(IDX:1)")
    node = cluster.out("scontrol", "show", "node", "-d", "n1")
    assert "GresUsed=gpu:(null):4(IDX:0-3)" in node
    assert "gres/gpu=4" in node.partition("AllocTRES=")[2]
    assert "gres/gpu=2" in cluster.out("squeue", "-h", "-O", "tres-alloc:60", "-j", str(two))
    cluster.out("scancel", *map(str, (single, two, near)))
    cluster.wait_for_jobs(single, two, near)
    assert "gres/gpu=2" in cluster.accounted(two, "AllocTRES")


def test_steps_side_by_side_see_gpus_of_their_own(cluster: LiveCluster) -> None:
    """Each of two steps has one of the job's two GPUs, and so has each of two tasks."""
    other = running(cluster, "-n1", "--gpus=2")
    output = cluster.directory / "steps.out"
    script = STEPS.format(both=cluster.directory / "both")
    job_id = cluster.submit(
        "-n2", "--gpus=2", "--mem=100", "-o", str(output), "--wrap", script
    )  # fmt: skip
    cluster.wait_for_jobs(job_id)
    cluster.out("scancel", str(other))
    cluster.wait_for_jobs(other)
    lines = output.read_text().splitlines()
    assert sorted(lines) == [
        "job 2,3", "none ()", "step 2 2", "step 3 3", "task 0 2", "task 1 3"
    ]  # fmt: skip


def test_tasks_are_kept_to_so_many_in_a_socket(cluster: LiveCluster) -> None:
    """-B asks for hardware, --ntasks-per-socket spreads a job over it; its steps keep to that."""
    by_socket = running(cluster, "-B", "2:4:1", "-n2", "--ntasks-per-socket=1")
    assert held(cluster, by_socket)[0] == "0,4"
    shown = cluster.out("scontrol", "show", "job", str(by_socket))
    assert "ReqB:S:C:T=0:0:4:1" in shown
    assert "NtasksPerN:B:S:C=0:0:1:" in shown
    step = ("srun", "--jobid", str(by_socket), "--ntasks-per-socket=1", "--overlap")
    assert cluster.out(*step, "-n2", "bash", "-c", "echo $SLURM_NTASKS") == "2\n2\n"
    refused = cluster.run(*step, "-n3", "true")
    assert refused.returncode != 0
    assert "More processors requested than permitted" in refused.stderr
    cluster.out("scancel", str(by_socket))
    cluster.wait_for_jobs(by_socket)
    too_large = cluster.run("sbatch", "-B", "3", "--wrap", "true")
    assert too_large.returncode == 1
    assert "Requested node configuration is not available" in too_large.stderr


SHARED = """
echo "job $SLURM_SHARDS_ON_NODE ($CUDA_VISIBLE_DEVICES) ($SLURM_JOB_GPUS)"
srun --exact -n1 --gres=shard:1 \
  bash -c 'echo "step $SLURM_SHARDS_ON_NODE ($CUDA_VISIBLE_DEVICES)"'
srun -n1 bash -c 'echo "all $SLURM_SHARDS_ON_NODE"'
srun -n1 --gres=none bash -c 'echo "none $SLURM_SHARDS_ON_NODE ($CUDA_VISIBLE_DEVICES)"'
"""


def test_jobs_share_a_gpu(cluster: LiveCluster) -> None:
    """Two jobs have shards of one GPU, a third does not fit there; whole GPUs are others."""
    first = running(cluster, "--gres=shard:3")
    second = running(cluster, "--gres=shard:1")
    third = running(cluster, "--gres=shard:2")
    whole = running(cluster, "--gres=gpu:1")
    shares = [held(cluster, job_id)[1] for job_id in (first, second, third, whole)]
    assert shares == [
        "shard:3(3/4,0/4,0/4,0/4)",
        "shard:1(1/4,0/4,0/4,0/4)",
        "shard:2(0/4,2/4,0/4,0/4)",
        "gpu:1(IDX:2)",
    ]
    node = cluster.out("scontrol", "show", "node", "n1", "-d")
    assert "GresUsed=gpu:(null):1(IDX:2),shard:6(4/4,2/4,0/4,0/4)" in node
    assert "gres/gpu=1,gres/shard=6" in node
    cluster.out("scancel", *map(str, (first, second, third, whole)))
    refused = cluster.run("sbatch", "--gres=gpu:1,shard:1", "--wrap", "true")
    assert "Invalid generic resource (gres) specification" in refused.stderr
    output = cluster.directory / "shared.txt"
    words = ("--wait", "-n2", "--mem=100", "--gres=shard:3", "-o", str(output))
    cluster.submit(*words, "--wrap", SHARED)
    assert output.read_text().splitlines() == ["job 3 (0) ()", "step 1 (0)", "all 3", "none  ()"]


TASK_TRES = """
show="echo \\$SLURM_TRES_PER_TASK \\$CUDA_VISIBLE_DEVICES"
echo $SLURM_TRES_PER_TASK
srun -n1 sh -c "$show"
srun -n1 --tres-per-task=cpu=1,gres/gpu sh -c "$show"
srun -n1 -c1 sh -c "echo \\$SLURM_TRES_PER_TASK"
srun -n1 --tres-per-task=gres/gpu:a:b:1 true 2>&1
"""


def test_resources_of_tasks_are_shown_as_typed(cluster: LiveCluster) -> None:
    """SLURM_TRES_PER_TASK in scripts, salloc and steps, which get what it says."""
    output = cluster.directory / "task-tres"
    job_id = cluster.submit(
        "-n1", "--mem=100", "-o", str(output), "--tres-per-task=gres/gpu:2,cpu:2",
        "--wrap", TASK_TRES,
    )  # fmt: skip
    cluster.wait_for_jobs(job_id)
    assert output.read_text().splitlines() == [
        "gres/gpu:2,cpu:2",
        "gres/gpu:2,cpu:2 0,1",
        "cpu=1,gres/gpu 0",
        "cpu=1,gres/gpu=2",
        "srun: error: Invalid Trackable RESource (TRES) specification",
    ]
    show = "echo $SLURM_TRES_PER_TASK"
    words = ("-n1", "-c2", "--tres-per-task=gres/shard", "sh", "-c", f"{show}; srun sh -c '{show}'")
    lines = cluster.out("salloc", "-Q", "--mem=100", *words).splitlines()
    assert lines[0] == "cpu=2,gres/shard" and len(lines) == 2
    words = ("-n1", "--mem=100", "--tres-per-task=cpu:1,gres/gpu:1", "sh", "-c", show)
    assert cluster.out("srun", *words).strip() == "cpu:1,gres/gpu:1"


def test_a_step_counts_its_own_gpus(cluster: LiveCluster) -> None:
    """SLURM_GPUS_ON_NODE is the step's: a step may have fewer than its job."""
    show = "echo $SLURM_GPUS_ON_NODE $SLURM_JOB_GPUS $SLURM_STEP_GPUS"
    words = ("salloc", "-Q", "-n1", "--mem=100", "--gpus=2", "sh", "-c")
    script = f"srun sh -c '{show}'; srun --gpus=1 sh -c '{show}'; srun --gres=none sh -c '{show}'"
    assert cluster.out(*words, script).splitlines() == ["2 0,1 0,1", "1 0,1 0", "0,1"]


def test_counted_tasks_on_whole_nodes_have_their_own_cpus(cluster: LiveCluster) -> None:
    """`srun --exclusive -n2` implies --exact; without -n its task has the node."""
    show = ("sh", "-c", "echo $SLURM_JOB_CPUS_PER_NODE $SLURM_CPUS_ON_NODE")
    whole = ("srun", "--exclusive", "--mem=100")
    assert cluster.out(*whole, "-n2", *show) == "8 2\n" * 2
    assert cluster.out(*whole, "-n2", "-c3", *show) == "8 6\n" * 2
    assert cluster.out(*whole, "-N1", *show) == "8 8\n"
    assert cluster.out(*whole, "-c4", *show) == "8 8\n" * 2


def test_steps_of_salloc_and_scripts_know_how_gpus_were_asked_for(cluster: LiveCluster) -> None:
    """--gpu-bind reaches the steps; GPUs of sockets need no sockets to be named again."""
    show = "echo $CUDA_VISIBLE_DEVICES $SLURM_GPU_BIND $SLURM_TRES_BIND $SLURM_GPUS_PER_SOCKET"
    step = ("srun", "sh", "-c", show)
    salloc = ("salloc", "-Q", "--mem=100")
    bound = cluster.out(*salloc, "-n2", "--gpus=2", "--gpu-bind=single:1", *step)
    assert sorted(bound.splitlines()) == ["0 single:1", "1 single:1"]
    bound = cluster.out(*salloc, "-n2", "--gpus=2", "--tres-bind=gres/gpu:map:0,1", *step)
    assert sorted(bound.splitlines()) == ["0 gres/gpu:map:0,1", "1 gres/gpu:map:0,1"]
    words = ("sh", "-c", "echo $SLURM_NTASKS; srun echo $SLURM_PROCID")
    for counted in (("--gpus=1", "--ntasks-per-gpu=2"), ("--gpus=2", "--gpus-per-task=1")):
        assert cluster.out(*salloc, *counted, *words) == "2\n\n\n"
    sockets = ("--sockets-per-node=2", "--gpus-per-socket=1", "-n1")
    assert cluster.out(*salloc, *sockets, *step) == "0,2 1\n"
    output = cluster.directory / "sockets.out"
    cluster.submit(
        "--wait", "--mem=100", "-o", str(output), *sockets, "--wrap", f"srun sh -c '{show}'"
    )
    assert output.read_text() == "0,2 1\n"
