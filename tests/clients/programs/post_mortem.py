"""Programs that explain ended jobs: slurmpast, slurmq, jobscope, and the tables of WrapSlurm."""

import json
import subprocess
import time
from importlib.metadata import version


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


fails = output("sbatch", "--parsable", "-J", "fails", "-o", "/dev/null", "--wrap", "exit 3").strip()
works = output("sbatch", "-W", "--parsable", "-J", "works", "-o", "/dev/null", "--wrap", "true")
works = works.strip()
for _ in range(60):
    told = json.loads(output("slurmpast", "--json", fails))
    if told["summary"]["failed"] == 1:
        break
    time.sleep(0.5)
assert told["summary"]["failed"] == 1, told
assert json.loads(output("slurmpast", "--json", works))["summary"]["completed"] == 1
shown = output("slurmq", "efficiency", works)
assert "COMPLETED" in shown and works in shown, shown
assert "no GPU jobs" in output("jobscope", "summary") + output("jobscope", "summary", works)
nodes = output("wi")
assert all(name in nodes for name in ("n1", "n4", "debug")), nodes
names = ("slurmpast", "slurmq", "jobscope", "WrapSlurm")
print(*(f"{name} {version(name)}" for name in names), "ok")
