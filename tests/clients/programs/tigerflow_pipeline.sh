#!/bin/bash
# TigerFlow: a pipeline whose workers are jobs that a job starts by dask-jobqueue; stopped at the end.
set -eu
mkdir in out
for number in 1 2 3; do echo "text $number" >in/$number.txt; done
cat >upper.py <<'TASK'
from tigerflow.tasks import SlurmTask


class Upper(SlurmTask):
    @staticmethod
    def run(context, input_file, output_file):
        output_file.write_text(input_file.read_text().upper())


Upper.cli()
TASK
cat >pipeline.yaml <<'CONF'
tasks:
  - name: upper
    kind: slurm
    module: ./upper.py
    input_ext: .txt
    output_ext: .out
    max_workers: 2
    worker_resources: {cpus: 1, memory: 500M, time: "00:10:00"}
CONF
timeout 200 tigerflow run pipeline.yaml in out >run.log 2>&1 &
for _ in $(seq 300); do [ "$(ls out/upper 2>/dev/null | wc -l)" = 3 ] && break; sleep 0.5; done
grep -qx 'TEXT 2' out/upper/2.out || { cat run.log; squeue --me; exit 1; }
tigerflow stop out
wait
for _ in $(seq 60); do [ -z "$(squeue -h --me)" ] && break; sleep 0.5; done
[ -z "$(squeue -h --me)" ]
grep -q 'Status changed: ACTIVE (0 workers) -> ACTIVE ([12] workers)' run.log
echo "$(tigerflow --version) ok"
