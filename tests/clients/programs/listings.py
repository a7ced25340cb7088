"""Programs that list nodes and jobs once; qspool submits; sfollow reads a job's output."""

import json
import os
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

NAMES = (
    "sgpustat", "slmtop", "smtop", "slutop", "slurm-monitor-top", "slurm-avail",
    "qspool", "sfollow",
)  # fmt: skip


def run(*words, text=None):
    done = subprocess.run(words, capture_output=True, text=True, input=text or "", timeout=300)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


job_id = run(
    "sbatch", "--parsable", "-n2", "--mem=100", "-J", "seen", "--wrap", "sleep 120"
).strip()
while run("squeue", "-h", "-o", "%t", "-j", job_id).strip() != "R":
    time.sleep(0.2)
assert "No GPUs currently in use by users." in run("sgpustat")
lines = run("slmtop").splitlines()
assert "nodes 4" in lines[0], lines
assert any(line.split()[:3] == [job_id, "games", "RUNNING"] for line in lines), lines
assert "2/16" in run("smtop", "--once", "--gpu-metrics", "off")
shown = json.loads(run("slutop", "-1", "-o", "json"))
assert (shown["summary"]["cpus_used"], shown["summary"]["mem_used"]) == (2, 100), shown
assert [job["state"] for job in shown["jobs"]] == ["RUNNING"], shown
shown = json.loads(run("slurm-top", "--json"))
assert shown["jobs"][0]["mem_mb"] == 100 and len(shown["nodes"]) == 4, shown
# slurm-avail asks in a login shell, which sets PATH anew.
Path(".profile").write_text(f"export PATH='{os.environ['PATH']}'\n")
assert "2/16" in run("slurm-avail", "--once", "--view", "nodes")
assert "seen" in run("slurm-avail", "--once", "--view", "jobs")
run("scancel", job_id)

script = Path("told.slurm").resolve()
script.write_text("#!/bin/bash\n#SBATCH -o told-%j.out\necho first\nsleep 5\necho last\n")
told_id = run("sbatch", "--parsable", script).strip()
while not Path(f"told-{told_id}.out").exists():
    time.sleep(0.1)  # sfollow opens the file at once
said = run("sfollow", told_id)
assert f"Job {told_id} finished" in said and "COMPLETED" in said, said

# It submits itself as a job, and that job submits the script.
said = run("python", "-m", "qspool", "--queue-capacity", "1000", text=f"{script}\n")
assert "QSPOOL::SUCCESSFUL_COMPLETION" in said, said
until = time.monotonic() + 120
while len(list(Path().glob("told-*.out"))) < 2 and time.monotonic() < until:
    time.sleep(0.5)
assert len(list(Path().glob("told-*.out"))) == 2, run("squeue", "-t", "all")
print(*(f"{name} {version(name)}" for name in NAMES), "ok")
