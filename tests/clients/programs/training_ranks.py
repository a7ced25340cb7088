"""Ranks of Accelerate, Ignite and of DeepSpeed's launcher for Slurm, two on each of two nodes."""

import subprocess
from importlib.metadata import version
from pathlib import Path

NAMES = ("torch", "accelerate", "pytorch-ignite", "deepspeed")

HEAD = "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"
PORT = "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))"
Path("accelerated.py").write_text("""
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
total = accelerator.reduce(torch.tensor(accelerator.process_index + 1.0), reduction="sum")
if accelerator.is_main_process:
    open("accelerated.txt", "w").write(f"{accelerator.num_processes} {total.item():.0f}")
accelerator.end_training()
""")
Path("ignited.py").write_text("""
import ignite.distributed as idist

def train(local_rank):
    assert local_rank == idist.get_local_rank()
    total = idist.all_reduce(idist.get_rank() + 1)
    if idist.get_rank() == 0:
        shape = f"{idist.get_nnodes()} x {idist.get_nproc_per_node()}"
        open("ignited.txt", "w").write(f"{shape} {total}")

with idist.Parallel(backend="gloo") as parallel:
    parallel.run(train)
""")
# DeepSpeed's own communication compiles C++ first, which may take minutes. This tries its launcher.
Path("sped.py").write_text("""
import os

import torch
import torch.distributed as dist

rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
dist.init_process_group("gloo", rank=rank, world_size=size)
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
if rank == 0:
    open("sped.txt", "w").write(f"{dist.get_world_size()} {total.item():.0f}")
dist.destroy_process_group()
""")
SCRIPTS = {
    "accelerated": "srun --mpi=pmi2 python accelerated.py",
    "ignited": "srun python ignited.py",
    "sped": "scontrol show hostnames $SLURM_JOB_NODELIST | sed 's/$/ slots=2/' > hosts\n"
    "deepspeed --launcher slurm --hostfile hosts --no_ssh_check"
    " --master_addr $MASTER_ADDR --master_port $MASTER_PORT sped.py",
}
EXPECTED = {"accelerated": "4 10", "ignited": "2 x 2 10", "sped": "4 10"}
for name, command in SCRIPTS.items():
    script = Path(f"{name}.sh")
    script.write_text(
        f"#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=2 --mem-per-cpu=900 -o {name}.out\n"
        f"{HEAD}\n{PORT}\n{command}\n"
    )
    done = subprocess.run(["sbatch", "-W", script], capture_output=True, text=True)
    said = Path(f"{name}.out").read_text()
    assert done.returncode == 0, done.stderr + said
    assert Path(f"{name}.txt").read_text() == EXPECTED[name], said
print(*(f"{name} {version(name)}" for name in NAMES), "ok")
