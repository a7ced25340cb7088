"""AiiDA's slurm scheduler plugin: its submit script, its squeue and sacct lines, its kill."""

import subprocess
import time
from importlib.metadata import version
from pathlib import Path

from aiida.common.datastructures import CodeRunMode
from aiida.schedulers.datastructures import JobState, JobTemplate, JobTemplateCodeInfo
from aiida.schedulers.plugins.slurm import SlurmScheduler


class Here:
    """A transport to this host."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def exec_command_wait(self, command, **_):
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr


scheduler = SlurmScheduler()
scheduler.set_transport(Here())
template = JobTemplate()
template.shebang = "#!/bin/bash"
template.uuid = "x"
template.job_name = "aiida"
template.queue_name = "debug"
template.account = "science"
template.max_wallclock_seconds = 120
template.max_memory_kb = 200000
template.sched_output_path = "_sched.out"
template.sched_error_path = "_sched.err"
template.job_resource = scheduler.create_job_resource(num_machines=1, num_mpiprocs_per_machine=2)
template.codes_info = [
    JobTemplateCodeInfo(
        cmdline_params=["sleep", "3"], stdout_name="aiida.out", use_double_quotes=(False, False)
    )
]
template.codes_run_mode = CodeRunMode.SERIAL
Path("_submit.sh").write_text(scheduler.get_submit_script(template))
job_id = scheduler.submit_job(".", "_submit.sh")
other = scheduler.submit_job(".", "_submit.sh")
seen = set()
deadline = time.time() + 90
while time.time() < deadline:
    jobs = scheduler.get_jobs(jobs=[job_id], as_dict=True)
    if job_id not in jobs:
        break
    seen.add(jobs[job_id].job_state)
    time.sleep(0.3)
assert JobState.RUNNING in seen, seen
scheduler.kill_job(other)
assert not scheduler.get_jobs(jobs=[job_id, other], as_dict=True)
detail = scheduler.get_detailed_job_info(job_id)
assert detail["retval"] == 0 and "COMPLETED" in detail["stdout"], detail
print("aiida-core", version("aiida-core"), "ok")
