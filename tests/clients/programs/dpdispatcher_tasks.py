"""DPDispatcher: one submission of three tasks in two jobs."""

from importlib.metadata import version
from pathlib import Path

from dpdispatcher import Machine, Resources, Submission, Task

here = Path.cwd()
for number in range(3):
    folder = here / "work" / f"t{number}"
    folder.mkdir(parents=True)
    (folder / "in").write_text(f"{number}\n")
machine = Machine.load_from_dict(
    {
        "batch_type": "Slurm",
        "context_type": "LocalContext",
        "local_root": str(here),
        "remote_root": str(here / "remote"),
    }
)
resources = Resources.load_from_dict(
    {
        "number_node": 1,
        "cpu_per_node": 1,
        "gpu_per_node": 0,
        "queue_name": "debug",
        "group_size": 2,
        "custom_flags": ["#SBATCH --time=5"],
    }
)
tasks = [
    Task("echo $(( $(cat in) * 7 ))", f"t{number}", ["in"], ["log"], "log", "err")
    for number in range(3)
]
submission = Submission("work", machine, resources, task_list=tasks)
submission.run_submission(check_interval=2)
answers = [(here / "work" / f"t{number}" / "log").read_text().strip() for number in range(3)]
assert answers == ["0", "7", "14"], answers
print("dpdispatcher", version("dpdispatcher"), "ok")
