"""Cylc: a chain of tasks as jobs, one of two components, one that is tried again, one killed."""

import os
import subprocess
from importlib.metadata import version
from pathlib import Path

FLOW = """
[scheduler]
    allow implicit tasks = False
[scheduling]
    [[graph]]
        R1 = "first => again & het => last"
[runtime]
    [[root]]
        platform = slurm
    [[SMALL]]
        [[[directives]]]
            --mem = 100
    [[first]]
        inherit = SMALL
        script = echo hello from $SLURM_JOB_NAME
        execution time limit = PT2M
    [[again]]
        inherit = SMALL
        script = test "$CYLC_TASK_TRY_NUMBER" = 2
        execution retry delays = PT1S
    [[het]]
        script = srun --het-group=0,1 hostname
        [[[directives]]]
            hetjob_0_--mem = 100
            hetjob_1_--mem = 200
    [[last]]
        inherit = SMALL
        script = echo done > $CYLC_WORKFLOW_RUN_DIR/last
"""
# Its jobs are login shells, which begin with a PATH of the host's.
PLATFORM = f"""
[platforms]
    [[slurm]]
        job runner = slurm
        hosts = localhost
        install target = localhost
        submission polling intervals = PT5S
        execution polling intervals = PT5S
        global init-script = export PATH={os.environ["PATH"]}
"""


def cylc(*words):
    done = subprocess.run(["cylc", *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


os.environ["CYLC_CONF_PATH"] = str(Path("conf").absolute())
Path("conf").mkdir()
Path("conf/global.cylc").write_text(PLATFORM)
Path("flow").mkdir()
Path("flow/flow.cylc").write_text(FLOW)
cylc("install", "./flow", "--no-run-name", "--workflow-name", "flow")
cylc("play", "flow", "--no-detach")
run = Path.home() / "cylc-run/flow"
assert (run / "last").read_text() == "done\n"
assert "hello from first.1.flow" in (run / "log/job/1/first/01/job.out").read_text()
assert (run / "log/job/1/again/02/job.out").exists()
assert (run / "log/job/1/het/01/job.out").read_text().count("n") >= 2
job = (run / "log/job/1/first/NN/job").read_text()
assert "#SBATCH --time=2:00" in job, job
print("cylc-flow", version("cylc-flow"), "ok")
