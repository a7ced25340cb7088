"""Ganga (CERN): jobs by its Slurm backend: one with arguments, three of a splitter, one killed."""

import os
import subprocess
from importlib.metadata import version
from pathlib import Path

SCRIPT = """
import time


def said(job):
    lines = open(job.outputdir + "stdout").read().splitlines()
    return [line for line in lines if not line.startswith("--- GANGA")]


def wait_for(job, state):
    for _ in range(120):
        runMonitoring()
        if job.status == state:
            return
        time.sleep(1)
    raise AssertionError((job.status, state))


one = Job(name="one", backend=Slurm(queue="debug", extraopts="-n 1 -t 5"))
one.application = Executable(exe="bash", args=["-c", "echo $SLURM_JOB_NAME $SLURM_JOB_PARTITION"])
one.submit()
wait_for(one, "completed")
assert said(one) == ["one debug"], said(one)

bad = Job(name="bad", backend=Slurm(queue="debug"))
bad.application = Executable(exe="bash", args=["-c", "exit 3"])
bad.submit()
wait_for(bad, "failed")
assert bad.backend.exitcode == 3, bad.backend

many = Job(name="many", backend=Slurm(queue="debug"))
many.application = Executable(exe="echo")
many.splitter = ArgSplitter(args=[["first"], ["second"], ["third"]])
many.submit()
wait_for(many, "completed")
assert [said(part) for part in many.subjobs] == [["first"], ["second"], ["third"]]

late = Job(name="late", backend=Slurm(queue="debug"))
late.application = Executable(exe="sleep", args=["300"])
late.submit()
wait_for(late, "running")
late.kill()
assert late.status == "killed"
print("all is well")
"""

if __name__ == "__main__":
    Path("jobs.py").write_text(SCRIPT)
    words = ["ganga", "--quiet", f"-o[Configuration]gangadir={os.getcwd()}/gangadir", "jobs.py"]
    # Its first start asks for a configuration file.
    done = subprocess.run(words, capture_output=True, text=True, timeout=400, input="y\n\n")
    assert "all is well" in done.stdout, done.stdout + done.stderr
    assert not os.popen("squeue -hu $USER -n late").read()
    print("ganga", version("ganga"), "ok")
