"""What the forms of JupyterHub's MOSlurmSpawner and SlurmFormSpawner read of a cluster."""

import asyncio
import os
from importlib.metadata import version
from types import SimpleNamespace

from jupyterhub_moss import MOSlurmSpawner
from slurmformspawner.slurm import SlurmAPI
from traitlets import Unicode


class OwnSpawner(MOSlurmSpawner):
    """Without sudo and without a hub."""

    exec_prefix = Unicode("")


async def partition():
    spawner = OwnSpawner(partitions={"debug": {
        "description": "all nodes", "max_nprocs": 4, "max_runtime": 3600, "simple": True,
        "jupyter_environments": {"own": {"path": "/bin", "description": "own"}},
    }})  # fmt: skip
    spawner.user = SimpleNamespace(name=os.environ["USER"], url="")
    spawner.get_env = lambda: dict(os.environ)
    return (await spawner._get_partitions_info())["debug"]


form = SlurmAPI()
assert form.is_online() and form.get_cpus() == [4] and form.get_mems() == [4000]
assert form.get_partitions() == ["debug"] and form.get_gres() == ["gpu:0"]
assert "science" in form.get_accounts(os.environ["USER"])
assert form.get_active_reservations(os.environ["USER"], ["science"]) == []
shown = asyncio.run(partition())
print(shown)
assert (shown.nnodes_total, shown.ncores_total, shown.max_mem, shown.max_nprocs) == (4, 16, 4000, 4)
print("jupyterhub_moss", version("jupyterhub_moss"), "slurmformspawner",
      version("slurmformspawner"), "ok")  # fmt: skip
