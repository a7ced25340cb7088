"""signac-flow: operations submitted with its slurm template; their states read from squeue."""

import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import signac

Path("project.py").write_text("""
from flow import FlowProject
from flow.environment import DefaultSlurmEnvironment

class Here(DefaultSlurmEnvironment):
    hostname_pattern = ".*"
    template = "slurm.sh"

class Project(FlowProject):
    pass

@Project.post.isfile("done.txt")
@Project.operation(directives={"np": 2})
def work(job):
    open(job.fn("done.txt"), "w").write("done")

Project().main() if __name__ == "__main__" else None
""")
subprocess.run(["signac", "init"], check=True, capture_output=True)
project = signac.get_project()
for n in range(3):
    project.open_job({"n": n}).init()
words = [sys.executable, "project.py"]
done = subprocess.run([*words, "submit"], capture_output=True, text=True)
assert done.returncode == 0, done.stdout + done.stderr
deadline = time.time() + 90
while time.time() < deadline and not all(job.isfile("done.txt") for job in project):
    time.sleep(0.5)
assert all(job.isfile("done.txt") for job in project)
shown = subprocess.run([*words, "status"], capture_output=True, text=True)
assert shown.returncode == 0 and "3 jobs" in shown.stdout + shown.stderr, shown
print("signac-flow", version("signac-flow"), "ok")
