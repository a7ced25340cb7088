"""scontrol update of a job from inside it: scripts with the remaining nodes for its shell."""

import os

from pyslurm_ng.base.numbers import SHOW_ALL, SHOW_DETAIL
from pyslurm_ng.cli.command import Table, say
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.control.session import Session

# Variables that were computed for the former nodes; srun computes them again.
_STALE = ("SLURM_NPROCS", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE")


def write_scripts(session: "Session", job_id: str) -> None:
    """Write slurm_job_ID_resize.sh and .csh into the working directory, and say so."""
    from pyslurm_ng.sched.cons_tres.layout import counts_text

    try:
        reply = session.client.call(
            "ShowJobs", {"filter": {"jobs": [job_id]}, "flags": SHOW_ALL | SHOW_DETAIL}
        )
    except SlurmError as error:
        say(f"scontrol: error: Could not load state information for job {job_id}: {error.text}")
        return
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if not rows or not rows[0]["nodes"]:
        return  # it waits, so it has no shell
    row = rows[0]
    count = str(row["node_count"])
    quoted = f'"{row["nodes"]}"'
    values = {
        "SLURM_NODELIST": quoted,
        "SLURM_JOB_NODELIST": quoted,
        "SLURM_NNODES": count,
        "SLURM_JOB_NUM_NODES": count,
        "SLURM_JOB_CPUS_PER_NODE": f'"{counts_text(row["job_cpus_per_node"])}"',
    }
    sh = [f"export {key}={value}" for key, value in values.items()]
    csh = [f"setenv {key} {value}" for key, value in values.items()]
    sh += [f"unset {key}" for key in _STALE]
    csh += [f"unsetenv {key}" for key in _STALE]
    name = f"slurm_job_{job_id}_resize"
    for path, lines in ((f"{name}.sh", sh), (f"{name}.csh", csh)):
        try:
            _write(path, lines)
        except OSError as problem:
            say(f"scontrol: error: Could not create file {path}: {problem.strerror}")
            return
    print(
        "To reset Slurm environment variables, execute\n"
        f"  For bash or sh shells:  . ./{name}.sh\n"
        f"  For csh shells:         source ./{name}.csh"
    )


def _write(path: str, lines: "list[str]") -> None:
    # The job's shell will run the file, so no other user may have made it or may change it.
    if os.path.lexists(path):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
    with open(descriptor, "w") as script:
        script.write("\n".join(lines) + "\n")
