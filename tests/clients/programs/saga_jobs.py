"""RADICAL-SAGA's Slurm adaptor: a job that ends, one that fails, one that is cancelled."""

import os
import time
from importlib.metadata import version
from pathlib import Path

import radical.saga as saga

service = saga.job.Service("slurm://localhost/")


def run(script):
    described = saga.job.Description()
    described.executable, described.arguments = "/bin/sh", ["-c", f"'{script}'"]
    described.output, described.error = "saga.out", "saga.err"
    described.working_directory, described.name = os.getcwd(), "saga"
    described.queue, described.wall_time_limit, described.total_cpu_count = "debug", 5, 2
    job = service.create_job(described)
    job.run()
    return job


well = run("echo name $SLURM_JOB_NAME")
well.wait()
assert (well.state, well.exit_code) == (saga.job.DONE, "0"), well.exit_code
assert Path("saga.out").read_text() == "name saga\n"
badly = run("exit 3")
badly.wait()
assert (badly.state, badly.exit_code) == (saga.job.FAILED, "3"), (badly.state, badly.exit_code)
long = run("sleep 600")
while long.state != saga.job.RUNNING:
    time.sleep(1)
assert long.id in service.list() and "n" in str(long.execution_hosts) and long.started
long.cancel()
long.wait()
assert long.state == saga.job.CANCELED, long.state
service.close()
print("radical.saga", version("radical.saga"), "ok")
