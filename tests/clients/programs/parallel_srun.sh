#!/bin/bash
# GNU parallel within one job: it keeps 4 steps of one task running until 12 are done.
set -e
cat > job.sh <<'JOB'
#!/bin/bash
#SBATCH -n4 --mem-per-cpu=100 -o parallel-%j.out
parallel -j "$SLURM_NTASKS" --joblog steps.log --delay 0.1 srun -N1 -n1 --exact --mem=100 sh -c "'echo step {} on \$SLURM_STEP_ID'" ::: $(seq 12)
JOB
sbatch -W job.sh
[ "$(grep -c '^step' parallel-*.out)" = 12 ]
[ "$(awk 'NR>1 && $7==0' steps.log | wc -l)" = 12 ]
sacct -n -X -o State | grep -q COMPLETED
echo "GNU parallel $(parallel --version | sed -n '1s/.* //p') ok"
