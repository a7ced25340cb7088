"""Ray by its documented script for Slurm: a head and a worker as steps, then the driver."""

import subprocess
from importlib.metadata import version
from pathlib import Path

Path("tasks.py").write_text("""
import os
import ray

ray.init(address="auto")

@ray.remote(num_cpus=1)
def where(n):
    return n * n

assert ray.get([where.remote(n) for n in range(8)]) == [n * n for n in range(8)]
assert len([node for node in ray.nodes() if node["Alive"]]) == 2, ray.nodes()
open("ray.txt", "w").write("done")
""")
Path("ray.sh").write_text("""#!/bin/bash
#SBATCH -N2 --ntasks-per-node=1 -c2 --mem=3000 -t 4 -o ray.out
export RAY_TMPDIR=$(mktemp -d /tmp/r.XXXX) RAY_USAGE_STATS_ENABLED=0
nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
port=$((26000 + SLURM_JOB_ID % 1000))
srun --overlap -N1 -n1 -w "${nodes[0]}" ray start --head --node-ip-address=127.0.0.1 --port=$port \\
    --num-cpus 2 --include-dashboard=false --temp-dir=$RAY_TMPDIR --block &
until ray status --address 127.0.0.1:$port >status.txt 2>&1; do sleep 1; done
srun --overlap -N1 -n1 -w "${nodes[1]}" ray start --address 127.0.0.1:$port --num-cpus 2 --block &
until [ "$(grep -c '^ 1 node_' status.txt)" = 2 ]; do
    ray status --address 127.0.0.1:$port >status.txt 2>&1 || sleep 1
done
RAY_ADDRESS=127.0.0.1:$port python tasks.py
code=$?
scancel --signal=TERM $SLURM_JOB_ID.0 $SLURM_JOB_ID.1
wait
rm -rf "$RAY_TMPDIR"
exit $code
""")
done = subprocess.run(["sbatch", "-W", "ray.sh"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr + Path("ray.out").read_text()[-4000:]
assert Path("ray.txt").read_text() == "done"
print("ray", version("ray"), "ok")
