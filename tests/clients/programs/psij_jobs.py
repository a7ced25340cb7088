"""PSI/J: its slurm executor, which reads squeue -o and -t all."""

from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1

executor = JobExecutor.get_instance("slurm")
job = Job(
    JobSpec(
        executable="/bin/sh",
        arguments=["-c", "echo rank $SLURM_PROCID"],
        stdout_path=Path("out.txt").absolute(),
        directory=Path.cwd(),
        launcher="srun",
        resources=ResourceSpecV1(node_count=2, processes_per_node=2, cpu_cores_per_process=1),
        attributes=JobAttributes(queue_name="debug", duration=timedelta(minutes=5)),
    )
)
executor.submit(job)
status = job.wait(timeout=timedelta(seconds=120))
assert status.state == JobState.COMPLETED, status
assert sorted(Path("out.txt").read_text().split("\n"))[1:] == [f"rank {n}" for n in range(4)]
bad = Job(JobSpec(executable="/bin/false", launcher="single", directory=Path.cwd()))
executor.submit(bad)
status = bad.wait(timeout=timedelta(seconds=120))
assert status.state == JobState.FAILED, status
long = Job(JobSpec(executable="/bin/sleep", arguments=["100"], launcher="single"))
executor.submit(long)
long.wait(target_states=[JobState.ACTIVE], timeout=timedelta(seconds=60))
long.cancel()
status = long.wait(timeout=timedelta(seconds=120))
assert status.state == JobState.CANCELED, status
print("psij", version("psij-python"), "ok")
