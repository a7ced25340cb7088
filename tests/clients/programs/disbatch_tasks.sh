# disBatch: tasks of a file over three nodes, one of which fails; nodes that are done leave the running job.
set -eu
for i in $(seq 11); do echo "echo \$SLURMD_NODENAME >task-$i; sleep 0.2"; done >tasks
echo 'echo $SLURMD_NODENAME >task-12; sleep 25' >>tasks
echo 'exit 3' >>tasks
number=$(sbatch --parsable -W -N 3 --ntasks-per-node 2 -o job.txt --wrap 'disBatch -l all -p here tasks')
[ "$(cat task-* | wc -l)" = 12 ]
[ "$(awk -F'\t' '/exit 3/ {print $7}' here_status.txt)" = 3 ]
[ "$(sacct -nXPo State -j "$number" | tail -1)" = COMPLETED ]
[ "$(sacct -nXPo NNodes -j "$number" | tail -1)" -lt 3 ]
grep -q 'Retiring n' here_all.context.log
[ "$(grep -ic error here_all.context.log)" = 0 ]
echo "disBatch $(python -c 'import importlib.metadata as m; print(m.version("disbatch"))') ok"
