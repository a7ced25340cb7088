#!/bin/bash
#SBATCH --ntasks=1
#SBATCH --time=5
#SBATCH --output=private-%u.out

# Each user's job keeps a secret and a process, and looks for the other's.
umask 077
echo "secret of $SLURM_JOB_USER" > secret
sleep 600 &
# The other must see it whole and readable, or not at all.
mine=/tmp/pyslurm-ng-demo-$SLURM_JOB_USER.pid
echo $! > "$mine.new"
chmod 644 "$mine.new"
mv "$mine.new" "$mine"
echo "I am $(id -un)"
for _ in $(seq 100); do
    [ -s "/tmp/pyslurm-ng-demo-$OTHER_USER.pid" ] && break
    sleep 0.1
done
if cat "$OTHER_DIR/secret" 2>/dev/null; then echo "read the other's file"; else echo "file kept apart"; fi
if kill -9 "$(cat "/tmp/pyslurm-ng-demo-$OTHER_USER.pid")" 2>/dev/null; then
    echo "killed the other's process"
else
    echo "process kept apart"
fi
