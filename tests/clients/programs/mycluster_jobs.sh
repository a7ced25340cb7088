# MyCluster: queues, a job made from its template, one that waits for it, details, cancel.
set -eu
run() { mycluster --silent "$@"; }
[ "$(python -c 'import mycluster as m; print(m.detect_scheduling_sys().name())')" = cluster ]
run queues | grep -Eq '^debug +\| +4 +\| +4 +\| +4000 +\| +4 +\|'
cat >work.sh <<'END'
srun bash -c 'echo task $SLURM_PROCID of $NUM_TASKS on $SLURMD_NODENAME'
sleep ${LONG:-1}
END
run --email games@localhost create job.slurm debug work.sh -j mine -n 6 -tpn 3 -p science -q normal --maxtime 0:10:00
number() { sed -n "s/^Job submitted with ID '\([0-9]*\)'$/\1/p"; }
first=$(run submit job.slurm | number)
LONG=300 run submit job.slurm --depends "$first" >second
second=$(number <second)
run list | grep -Eq "^ *$second +\| +mine +\| +debug +\| +(PD|R|CG) "
until run details "$first" | grep -q "'status': 'COMPLETED'.*'step': 'batch'.*'step': '0'"; do sleep 1; done
[ "$(grep -c '^task . of 6 on n' "mine.out.$first")" = 6 ]
until run list | grep -Eq "^ *$second .* R "; do sleep 1; done
run cancel "$second"
until run details "$second" | grep -q "'status': 'CANCELLED"; do sleep 1; done
echo "MyCluster $(python -c 'import importlib.metadata as m; print(m.version("mycluster"))') ok"
