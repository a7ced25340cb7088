"""What is told about a run of a job that is over: to a file, a program or Elasticsearch.

All three are as Slurm 22.05 writes them.
"""

from __future__ import annotations

import json
from typing import Any

from pyslurm_ng.base.dates import format_date
from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SECOND_US
from pyslurm_ng.base.plain_text import program_variables
from pyslurm_ng.base.tres import format_tres
from pyslurm_ng.base.units import format_seconds
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.daemon.log import escape
from pyslurm_ng.model import amounts
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.limits.standing import chain_of


def completion_line(cluster: Cluster, job: Job, conf: SlurmConf) -> str:
    """Return the line about a run that is over, or about a job that never ran."""
    request, nodes = job.request, _nodes(cluster, job)
    limited = job.time_limit_min not in (INFINITE, NO_VAL)
    values = {
        "JobId": job.job_id,
        "UserId": f"{job.user_name}({job.uid})",
        "GroupId": f"{job.group_name}({job.gid})",
        "Name": request.name,
        "JobState": JobState(job.state).name,
        "Partition": job.partition,
        "TimeLimit": job.time_limit_min if limited else "UNLIMITED",
        "StartTime": _date(job.start_us or job.end_us),
        "EndTime": _date(job.end_us),
        "NodeList": fold(nodes) or "(null)",
        "NodeCnt": len(nodes),
        "ProcCnt": _cpus(job),
        "WorkDir": request.work_dir,
        "ReservationName": job.reservation,
        "Tres": _tres(cluster, job, conf),
        "Account": job.account,
        "QOS": job.qos,
        "WcKey": request.wckey,
        "Cluster": cluster.cluster_name,
        "SubmitTime": _date(job.submit_us),
        "EligibleTime": _date(job.eligible_us or job.begin_us),
        **_number(job),
        "DerivedExitCode": _exit_code(job.derived_exit_code),
        "ExitCode": _exit_code(job.exit_code),
    }
    return escape(" ".join(f"{name}={value}" for name, value in values.items())) + " \n"


def completion_environment(cluster: Cluster, job: Job) -> dict[str, str]:
    """Return the variables of JobCompType=jobcomp/script."""
    request, nodes = job.request, _nodes(cluster, job)
    limited = job.time_limit_min not in (INFINITE, NO_VAL)
    variables: dict[str, object] = {
        "ACCOUNT": job.account,
        "ARRAYJOBID": job.array_job_id,
        "ARRAYTASKID": job.array_task_id,
        "BATCH": "yes" if job.script_hash else "no",
        "CLUSTER": cluster.cluster_name,
        "CONSTRAINTS": request.constraint,
        "DB_FLAGS": "None",
        "DEPENDENCY": request.dependency,
        "DERIVED_EC": _exit_code(job.derived_exit_code),
        "END": job.end_us // SECOND_US,
        "EXITCODE": _exit_code(job.exit_code),
        "GID": job.gid,
        "GROUPNAME": job.group_name,
        "JOBID": job.job_id,
        "JOBNAME": request.name,
        "JOBSTATE": JobState(job.state).name,
        "LIMIT": format_seconds(60 * job.time_limit_min) if limited else "UNLIMITED",
        "NODECNT": len(nodes),
        "NODES": fold(nodes),
        "PARTITION": job.partition,
        "PROCS": _cpus(job),
        "QOS": job.qos,
        "RESERVATION": job.reservation,
        "START": (job.start_us or job.end_us) // SECOND_US,
        "STATEREASONPREV": Reason(job.reason).name,
        "SUBMIT": job.submit_us // SECOND_US,
        "UID": job.uid,
        "USERNAME": job.user_name,
        "WORK_DIR": request.work_dir,
    }
    if job.het_job_id:
        variables |= {"HETJOBID": job.het_job_id, "HETJOBOFFSET": job.het_offset}
    files = zip(("STDIN", "STDOUT", "STDERR"), _files(job), strict=True)
    variables |= {name: value for name, value in files if value}
    return program_variables({name: str(value) for name, value in variables.items()})


