"""QToolKit, which jobflow-remote stands on: submit, list, look at one job, cancel."""

import time
from importlib.metadata import version
from pathlib import Path

from qtoolkit.core.data_objects import CancelStatus, QResources, QState, SubmissionStatus
from qtoolkit.host.local import LocalHost
from qtoolkit.io.slurm import SlurmIO
from qtoolkit.manager import QueueManager

queue = QueueManager(SlurmIO(), LocalHost())
resources = QResources(
    queue_name="debug", job_name="qtk", processes=2, threads_per_process=1, time_limit=120,
    memory_per_thread=100, output_filepath="qtk.out", error_filepath="qtk.err",
)  # fmt: skip
work = Path.cwd() / "run"
sent = queue.submit(["srun hostname", "sleep 3"], resources, work_dir=work, create_submit_dir=True)
assert sent.status == SubmissionStatus.SUCCESSFUL, sent
other = queue.submit("sleep 100", resources, work_dir=work)
seen = set()
deadline = time.time() + 240
while time.time() < deadline:
    (job,) = queue.get_jobs_list(jobs=[sent.job_id]) or [None]
    if job is None:
        break
    assert (job.name, job.username) == ("qtk", "games"), job
    assert (job.info.nodes, job.info.cpus, job.info.time_limit) == (1, 2, 120), job.info
    seen.add(job.state)
    time.sleep(0.3)
assert QState.RUNNING in seen, seen
assert (work / "qtk.out").read_text().count("\n") == 2
assert other.job_id in {job.job_id for job in queue.get_jobs_list(user="games")}
gone = queue.cancel(other.job_id)
assert (gone.status, gone.job_id) == (CancelStatus.SUCCESSFUL, other.job_id), gone
print("qtoolkit", version("qtoolkit"), "ok")
