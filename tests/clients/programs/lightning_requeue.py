"""A job that Lightning requeues when USR1 comes, and that goes on where it was."""

import subprocess
import time
from importlib.metadata import version
from pathlib import Path

# Each start writes the step it begins with; the first one is told to stop by USR1.
Path("requeued.py").write_text("""
import os
import time

import lightning as L
import torch

class Line(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch, _):
        with open("steps.txt", "a") as steps:
            steps.write(f"{os.environ.get('SLURM_RESTART_COUNT', 0)} {self.global_step}\\n")
        time.sleep(0.5 if "SLURM_RESTART_COUNT" not in os.environ else 0)
        return self.layer(batch).pow(2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

data = torch.utils.data.DataLoader(torch.ones(400, 1), batch_size=2)
L.Trainer(accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_progress_bar=False).fit(
    Line(), data
)
""")
Path("requeued.sh").write_text(
    "#!/bin/bash\n#SBATCH --requeue --signal=USR1@60 --mem=900 -o requeued.out --open-mode=append\n"
    "srun python requeued.py\n"
)
job_id = subprocess.check_output(["sbatch", "--parsable", "requeued.sh"], text=True).strip()
steps, until = Path("steps.txt"), time.monotonic() + 560
while not steps.exists() or len(steps.read_text().splitlines()) < 4:
    assert time.monotonic() < until, Path("requeued.out").read_text()
    time.sleep(0.2)
subprocess.run(["scancel", "--signal=USR1", job_id], check=True)
asked = ["sacct", "-XnP", "-j", job_id, "-o", "State"]
while (state := subprocess.check_output(asked, text=True).strip()) in (
    "RUNNING", "REQUEUED", "PENDING", "COMPLETING",
):  # fmt: skip
    assert time.monotonic() < until, (state, Path("requeued.out").read_text())
    time.sleep(1)
lines = [line.split() for line in steps.read_text().splitlines()]
again = [int(step) for restart, step in lines if restart == "1"]
assert state == "COMPLETED", Path("requeued.out").read_text()
assert again[0] > 0 and again[-1] == 199, lines
print("lightning", version("lightning"), "ok")
