#!/bin/bash
# MyQueue: tasks that end well, fail, depend on others and are removed; states by files and squeue.
set -eu
mq init >/dev/null
trap 'mq daemon stop' EXIT
mq config slurm >proposed.py
grep -q "('debug', {'cores': 4, 'memory': '4000M'})" proposed.py
# MyQueue drops the news of a task that starts before `mq submit` has written its number down.
sed "s/^    'scheduler'.*/&\n    'extra_args': ['--hold'],/" proposed.py >.myqueue/config.py
echo 'print(6 * 7)' >answer.py
echo 'raise SystemExit(3)' >fails.py
echo 'import time; time.sleep(600)' >sleeps.py
mq submit -R 1:1m answer.py
mq submit -R 1:1m -d answer.py -n second answer.py
mq submit -R 1:1m fails.py
mq submit -R 1:1m -d fails.py -n third answer.py
mq submit -R s:2:1m sleeps.py
scontrol release $(squeue -h --me -o %i)

shows() {  # COUNT of tasks in STATE, within a minute
    for _ in $(seq 120); do
        [ "$(mq ls -s "$1" -c ins 2>/dev/null | grep -c "$2")" = "$3" ] && return
        sleep 0.5
    done
    echo "not $3 tasks $2" >&2; mq ls >&2; squeue >&2; exit 1
}
shows d done 3  # two rows, and the line of counts
shows F FAILED 2
shows C CANCELED 2
shows r running 2
grep -qx 42 answer.py.*.out
mq rm -s r .
shows r running 0
for _ in $(seq 40); do [ -z "$(squeue -h --me -t R,CG)" ] && break; sleep 0.25; done
[ -z "$(squeue -h --me -t R,CG)" ]
scancel --me  # the task whose dependency failed waits on in Slurm
echo "$(mq --version) ok"
