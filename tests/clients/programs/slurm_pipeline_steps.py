"""slurm-pipeline: steps that depend on each other's jobs, and the status by sacct."""

import json
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

ENDED = "State=COMPLETED"  # of both jobs, and of the first where the second names it
first = '#!/bin/sh\necho "TASK: a $(sbatch --parsable -o %j.out --wrap true)"\n'
second = (
    "#!/bin/sh\n"
    'echo "TASK: b $(sbatch --parsable $SP_DEPENDENCY_ARG $SP_NICE_ARG -o b.out --wrap true)"\n'
)
for name, text in (("first.sh", first), ("second.sh", second)):
    Path(name).write_text(text)
    Path(name).chmod(0o755)
steps = [
    {"name": "first", "script": "./first.sh"},
    {"name": "second", "script": "./second.sh", "dependencies": ["first"]},
]
Path("spec.json").write_text(json.dumps({"steps": steps}))
start = subprocess.run(
    ["slurm-pipeline.py", "-s", "spec.json"], check=True, capture_output=True, text=True
)
Path("status.json").write_text(start.stdout)
for _ in range(60):
    shown = subprocess.run(
        ["slurm-pipeline-status.py", "-s", "status.json"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    if shown.count(ENDED) == 3:
        break
    time.sleep(0.5)
assert shown.count(ENDED) == 3, shown
print("slurm-pipeline", version("slurm-pipeline"), "ok")
