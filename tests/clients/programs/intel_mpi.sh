# Intel MPI: ranks by srun --mpi=pmi2, and by its own mpiexec, whose variables sbatch has set.
set -e

cat > ranks.py <<'END'
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
assert MPI.Get_library_version().startswith("Intel(R) MPI Library"), MPI.Get_library_version()
assert world.allreduce(rank + 1) == size * (size + 1) // 2
assert world.sendrecv(rank, (rank + 1) % size, source=(rank - 1) % size) == (rank - 1) % size
names = world.gather(MPI.Get_processor_name())
if rank == 0:
    print("ranks on", len(set(names)), "nodes:", size)
END
cat > job.sh <<'END'
#!/bin/bash
#SBATCH -N2 --ntasks-per-node=2 --mem-per-cpu=400 -o job.out
set -e
[ "$I_MPI_HYDRA_BOOTSTRAP" = slurm ]
srun --mpi=pmi2 python ranks.py
mpiexec.hydra -n 4 python ranks.py
mpiexec.hydra -ppn 1 -n 2 python ranks.py
# A rank that fails ends all of them, and mpiexec fails with them.
if mpiexec.hydra -n 4 python -c "
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 3:
    MPI.COMM_WORLD.Abort(7)
MPI.COMM_WORLD.barrier()
"; then exit 1; fi
END
sbatch -W job.sh > submitted || { cat job.out; exit 1; }
[ "$(grep -c '^ranks on 2 nodes: 4$' job.out)" = 2 ] || { cat job.out; exit 1; }
grep -q '^ranks on 2 nodes: 2$' job.out || { cat job.out; exit 1; }
# No step is left, and each of its own has ended well.
squeue -h -s -u "$USER" > left
[ ! -s left ] || { cat left; exit 1; }
python -c 'from importlib.metadata import version; print("impi-rt", version("impi-rt"), "ok")'
