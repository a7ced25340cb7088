# datalad-slurm: a job and an array are scheduled in a data set, saved when they have ended; one fails.
set -e
export GIT_AUTHOR_NAME=a GIT_COMMITTER_NAME=a GIT_AUTHOR_EMAIL=a@localhost GIT_COMMITTER_EMAIL=a@localhost
git config --global user.name a
git config --global user.email a@localhost

datalad -l error create data > created
cd data
mkdir one many bad
printf '#!/bin/bash\n#SBATCH -o one/log.slurm-%%j.out\necho one > one/result\n' > one.sh
printf '#!/bin/bash\n#SBATCH -a 1-3 -o many/log.slurm-%%A_%%a.out\necho $SLURM_ARRAY_TASK_ID > many/$SLURM_ARRAY_TASK_ID\n' \
    > many.sh
printf '#!/bin/bash\n#SBATCH -o bad/log.slurm-%%j.out\nexit 3\n' > bad.sh
datalad -l error save -m scripts > /dev/null
for name in one many bad; do datalad -l error slurm-schedule -o $name/ sbatch $name.sh; done

for _ in $(seq 120); do
    datalad -l error slurm-finish --list-open-jobs > open 2>&1
    grep -qE 'PENDING|RUNNING|COMPLETING' open || break
    sleep 1
done
[ "$(grep -c COMPLETED open)" = 2 ] && grep -q FAILED open || { cat open; exit 1; }
datalad -l error slurm-finish > finished 2>&1 || true
[ "$(git log --format=%s | grep -c 'DATALAD SLURM RUN')" = 2 ] || { cat finished; git log; exit 1; }
git ls-files one many | sort > saved
grep -q '^many/3$' saved && grep -q '^one/result$' saved || { cat saved; exit 1; }
[ "$(grep -c 'env.json$' saved)" -ge 2 ] || { cat saved; exit 1; }
datalad -l error slurm-finish --close-failed-jobs > closed 2>&1
python -c 'from importlib.metadata import version; print("datalad-slurm", version("datalad-slurm"), "ok")'
