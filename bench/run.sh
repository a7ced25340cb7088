#!/bin/bash
# Run every benchmark on a fresh cluster of four pretended nodes: bench/run.sh [--json]
# PEER_ENV names the environment of a Slurm to measure beside it: bench/peer.sh up writes one.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/pyslurm-ng-bench.XXXXXX")
trap '.venv/bin/pyslurm-ng down --dir "$work" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

peer=()
if [ -n "${PEER_ENV:-}" ]; then peer=(--peer-env "$PEER_ENV"); fi
printf 'MaxJobCount=300000\nMaxArraySize=200001\n' >"$work.conf"
.venv/bin/pyslurm-ng up --dir "$work" --nodes 4 --cpus 16 --memory 8192 --conf "$work.conf"
rm -f "$work.conf"
. "$work/env.sh"
printf 'machine: %s, load %s, %s\n' "$(nproc) cores" "$(cut -d' ' -f1 /proc/loadavg)" "$(uname -r)"
for program in cli_latency sbatch_rate srun_latency throughput submit_rate queue_10000 front wire_rate sched_pass sim_speed replay_speed loop_latency reuse_latency kill_rounds; do
    if [ -e "bench/$program.py" ]; then .venv/bin/python "bench/$program.py" "${peer[@]}" "$@"; fi
done
