"""What a node's Prolog and Epilog are told of their job."""

from __future__ import annotations

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.plain_text import program_variables
from pyslurm_ng.d.spec import environment
from pyslurm_ng.model.task_counts import usable_cpus
from pyslurm_ng.sched.cons_tres.layout import counts_text
from pyslurm_ng.wire.node_messages import JobCredential


def hook_environment(
    credential: JobCredential,
    settings: environment.NodeSettings,
    context: str,
    gpus: environment.GpuView,
    files: tuple[str, str, str] | None = None,
) -> dict[str, str]:
    """Return the small, fixed environment of a node's Prolog or Epilog.

    Nothing of the user's environment and no PATH: these programs run as root.

    Args:
        files: input, output and errors of the job's script, if it has one.
    """
    request = credential.request
    node_list = fold(list(credential.nodes))
    meant = environment.request_variables(request, credential.allocs)
    variables = {
        "SLURM_CLUSTER_NAME": credential.cluster,
        "SLURM_CONF": settings.conf_path,
        "SLURMD_NODENAME": settings.node_name,
        "SLURM_JOB_ID": str(credential.job_id),
        "SLURM_JOBID": str(credential.job_id),
        "SLURM_JOB_UID": str(credential.uid),
        "SLURM_UID": str(credential.uid),  # the old name, which sites' epilogs have
        "SLURM_JOB_GID": str(credential.gid),
        "SLURM_JOB_USER": credential.user_name,
        "SLURM_JOB_PARTITION": credential.partition,
        "SLURM_JOB_ACCOUNT": credential.account,
        "SLURM_JOB_QOS": credential.qos,
        "SLURM_JOB_NODELIST": node_list,
        "SLURM_NODELIST": node_list,
        "SLURM_JOB_NUM_NODES": str(len(credential.nodes)),
        "SLURM_JOB_CPUS_PER_NODE": counts_text(
            usable_cpus(request, alloc) for alloc in credential.allocs
        ),
        "SLURM_JOB_START_TIME": str(credential.start_us // SECOND_US),
        "SLURM_JOB_RESTART_COUNT": str(credential.attempt),
        "SLURM_JOB_OVERSUBSCRIBE": credential.oversubscribe,
        "SLURM_JOB_EXCLUSIVE": credential.exclusive,
        "SLURM_JOB_COMMENT": request.comment,
        "SLURM_JOB_EXTRA": request.extra,
        "SLURM_JOB_WORK_DIR": request.work_dir,
        "SLURM_SCRIPT_CONTEXT": context,
    }
    for name, value in (
        ("SLURM_JOB_CONSTRAINTS", request.constraint),
        ("SLURM_JOB_LICENSES", credential.licenses),
        ("SLURM_JOB_NTASKS", meant.get("SLURM_NTASKS", "")),
        ("SLURM_JOB_RESERVATION", credential.reservation),
        ("SLURM_JOB_SLUID", credential.sluid),
    ):
        if value:
            variables[name] = value
    if credential.end_us:
        variables["SLURM_JOB_END_TIME"] = str(credential.end_us // SECOND_US)
    if files is not None:
        names = ("SLURM_JOB_STDIN", "SLURM_JOB_STDOUT", "SLURM_JOB_STDERR")
        variables |= dict(zip(names, files, strict=True))
    variables |= environment.array_variables(credential)
    variables |= environment.gpu_variables(gpus, is_step=False)
    return program_variables(variables)


def end_variables(exit_code: int, derived_exit_code: int) -> dict[str, str]:
    """Return what an epilog is told of a job's end; both are wait statuses."""
    code, signal = exit_code >> 8 & 0xFF, exit_code & 0x7F
    return {
        "SLURM_JOB_DERIVED_EC": str(derived_exit_code),
        "SLURM_JOB_EXIT_CODE": str(exit_code),
        "SLURM_JOB_EXIT_CODE2": f"{code}:{signal}",
    }
