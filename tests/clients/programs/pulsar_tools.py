"""Pulsar, which runs Galaxy's tools at a site: two as jobs by its command line, one is killed."""

import os
import time
from importlib.metadata import version

from pulsar.core import PulsarApp
from pulsar.manager_endpoint_util import full_status, submit_job

HERE = os.getcwd()
MANAGER = {"type": "queued_cli", "job_plugin": "Slurm", "job_time": "5", "job_ncpus": "2"}


def submit(manager, name: str, command: str) -> None:
    """Set a tool up and launch it."""
    submit_job(
        manager,
        {"job_id": name, "setup": True, "setup_params": {"job_id": name}, "command_line": command},
    )


def wait_for(manager, name: str, state: str) -> None:
    """Wait until a tool's job has a state."""
    for _ in range(240):
        if (now := manager.get_status(name)) == state:
            return
        time.sleep(0.5)
    raise AssertionError((name, now, state))


if __name__ == "__main__":
    app = PulsarApp(
        staging_directory=f"{HERE}/staging",
        persistence_directory=f"{HERE}/persisted",
        tool_dependency_dir="none",
        managers={"_default_": MANAGER},
    )
    manager = app.only_manager
    submit(manager, "ends", "echo $SLURM_JOB_NAME has $SLURM_CPUS_PER_TASK CPUs")
    submit(manager, "fails", "echo badly >&2; (exit 3)")
    submit(manager, "waits", "sleep 300")
    wait_for(manager, "waits", "running")
    wait_for(manager, "ends", "complete")
    wait_for(manager, "fails", "complete")
    ended, failed = (full_status(manager, "complete", name) for name in ("ends", "fails"))
    assert ended["returncode"] == 0 and "pulsar_ends has 2 CPUs" in ended["job_stdout"], ended
    assert failed["returncode"] == 3 and "badly" in failed["stderr"] + failed["job_stderr"], failed
    manager.kill("waits")
    while os.popen("squeue -hu $USER").read():
        time.sleep(0.5)
    app.shutdown()
    print("pulsar-app", version("pulsar-app"), "ok")
