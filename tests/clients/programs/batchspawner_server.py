"""JupyterHub's SlurmSpawner: its script, its query of a job, and its end."""

import asyncio
import getpass
import os
from importlib.metadata import version
from types import SimpleNamespace

from batchspawner import JobStatus, SlurmSpawner
from traitlets import Unicode


class OwnSpawner(SlurmSpawner):
    """Without sudo and without a hub: the server of one user."""

    exec_prefix = Unicode("")


async def main():
    spawner = OwnSpawner()
    spawner.user = SimpleNamespace(name=getpass.getuser(), url="")
    words = {
        "homedir": os.getcwd(), "keepvars": "PATH", "partition": "debug", "runtime": "5",
        "memory": "100", "nprocs": "2", "srun": "srun", "cmd": "sleep 600", "prologue": "",
        "epilogue": "", "options": "", "gres": "", "reservation": "", "cluster": "", "qos": "",
    }  # fmt: skip
    spawner.get_req_subvars = lambda: dict(words)
    spawner._req_keepvars_default = lambda: "PATH"
    spawner.cmd = ["sleep", "600"]
    spawner.get_args = list
    spawner.get_env = lambda: dict(os.environ)
    spawner.server_url = ""
    await spawner.submit_batch_script()
    assert spawner.job_id.isdigit(), spawner.job_id
    for _ in range(60):
        status = await spawner.query_job_status()
        if status == JobStatus.RUNNING:
            break
        await asyncio.sleep(0.5)
    assert status == JobStatus.RUNNING, status
    assert spawner.state_gethost().startswith("n")
    await spawner.cancel_batch_job()
    for _ in range(60):
        if await spawner.query_job_status() == JobStatus.NOTFOUND:
            break
        await asyncio.sleep(0.5)
    assert await spawner.query_job_status() == JobStatus.NOTFOUND
    print("batchspawner", version("batchspawner"), "ok")


asyncio.run(main())
