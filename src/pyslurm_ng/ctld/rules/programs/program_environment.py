"""The environment of PrologSlurmctld and EpilogSlurmctld.

No PATH and nothing of the user's environment, as for the programs that nodes run.
"""

from __future__ import annotations

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.base.numbers import NO_VAL, SECOND_US
from pyslurm_ng.base.plain_text import program_variables
from pyslurm_ng.base.request_words import exclusive_word
from pyslurm_ng.base.sluid import sluid_text
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Job, limit_end_us
from pyslurm_ng.model.output_names import NameFields, batch_names
from pyslurm_ng.model.rows import oversubscribe_shown
from pyslurm_ng.model.task_counts import usable_cpus
from pyslurm_ng.sched.cons_tres.layout import counts_text


def prolog_environment(cluster: Cluster, job: Job) -> dict[str, str]:
    """Return the variables of a job that is about to begin."""
    return program_variables(of_job(cluster, job) | {"SLURM_SCRIPT_CONTEXT": "prolog_slurmctld"})


def epilog_environment(cluster: Cluster, job: Job) -> dict[str, str]:
    """Return the variables of a job whose run is over."""
    ended = {
        **exit_variables(job, job.exit_code),
        "SLURM_JOB_END_TIME": str(job.end_us // SECOND_US),
        "SLURM_SCRIPT_CONTEXT": "epilog_slurmctld",
    }
    return program_variables(of_job(cluster, job) | ended)


def exit_variables(job: Job, status: int) -> dict[str, str]:
    """Return what EpilogSlurmctld and MailProg are told of how a job ended."""
    return {
        "SLURM_JOB_EXIT_CODE": str(status),
        "SLURM_JOB_EXIT_CODE2": f"{status >> 8 & 0xFF}:{status & 0x7F}",
        "SLURM_JOB_DERIVED_EC": str(job.derived_exit_code),
    }


def oversubscribe(cluster: Cluster, job: Job) -> str:
    """Return SLURM_JOB_OVERSUBSCRIBE: whether a job may share what it has."""
    return oversubscribe_shown(job.request, cluster.partitions.get(job.partition))


def of_job(cluster: Cluster, job: Job) -> dict[str, str]:
    """Return what all programs of a job that slurmctld runs are told, MailProg too."""
    request = job.request
    nodes = [
        node.spec.name for alloc in job.nodes if (node := cluster.nodes[alloc.node_id]) is not None
    ]
    variables = {
        "SLURM_CLUSTER_NAME": cluster.cluster_name,
        "SLURM_JOB_ACCOUNT": job.account,
        "SLURM_JOB_COMMENT": job.comment,
        "SLURM_JOB_CPUS_PER_NODE": counts_text(usable_cpus(request, alloc) for alloc in job.nodes),
        "SLURM_JOB_EXCLUSIVE": exclusive_word(request.flags),
        "SLURM_JOB_EXTRA": request.extra,
        "SLURM_JOB_GID": str(job.gid),
        "SLURM_JOB_GROUP": job.group_name,
        "SLURM_JOB_ID": str(job.job_id),
        "SLURM_JOBID": str(job.job_id),
        "SLURM_JOB_NAME": request.name,
        "SLURM_JOB_NODELIST": fold(nodes),
        "SLURM_JOB_NUM_NODES": str(len(nodes)),
        "SLURM_JOB_OVERSUBSCRIBE": oversubscribe(cluster, job),
        "SLURM_JOB_PARTITION": job.partition,
        "SLURM_JOB_QOS": job.qos,
        "SLURM_JOB_RESTART_COUNT": str(job.attempt),
        "SLURM_JOB_SLUID": sluid_text(job.sluid),
        "SLURM_JOB_START_TIME": str(job.start_us // SECOND_US),
        "SLURM_JOB_UID": str(job.uid),
        "SLURM_JOB_USER": job.user_name,
        "SLURM_JOB_WORK_DIR": request.work_dir,
    }
    for name, value in (
        ("SLURM_JOB_CONSTRAINTS", request.constraint),
        ("SLURM_JOB_LICENSES", job.licenses_alloc),
        ("SLURM_JOB_RESERVATION", job.reservation),
        ("SLURM_WCKEY", request.wckey),
    ):
        if value:
            variables[name] = value
    end_us = limit_end_us(job)
    if end_us:
        variables["SLURM_JOB_END_TIME"] = str(end_us // SECOND_US)
    return variables | _files(cluster, job) | _array(job) | _het(job)


def _files(cluster: Cluster, job: Job) -> dict[str, str]:
    if not job.script_hash:
        return {}
    request = job.request
    node = cluster.nodes[job.batch_node_id] if job.batch_node_id >= 0 else None
    fields = NameFields(
        job_id=job.job_id,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        step_id=STEP_BATCH,
        user=job.user_name,
        job_name=request.name,
        node_name=node.spec.name if node is not None else "",
    )
    std_in, std_out, std_err = batch_names(
        request.std_in, request.std_out, request.std_err, request.work_dir, fields
    )
    return {"SLURM_JOB_STDIN": std_in, "SLURM_JOB_STDOUT": std_out, "SLURM_JOB_STDERR": std_err}


def _array(job: Job) -> dict[str, str]:
    if not job.array_job_id or job.array_task_id == NO_VAL:
        return {}
    return {
        "SLURM_ARRAY_JOB_ID": str(job.array_job_id),
        "SLURM_ARRAY_TASK_ID": str(job.array_task_id),
        "SLURM_ARRAY_TASK_COUNT": str(job.array_count),
        "SLURM_ARRAY_TASK_MAX": str(job.array_max),
        "SLURM_ARRAY_TASK_MIN": str(job.array_min),
        "SLURM_ARRAY_TASK_STEP": str(job.array_step or 1),
    }


def _het(job: Job) -> dict[str, str]:
    if not job.het_job_id:
        return {}
    return {"SLURM_HET_JOB_ID": str(job.het_job_id), "SLURM_HET_JOB_OFFSET": str(job.het_offset)}
