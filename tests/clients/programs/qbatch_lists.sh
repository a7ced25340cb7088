#!/bin/bash
# qbatch: a list of commands in chunks as an array, and a list that waits for it by its name.
set -eu
export QBATCH_SYSTEM=slurm
seq 6 | sed 's/^/echo line /' >commands
qbatch -c 2 -j 2 -w 00:02:00 -N lines commands
printf 'echo after %s\n' 1 2 | qbatch -N after --depend lines -
for _ in $(seq 120); do [ -z "$(squeue -h --me)" ] && break; sleep 0.5; done
[ "$(cat logs/slurm-lines-*_*.out | grep -o 'line [1-6]$' | sort -u | wc -l)" = 6 ]
[ "$(cat logs/slurm-after-*_*.out | grep -o 'after [12]$' | sort -u | wc -l)" = 2 ]
ended=$(sacct -XnP -o End --name lines | sort | tail -1)
began=$(sacct -XnP -o Start --name after | sort | tail -1)
[ ! "$began" \< "$ended" ]
echo "$(qbatch --version) ok"
