#!/bin/bash
# Bring up a cluster of four pretended nodes, run real batch scripts, check what they did.
# usage: demo/run.sh [DIRECTORY]   (default: a fresh one, removed at the end)
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if [ $# -gt 0 ]; then mkdir -p "$1"; work=$(cd "$1" && pwd); keep=yes
else work=$(mktemp -d "${TMPDIR:-/tmp}/pyslurm-ng-demo.XXXXXX"); keep=no; fi
chmod 755 "$work"
bin=$("$here/../scripts/open_programs.sh" "$here/../.venv/bin/python" "$work/programs") || exit 1
cluster=$work/cluster
failures=0

say() { printf '\n== %s\n' "$*"; }
bad() { echo "demo: FAILED: $*" >&2; failures=$((failures + 1)); }
expect() { # expect WHAT WANTED FOUND
    if [ "$2" = "$3" ]; then echo "ok: $1"; else bad "$1: wanted '$2', found '$3'"; fi
}
finish() {
    "$bin/pyslurm-ng" down --dir "$cluster" >/dev/null 2>&1
    rm -f /tmp/pyslurm-ng-demo-*.pid
    rm -rf "$work/programs"
    if [ "$keep" = no ] && [ "$failures" = 0 ]; then rm -rf "$work"; else echo "files are in $work"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

say "pyslurm-ng up"
"$bin/pyslurm-ng" up --dir "$cluster" --nodes 4 --cpus 4 --memory 2048 --gpus 2 || exit 1
. "$cluster/env.sh"
export PYSLURM_COMMAND_SERVER=0 # nothing runs on after the demo
mkdir -p "$work/jobs/squares"
cd "$work/jobs" || exit 1
sinfo

# Wait until none of our jobs is left, showing the queue while they run.
drain() { # drain SECONDS
    local end=$((SECONDS + $1)) shown=$SECONDS left
    while left=$(squeue -h -o %i | wc -l) && [ "$left" != 0 ]; do
        [ $SECONDS -lt $end ] || { bad "$left jobs still there after $1 s"; squeue; return 1; }
        if [ $((SECONDS - shown)) -ge 2 ]; then shown=$SECONDS; squeue | head -n 12; fi
        sleep 0.2
    done
}
state() { sacct -X -n -P -j "$1" -o State,ExitCode; }
# Accounting follows the journal; give it a moment to have read the ends.
settled() { # settled JOBS: no job of the list without an end
    local end=$((SECONDS + 20))
    while [ $SECONDS -lt $end ] && sacct -X -n -P -j "$1" -o End | grep -q Unknown; do sleep 0.2; done
}

say "a multi-node training-style script"
train=$(sbatch --parsable "$here/train.sh") || bad "sbatch train.sh"

say "an array of 100, eight at a time, and a job that collects its results"
array=$(sbatch --parsable "$here/array.sh") || bad "sbatch array.sh"
collect=$(sbatch --parsable --dependency=afterok:"$array" "$here/collect.sh") || bad "sbatch collect.sh"

say "a pipeline of 20 jobs, of which the 13th fails and the 14th repairs"
stages=()
for stage in $(seq 20); do
    after=afterok
    [ "$stage" = 14 ] && after=afternotok
    dependency=()
    [ "$stage" = 1 ] || dependency=(--dependency="$after:${stages[-1]}")
    id=$(STAGE=$stage BROKEN_STAGE=13 sbatch --parsable -J "stage-$stage" "${dependency[@]}" "$here/stage.sh") ||
        bad "sbatch stage $stage"
    stages+=("$id")
done
squeue | head -n 12
drain 180
settled "$train,$array,$collect,$(IFS=,; echo "${stages[*]}")"

say "what the training job wrote"
cat "train-$train.out"
expect "training job" "COMPLETED|0:0" "$(state "$train")"
expect "task count" "8 ranks on n[1-4]" "$(sed -n 's/^job [0-9]*: \(.*\), meeting.*/\1/p' "train-$train.out")"
expect "ranks" "0 1 2 3 4 5 6 7" "$(sed -n 's/.*rank \([0-9]*\) of 8 .*/\1/p' "train-$train.out" | sort -n | xargs)"
expect "nodes" "n1 n2 n3 n4" "$(sed -n 's/.*data ready on \(.*\)/\1/p' "train-$train.out" | sort | xargs)"
expect "GPUs each rank sees" "8 gpus 0,1" "$(grep -o 'gpus 0,1' "train-$train.out" | sort | uniq -c | xargs)"
expect "meeting point" "8 master n1" "$(grep -o 'master .*' "train-$train.out" | sort | uniq -c | xargs)"
expect "array" "100 COMPLETED|0:0" "$(state "$array" | sort | uniq -c | xargs)"
expect "collected" "100 results, sum 338350" "$(cat collect.out)"
expect "pipeline's order" "$(seq 20 | xargs)" "$(sed -n 's/^stage //p' pipeline.out | xargs)"
expect "stage 13" "FAILED|3:0" "$(state "${stages[12]}")"
expect "stage 20" "COMPLETED|0:0" "$(state "${stages[19]}")"

as_user() { # as_user USER COMMAND...
    local user=$1
    shift
    setpriv --reuid "$user" --regid "$(id -gn "$user")" --clear-groups --inh-caps=-all -- "$@"
}
if [ "$(id -u)" = 0 ]; then
    say "two users whose files and processes are kept apart"
    users=(nobody games)
    for number in 0 1; do
        user=${users[$number]}
        install -d -m 700 -o "$user" -g "$(id -gn "$user")" "$work/jobs/$user"
    done
    cp "$here/private.sh" "$work/jobs/" && chmod 755 "$work/jobs/private.sh"
    for number in 0 1; do
        user=${users[$number]} other=${users[$((1 - number))]}
        ( cd "$work/jobs/$user" 2>/dev/null || cd /
          OTHER_USER=$other OTHER_DIR=$work/jobs/$other as_user "$user" \
              sbatch -D "$work/jobs/$user" "$work/jobs/private.sh" ) || bad "sbatch as $user"
    done
    drain 60
    for user in "${users[@]}"; do
        cat "$work/jobs/$user/private-$user.out"
        expect "$user" "I am $user file kept apart process kept apart" "$(xargs <"$work/jobs/$user/private-$user.out")"
        if kill -0 "$(cat "/tmp/pyslurm-ng-demo-$user.pid")" 2>/dev/null; then
            bad "the process $user left behind is still there"
        fi
    done
else
    say "two users: skipped, it takes root"
fi

say "sacct"
sacct -X -o JobID%14,JobName%10,User,State%12,ExitCode,Elapsed,NodeList | sed -n '1,12p;$p'

say "pyslurm-ng down"
"$bin/pyslurm-ng" down --dir "$cluster"
if [ "$failures" != 0 ]; then echo "demo: $failures failures" >&2; exit 1; fi
echo "demo: everything as it should be"
