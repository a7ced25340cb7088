"""dask-mpi: a scheduler, a client and two workers are the four ranks of a step on two nodes."""

import subprocess
from importlib.metadata import version
from pathlib import Path

Path("ranks.py").write_text("""
import os

from dask.distributed import Client
from dask_mpi import initialize

initialize(nthreads=1, dashboard=False)
with Client() as client:
    client.wait_for_workers(2)
    places = client.run(lambda: os.environ["SLURMD_NODENAME"])
    total = sum(client.gather(client.map(lambda number: number**2, range(20))))
    open("total.txt", "w").write(f"{len(places)} {len(set(places.values()))} {total}")
""")
Path("job.sh").write_text(
    "#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=2 -m cyclic --mem-per-cpu=400 -o job.out\n"
    "srun --mpi=pmi2 python ranks.py\n"
)
done = subprocess.run(["sbatch", "-W", "job.sh"], capture_output=True, text=True, timeout=300)
said = Path("job.out").read_text()
assert done.returncode == 0, done.stderr + said
assert Path("total.txt").read_text() == "2 2 2470", said
print("dask-mpi", version("dask-mpi"), "ok")
