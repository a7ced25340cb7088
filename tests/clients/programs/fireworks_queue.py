"""FireWorks' adapter for queues: its template, a submission, and how many jobs wait or run."""

import getpass
import subprocess
import time
from importlib.metadata import version

from fireworks.user_objects.queue_adapters.common_adapter import CommonAdapter

adapter = CommonAdapter(
    q_type="SLURM", q_name="fw", rocket_launch="sleep 600", nodes=2, ntasks=2, walltime="00:05:00",
    queue="debug", account="science", job_name="rocket", logdir=".",
)  # fmt: skip
with open("rocket.script", "w") as script:
    script.write(adapter.get_script_str("."))
before = adapter.get_njobs_in_queue(getpass.getuser())
number = adapter.submit_to_queue("rocket.script")
assert int(number) > 0, number
assert adapter.get_njobs_in_queue(getpass.getuser()) == before + 1
subprocess.run(["scancel", str(number)], check=True)
for _ in range(60):
    if adapter.get_njobs_in_queue(getpass.getuser()) == before:
        break
    time.sleep(0.5)
assert adapter.get_njobs_in_queue(getpass.getuser()) == before
print("fireworks", version("FireWorks"), "ok")