def completion_document(cluster: Cluster, job: Job, conf: SlurmConf) -> bytes:
    """Return the JSON text of JobCompType=jobcomp/elasticsearch; scripts are left out."""
    request, nodes = job.request, _nodes(cluster, job)
    begin_us = job.start_us or job.end_us
    elapsed_s = (job.end_us - begin_us) // SECOND_US
    partition = cluster.partitions.get(job.partition.partition(",")[0])
    tracked = conf.tracked_tres()
    document: dict[str, Any] = {
        "jobid": job.job_id,
        "container": "",
        "username": job.user_name,
        "user_id": job.uid,
        "groupname": job.group_name,
        "group_id": job.gid,
        "@start": _date(begin_us),
        "@end": _date(job.end_us),
        "elapsed": elapsed_s,
        "partition": job.partition,
        "alloc_node": request.alloc_node,
        "nodes": fold(nodes),
        "total_cpus": _cpus(job),
        "total_nodes": len(nodes),
        "derived_ec": _exit_code(job.derived_exit_code),
        "exit_code": _exit_code(job.exit_code),
        "state": JobState(job.state).name,
        "cpu_hours": elapsed_s * _cpus(job) / 3600.0,
        "pack_job_id": job.het_job_id,
        "pack_job_offset": job.het_offset,
        "het_job_id": job.het_job_id,
        "het_job_offset": job.het_offset,
        "@submit": _date(job.submit_us),
        "@eligible": _date(job.eligible_us or job.begin_us),
        "@queue_wait": max(begin_us - (job.eligible_us or begin_us), 0) // SECOND_US,
        "work_dir": request.work_dir,
        "cluster": cluster.cluster_name,
        "ntasks": request.ntasks,
        "ntasks_per_node": request.ntasks_per_node,
        "cpus_per_task": request.cpus_per_task,
        "job_name": request.name,
        "tres_req": format_tres(amounts.requested_tres(request, partition, tracked)),
        "tres_alloc": _tres(cluster, job, conf) if nodes else "",
        "account": job.account,
        "qos": job.qos,
        "parent_accounts": _parents(cluster, job),
    }
    if job.array_job_id and job.array_task_id != NO_VAL:
        document |= {"array_job_id": job.array_job_id, "array_task_id": job.array_task_id}
    if job.time_limit_min not in (INFINITE, NO_VAL):
        document["time_limit"] = job.time_limit_min * 60
    for name, value in (
        ("reservation_name", job.reservation),
        ("wc_key", request.wckey),
        ("gres_req", request.gres),
        ("licenses", request.licenses),
        ("orig_dependency", request.dependency),
        *zip(("std_in", "std_out", "std_err"), _files(job), strict=True),
    ):
        if value:
            document[name] = value
    return json.dumps(document, separators=(",", ":")).encode("utf-8", "replace")


def _nodes(cluster: Cluster, job: Job) -> list[str]:
    return [
        node.spec.name for alloc in job.nodes if (node := cluster.nodes[alloc.node_id]) is not None
    ]


def _files(job: Job) -> tuple[str, str, str]:
    """Return a job's files as they were named: where it reads, writes, and writes errors."""
    request = job.request
    std_in = request.std_in or ("/dev/null" if job.script_hash else "")
    return std_in, request.std_out, request.std_err


def _cpus(job: Job) -> int:
    return sum(alloc.charged_cpus for alloc in job.nodes)


def _parents(cluster: Cluster, job: Job) -> str:
    chain = chain_of(cluster.assocs, job.assoc_id)
    return "".join(f"/{level.account}" for level in reversed(chain))


def _number(job: Job) -> dict[str, int]:
    if job.array_job_id and job.array_task_id != NO_VAL:
        return {"ArrayJobId": job.array_job_id, "ArrayTaskId": job.array_task_id}
    if job.het_job_id:
        return {"HetJobId": job.het_job_id, "HetJobOffset": job.het_offset}
    return {}


def _tres(cluster: Cluster, job: Job, conf: SlurmConf) -> str:
    partition = cluster.partitions.get(job.partition.partition(",")[0])
    tracked = conf.tracked_tres()
    if job.nodes:
        terms = partition.billing_terms if partition is not None else ""
        return format_tres(amounts.allocated_tres(job.nodes, tracked, terms, job.licenses_alloc))
    return format_tres(amounts.requested_tres(job.request, partition, tracked))


def _date(time_us: int) -> str:
    return format_date(time_us // SECOND_US) if time_us else "unknown"


def _exit_code(status: int) -> str:
    return f"{status >> 8 & 0xFF}:{status & 0x7F}"
