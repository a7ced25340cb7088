"""Hydra's submitit launcher: a sweep of three values as one array."""

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

Path("app.py").write_text("""
import hydra

@hydra.main(version_base=None, config_path=None)
def main(cfg):
    open(f"/tmp/hydra-{cfg.run}-{cfg.x}", "w").write(str(cfg.x * 2))

main()
""")
run = os.path.basename(tempfile.mkdtemp(prefix="h"))
done = subprocess.run(
    [
        sys.executable,
        "app.py",
        "--multirun",
        "hydra/launcher=submitit_slurm",
        f"+run={run}",
        "+x=1,2,3",
        "hydra.launcher.timeout_min=5",
        "hydra.launcher.mem_gb=1",
        "hydra.launcher.cpus_per_task=1",
        "hydra.launcher.partition=debug",
    ],
    capture_output=True,
    text=True,
)
assert done.returncode == 0, done.stdout + done.stderr
assert [Path(f"/tmp/hydra-{run}-{x}").read_text() for x in (1, 2, 3)] == ["2", "4", "6"]
print("hydra-submitit-launcher", version("hydra-submitit-launcher"), "ok")
