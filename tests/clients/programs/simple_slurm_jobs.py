"""simple_slurm and slurmpy: submit, look at the queue, cancel."""

import time
from importlib.metadata import version
from pathlib import Path

from simple_slurm import Slurm
from slurmpy import Slurm as SlurmPy

job = Slurm(array=range(2, 4), cpus_per_task=1, job_name="name", mem="100", output="%A_%a.out")
job_id = job.sbatch("echo task " + Slurm.SLURM_ARRAY_TASK_ID, verbose=False)
last = Slurm(dependency={"afterok": job_id}, output="last.out", mem="100")
last.sbatch("echo done", verbose=False)
sleeper = Slurm(mem="100", job_name="sleeper")
sleep_id = sleeper.sbatch("sleep 100", verbose=False)
job.squeue.update_squeue()
assert any(row["JOBID"] == str(sleep_id) for row in job.squeue.jobs.values()), job.squeue.jobs
sleeper.scancel.cancel_job(sleep_id)
deadline = time.time() + 60
last_out = Path("last.out")
while not (last_out.exists() and last_out.read_text()) and time.time() < deadline:
    time.sleep(0.2)
assert last_out.read_text() == "done\n"
assert Path(f"{job_id}_3.out").read_text() == "task 3\n"
first = SlurmPy("py", {"partition": "debug", "mem": "100"}, scripts_dir="scripts", log_dir="logs")
number = first.run("echo hello", name_addition="")
two = first.run("echo again > again.txt", name_addition="", depends_on=[number])
while not Path("again.txt").exists() and time.time() < deadline:
    time.sleep(0.2)
print("simple_slurm", version("simple_slurm"), "slurmpy", version("slurmpy"), "ok")
