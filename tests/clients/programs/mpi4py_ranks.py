"""mpi4py with the MPICH of PyPI under srun --mpi=pmi2: sums, messages, a broadcast of objects."""

import subprocess
import sys
from pathlib import Path

Path("ranks.py").write_text("""
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
assert world.allreduce(rank + 1) == size * (size + 1) // 2
assert world.sendrecv(rank, (rank + 1) % size, source=(rank - 1) % size) == (rank - 1) % size
assert world.bcast({"from": rank} if rank == 0 else None) == {"from": 0}
names = world.gather(MPI.Get_processor_name())
if rank == 0:
    open("size.txt", "w").write(f"{size} {len(names)}")
""")
subprocess.run(["srun", "-N2", "-n4", "--mpi=pmi2", sys.executable, "ranks.py"], check=True)
assert Path("size.txt").read_text() == "4 4"
print("ok")
