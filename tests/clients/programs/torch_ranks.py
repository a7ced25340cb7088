"""torchrun by its usual script for Slurm, and Lightning, which finds its ranks in SLURM_*."""

import os
import subprocess
from importlib.metadata import version
from pathlib import Path

Path("reduce.py").write_text("""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(value)
if dist.get_rank() == 0:
    open("sum.txt", "w").write(f"{dist.get_world_size()} {value.item():.0f}")
dist.destroy_process_group()
""")
Path("torchrun.sh").write_text("""#!/bin/bash
#SBATCH -N2 --ntasks-per-node=1 -c2 --mem-per-cpu=600 -o torchrun.out
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --cpus-per-task=2 torchrun --nnodes=2 --nproc-per-node=2 --rdzv-id=$SLURM_JOB_ID \\
    --rdzv-backend=c10d \\
    --rdzv-endpoint=${HEAD_ADDRESS:-$head}:$((20000 + SLURM_JOB_ID % 10000)) \\
    reduce.py
""")
Path("fit.py").write_text("""
import lightning as L
import torch
from lightning.pytorch.plugins.environments import SLURMEnvironment

class Line(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch, _):
        return self.layer(batch).pow(2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

assert SLURMEnvironment.detect()
trainer = L.Trainer(accelerator="cpu", devices=2, num_nodes=2, strategy="ddp", max_epochs=1,
                    logger=False, enable_checkpointing=False, enable_progress_bar=False)
data = torch.utils.data.DataLoader(torch.ones(8, 1), batch_size=2)
trainer.fit(Line(), data)
if trainer.global_rank == 0:
    open("ranks.txt", "w").write(str(trainer.world_size))
""")
Path("fit.sh").write_text("""#!/bin/bash
#SBATCH -N2 --ntasks-per-node=2 --mem-per-cpu=900 -o fit.out
srun python fit.py
""")
os.environ["HEAD_ADDRESS"] = os.environ["MASTER_ADDR"] = "127.0.0.1"
for script, made, text in (("torchrun.sh", "sum.txt", "4 10"), ("fit.sh", "ranks.txt", "4")):
    done = subprocess.run(["sbatch", "-W", script], capture_output=True, text=True)
    said = Path(script).with_suffix(".out").read_text()
    assert done.returncode == 0, done.stderr + said
    assert Path(made).read_text() == text, said
print("torch", version("torch"), "lightning", version("lightning"), "ok")
