"""ReFrame: its slurm and squeue schedulers, with the srun launcher."""

import subprocess
from importlib.metadata import version
from pathlib import Path

Path("settings.py").write_text("""
site_configuration = {
    "systems": [{
        "name": "demo", "hostnames": [".*"],
        "partitions": [
            {"name": name, "scheduler": name, "launcher": "srun", "environs": ["builtin"],
             "access": ["-p debug", "-A science"], "max_jobs": 4}
            for name in ("slurm", "squeue")
        ],
    }],
    "environments": [{"name": "builtin"}],
}
""")
Path("checks.py").write_text("""
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Tasks(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sh"
    executable_opts = ["-c", "'echo task $SLURM_PROCID of $SLURM_NTASKS'"]
    num_tasks = 4
    num_tasks_per_node = 2
    time_limit = "5m"

    @sanity_function
    def all_ran(self):
        return sn.assert_eq(sn.count(sn.findall(r"task [0-3] of 4", self.stdout)), 4)
""")
done = subprocess.run(
    ["reframe", "-C", "settings.py", "-c", "checks.py", "-r"], capture_output=True, text=True
)
assert done.returncode == 0, done.stdout + done.stderr
print("reframe", version("reframe-hpc"), "ok")
