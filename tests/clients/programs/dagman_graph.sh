#!/bin/bash
# SlurmDagman: a graph in HTCondor's form, which a process on the login node works through.
set -eu
for name in a b c; do printf '#!/bin/bash\n#SBATCH -o %s.out\necho %s\n' $name $name >$name.sh; done
printf 'JOB A a.sh\nJOB B b.sh\nJOB C c.sh\nPARENT A CHILD B C\n' >graph.dag
slurm_submit_dag --sleep-time 1 graph.dag
for _ in $(seq 120); do grep -qs 'DAG completed' graph.dag.slurm_dagman.out && break; sleep 0.5; done
grep -q 'DAG completed successfully' graph.dag.slurm_dagman.out || { tail -n 40 graph.dag.slurm*; squeue; exit 1; }
[ "$(cat a.out b.out c.out | tr -d '\n')" = abc ]
echo "$(python -c 'from importlib.metadata import version; print(version("SlurmDagman"))') ok"
