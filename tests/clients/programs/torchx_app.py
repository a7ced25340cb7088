"""TorchX's Slurm scheduler: an app of two replicas (a hetjob), one that fails, one cancelled."""

import os
import subprocess
import time
from importlib.metadata import version

from torchx.runner import get_runner
from torchx.specs import AppDef, AppState, Resource, Role
from torchx.specs.api import macros

HERE = os.getcwd()


def app(name, script):
    resource = Resource(cpu=1, gpu=0, memMB=200)
    replica = Role("rank", image=HERE, entrypoint="sh", args=["-c", script, macros.replica_id],
               num_replicas=2, resource=resource)  # fmt: skip
    return AppDef(name, roles=[replica])


with get_runner() as runner:

    def submitted(name, script):
        os.makedirs(name)
        return runner.run(app(name, script), "slurm", {"job_dir": f"{HERE}/{name}", "time": "5"})

    well = submitted("well", "echo replica $0 of $TORCHX_JOB_ID >&2")
    status = runner.wait(well, wait_interval=1)
    assert status.state == AppState.SUCCEEDED, status
    job_id = well.rpartition("/")[2]
    for number in (0, 1):
        lines = list(runner.log_lines(well, "rank", number))
        assert lines == [f"replica {number} of slurm://torchx/{job_id}\n"], lines
    badly = runner.wait(submitted("badly", "exit $0"), wait_interval=1)
    assert badly.state == AppState.FAILED and len(badly.roles[0].replicas) == 2, badly
    long = submitted("long", "sleep 600")
    while runner.status(long).state != AppState.RUNNING:
        time.sleep(1)
    runner.cancel(long)
    queue = ["squeue", "-h", "-j", long.rpartition("/")[2]]
    while subprocess.run(queue, capture_output=True, text=True).stdout:
        time.sleep(1)
print("torchx", version("torchx"), "ok")
