# JADE (NREL): four commands in two batches, each a job that sees to the rest; one command fails.
set -eu
for number in 1 2 3 4; do echo "bash -c 'sleep 1; [ $number != 3 ]'"; done >commands.txt
jade config create commands.txt -c config.json
jade config hpc -t slurm -w 0:10:00 -p debug -a science -c hpc.toml
jade submit-jobs config.json -h hpc.toml -o output -p 1 -b 2
for _ in $(seq 150); do grep -q 'Num successful' output/results.txt 2>/dev/null && break; sleep 1; done
for _ in $(seq 60); do [ -z "$(squeue -h -n job_batch_1,job_batch_2)" ] && break; sleep 1; done
grep -q 'Num successful: 3' output/results.txt
grep -q 'Num failed: 1' output/results.txt
states=$(sacct -nXPo State,Account --name job_batch_1,job_batch_2 | sort -u)
[ "$states" = "COMPLETED|science" ]
echo "JADE $(python -c 'import importlib.metadata as m; print(m.version("nrel-jade"))') ok"
