#!/bin/bash
# StepUp Queue: two jobs as steps of a build; one fails, and the next build submits only that one.
set -eu
export STEPUP_SBATCH_POLLING_MIN=1 STEPUP_SBATCH_POLLING_MAX=1 STEPUP_SBATCH_CACHE_TIMEOUT=1
mkdir good bad
printf '#!/usr/bin/env bash\n#SBATCH --time=5\necho job $SLURM_JOB_ID\n' >good/slurmjob.sh
printf '#!/usr/bin/env bash\n#SBATCH --time=5\nexit 3\n' >bad/slurmjob.sh
cat >plan.py <<'PLAN'
#!/usr/bin/env python3
from stepup.core.api import static
from stepup.queue.api import sbatch

static("good/slurmjob.sh", "bad/slurmjob.sh")
sbatch("good/", onchange="resubmit")
sbatch("bad/", onchange="resubmit")
PLAN
chmod +x plan.py */slurmjob.sh
timeout 120 stepup build -k -j2 >first.log 2>&1 && { cat first.log; exit 1; }
grep -q COMPLETED good/slurmjob.log || { cat first.log */slurmjob.log; exit 1; }
grep -q FAILED bad/slurmjob.log
job=$(cat good/slurmjob.out)
printf '#!/usr/bin/env bash\n#SBATCH --time=5\necho mended\n' >bad/slurmjob.sh
timeout 120 stepup build -j2 >second.log 2>&1 || { cat second.log */slurmjob.log; exit 1; }
grep -qx mended bad/slurmjob.out
[ "$job" = "$(cat good/slurmjob.out)" ]
echo "$(python -c 'from importlib.metadata import version; print(version("stepup-queue"))') ok"
