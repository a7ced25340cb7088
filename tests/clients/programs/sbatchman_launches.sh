#!/bin/bash
# SbatchMan: a configuration, a batch of launches from a file, one failure; states by sacct.
set -eu
export COLUMNS=200
sbatchman set-cluster-name ours >/dev/null
sbatchman init . >/dev/null
cat >configs.yaml <<'CONF'
ours:
  scheduler: slurm
  configs:
    - {name: small, ntasks: "1", cpus_per_task: 1, mem: 100M, time: "00:05:00"}
CONF
sbatchman configure --file configs.yaml
sbatchman launch --config small --tag good 'echo fine'
sbatchman launch --config small --tag bad 'exit 3'
cat >states.py <<'PROGRAM'
import time

import sbatchman

for _ in range(120):
    sbatchman.update_jobs_status()
    jobs = {job.tag: job for job in sbatchman.jobs_list()}
    if {job.status for job in jobs.values()} <= {"COMPLETED", "FAILED"}:
        break
    time.sleep(0.5)
assert {tag: job.status for tag, job in jobs.items()} == {"good": "COMPLETED", "bad": "FAILED"}
assert jobs["good"].get_stdout() == "fine\n"
PROGRAM
python states.py
echo "$(sbatchman --version) ok"
