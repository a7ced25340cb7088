#!/bin/bash
# fsl_sub: its configuration from the partitions, a task, an array that waits for it, a hold of
# each array task for that of another array, a report, an account it does not know.
set -eu
fsl_sub_config slurm >fsl_sub.yml
export FSLSUB_CONF=$PWD/fsl_sub.yml
grep -A6 '^queues:' fsl_sub.yml | grep -q 'max_slots: 4'
sacctmgr -n --json show user "$USER" | python -c '
import json, sys
assert json.load(sys.stdin)["users"][0]["default"]["account"] == "science"'
printf 'echo a\necho b\necho c\n' >tasks
single=$(fsl_sub -N single -T 1 -R 1 -l logs echo hello)
array=$(fsl_sub -N array -j "$single" -l logs -t tasks)
held=$(fsl_sub -N held --project science --array_hold "$array" -x 2 -l logs -t tasks)
for _ in $(seq 120); do [ "$(fsl_sub_report "$held" | grep -c 'Job state: Finished')" = 3 ] && break; sleep 0.5; done
[ "$(fsl_sub_report "$held" | grep -c 'Job state: Finished')" = 3 ] || { fsl_sub_report "$held"; squeue; exit 1; }
grep -qx hello "logs/single.o$single"
[ "$(cat "logs/held.o$held".* | tr -d '\n')" = abc ]
fsl_sub --project unknown -l logs echo x 2>&1 | grep -q 'Project not recognised'
long=$(fsl_sub -N long -l logs sleep 600)
fsl_sub --delete_job "$long"
for _ in $(seq 60); do [ -z "$(squeue -h --me)" ] && break; sleep 0.5; done
fsl_sub_report "$long" | grep -q 'Job state: Failed'
echo "$(fsl_sub --version 2>&1 | head -1) ok"
