#!/bin/bash
# The launchers of Open MPI and MPICH: four ranks on two nodes, which have names of their own.
set -e
cat > ranks.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, sum, length;
    char host[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Get_processor_name(host, &length);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d on %s of sum %d\n", rank, host, sum);
    MPI_Finalize();
}
C
for kind in openmpi mpich; do
    mpicc.$kind ranks.c -o ranks.$kind
    launcher=mpiexec.$kind
    sbatch -W -N2 --ntasks-per-node=2 --mem-per-cpu=300 -o $kind.out --wrap "$launcher ./ranks.$kind"
    [ "$(grep -c 'of sum 6' $kind.out)" = 4 ]
    [ "$(grep -o 'on n[1-4]' $kind.out | sort | uniq -c | awk '{print $1}' | tr '\n' ' ')" = "2 2 " ]
done
echo "Open MPI $(ompi_info --version | sed -n '1s/.* v//p'), MPICH $(mpichversion | sed -n 's/MPICH Version:[[:space:]]*//p') ok"
