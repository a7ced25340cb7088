# Troika of ECMWF: its directives become options; submit, monitor, kill.
set -eu
cat >troika.yml <<END
sites:
  here: {type: slurm, connection: local, pre_submit: ["create_output_dir"]}
END
cat >job.sh <<'END'
#!/bin/bash
# troika job_name=troika
# troika total_tasks=2
# troika walltime=00:10:00
srun hostname
sleep 300
END
run() { troika -c troika.yml "$1" -u "$USER" -o "$PWD/out/job.out" here "$PWD/job.sh"; }
run submit
number=$(cat job.sh.jid)
[ "$(sacct -nXPo JobName,ReqCPUS,Timelimit -j "$number")" = "troika|2|00:10:00" ]
until [ "$(grep -c . out/job.out 2>/dev/null)" = 2 ]; do sleep 0.5; done
run monitor
grep -q "$number" job.sh.stat
run kill
until grep -q CANCELLED out/job.out; do sleep 0.5; done
echo "troika $(python -c 'import importlib.metadata as m; print(m.version("troika"))') ok"
