"""GridTK: submit, an array, a dependency, list, report, resubmit, stop."""

import json
import subprocess
import time
from importlib.metadata import version
from pathlib import Path


def gridtk(*words):
    done = subprocess.run(["gridtk", *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def states():
    return {job["name"]: job["state"] for job in json.loads(gridtk("list", "--json"))}


script = Path("job.sh")
script.write_text("#!/bin/bash\necho ran ${SLURM_ARRAY_TASK_ID:-alone}\nexit ${1:-0}\n")
script.chmod(0o755)
gridtk("submit", "--job-name", "plain", "--mem", "100", str(script.absolute()))
gridtk("submit", "--job-name", "many", "--array", "1-3", "--mem", "100", str(script.absolute()))
gridtk("submit", "--job-name", "after", "--dependency", "1", "--mem", "100", str(script.absolute()))
gridtk("submit", "--job-name", "bad", "--mem", "100", "--wrap", "exit 4")
gridtk("submit", "--job-name", "long", "--mem", "100", "--wrap", "sleep 100")
deadline = time.time() + 240
ends = {"plain": "COMPLETED", "after": "COMPLETED", "bad": "FAILED", "long": "RUNNING"}
while time.time() < deadline:
    shown = states()
    if ends.items() <= {name: state.split(" ")[0] for name, state in shown.items()}.items():
        break
    time.sleep(0.5)
else:
    raise AssertionError(shown)
assert "ran alone" in gridtk("report", "--name", "plain")
gridtk("stop", "--name", "long")
while not states()["long"].startswith("CANCELLED") and time.time() < deadline:
    time.sleep(0.5)
gridtk("resubmit", "--name", "bad")
while states()["bad"].split(" ")[0] != "FAILED" and time.time() < deadline:
    time.sleep(0.5)
assert states()["long"].startswith("CANCELLED") and states()["bad"].startswith("FAILED"), states()
print("gridtk", version("gridtk"), "ok")
