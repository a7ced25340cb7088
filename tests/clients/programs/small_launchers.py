"""What clusterscope reads of a cluster; jobs by srunx: one ends, one fails, one is cancelled."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from clusterscope.cluster_info import SlurmClusterInfo
from clusterscope.slurm.partition import get_partition_info
from srunx import Job, JobEnvironment, JobResource, Slurm

NAMES = ("clusterscope", "srunx")


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


cluster = SlurmClusterInfo()
assert cluster.is_slurm_cluster and re.match(r"2\d\.\d\d", cluster.get_slurm_version())
assert [node.mem_total_MB for node in cluster.get_mem_per_node_MB()] == [4000]
assert [node.cpu_count for node in cluster.get_cpus_per_node()] == [4]
assert cluster.get_gpu_generation_and_count() == []
partition = get_partition_info()[0]
assert (partition.name, partition.max_cpus_per_node) == ("debug", 4), partition
words = run("cscope", "job-gen", "task", "slurm", "--partition", "debug", "--cpus-per-task", "2")
assert '"memory": "1G"' in words, words

slurm, here = Slurm(), JobEnvironment(venv=sys.prefix)
Path("logs").mkdir()
asked = JobResource(nodes=2, ntasks_per_node=2)
job = slurm.run(Job(name="good", command=["echo", "done"], environment=here, resources=asked))
assert slurm.monitor(job, poll_interval=1).status.value == "COMPLETED"
said = Path(f"logs/good_{job.job_id}.out").read_text()
assert said.splitlines().count("done") == 4, said
job = slurm.run(Job(name="bad", command=["false"], environment=here))
said = ""
try:
    slurm.monitor(job, poll_interval=1)
except RuntimeError as error:
    said = str(error)
assert f"SLURM job {job.job_id} failed" in said, said
job = slurm.run(Job(name="long", command=["sleep", "300"], environment=here))
listed = {shown.job_id: shown.status.value for shown in slurm.list(user=os.environ["USER"])}
assert listed[job.job_id] in ("RUNNING", "PENDING"), listed
slurm.cancel(job.job_id)

print(*(f"{name} {version(name)}" for name in NAMES), "ok")
