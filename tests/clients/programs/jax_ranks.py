"""JAX on two nodes: jax.distributed.initialize() finds its coordinator and ranks in SLURM_*."""

import os
import subprocess
import sys
from pathlib import Path

Path("gather.py").write_text("""
import jax
import jax.numpy as jnp

jax.distributed.initialize()
from jax.experimental import multihost_utils

ranks = multihost_utils.process_allgather(jnp.array([jax.process_index()]))
if jax.process_index() == 0:
    open("ranks.txt", "w").write(f"{jax.process_count()} {ranks.ravel().tolist()}")
""")
subprocess.run(
    ["srun", "-N2", "-n4", "--mem-per-cpu=400", sys.executable, "gather.py"],
    check=True,
    env={**os.environ, "JAX_PLATFORMS": "cpu"},
)
assert Path("ranks.txt").read_text() == "4 [0, 1, 2, 3]"
print("ok")
