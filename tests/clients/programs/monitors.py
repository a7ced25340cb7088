"""Monitors: nodetop, slurmclust, slurm-wtf and slurm_gpustat see the nodes and the job."""

import json
import subprocess
from importlib.metadata import version

NAMES = ("nodetop", "slurmclust", "slurm-wtf", "slurm-gpustat")


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


job_id = run("sbatch", "--parsable", "-n2", "--mem=100", "--wrap", "sleep 60").strip()
while run("squeue", "-h", "-o", "%t", "-j", job_id).strip() != "R":
    pass
seen = json.loads(run("nodetop", "--json", "nodes"))
assert "n1" in json.dumps(seen) and "4 of 4 nodes up" in run("nodetop", "--no-color"), seen
assert "4 nodes" in run("clust")
accounts = json.loads(run("wtf", "--json"))["accounts"]
assert [(row["account"], row["partition"]) for row in accounts] == [("science", "debug")], accounts
assert accounts[0]["my_running"] >= 1, accounts
assert "GPU model" in run("slurm_gpustat")
run("scancel", job_id)
print(
    *(f"{name} {version(name)}" for name in NAMES),
    "ok",
)
