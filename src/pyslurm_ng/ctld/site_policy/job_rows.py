"""Jobs as scripts see them in `slurm.jobs`, and as the record that a change is about.

Source: what fields a script finds under Slurm 22.05, with which values. Left out is what would
need a file (`script`) or numbers of TRES in the database.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pyslurm_ng.base.numbers import NO_VAL, REQ_REBOOT, SECOND_US
from pyslurm_ng.ctld.queries.job_fields import brief_values, detail_values
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, limit_end_us
from pyslurm_ng.model.kept_request import whole_request
from pyslurm_ng.policy.constants import MEM_PER_CPU, NICE_OFFSET
from pyslurm_ng.policy.job_fields import FIELDS
from pyslurm_ng.policy.messages import Row

# Read as in a request, since jobs keep them as they were asked for.
_ASKED = (
    "argc",
    "argv",
    "burst_buffer",
    "container",
    "cpus_per_tres",
    "exc_nodes",
    "extra",
    "features",
    "gres",
    "mail_user",
    "max_cpus",
    "mcs_label",
    "mem_per_tres",
    "min_cpus",
    "network",
    "req_nodes",
    "std_err",
    "std_in",
    "std_out",
    "tres_bind",
    "tres_freq",
    "tres_per_job",
    "tres_per_node",
    "tres_per_socket",
    "tres_per_task",
    "work_dir",
)


class JobRows:
    """Makes rows of jobs.

    Attributes:
        tracked: the names of the TRES that the cluster counts.
    """

    def __init__(self, cluster: Cluster, soft: Soft) -> None:
        self._cluster = cluster
        self._soft = soft
        self.tracked: tuple[str, ...] = ()

    def row(self, job: Job) -> Row:
        """Return a job in a listing."""
        asked = _asked(job)
        return {**{name: FIELDS[name].read(asked) for name in _ASKED}, **self._state(job, asked)}

    def record(self, job: Job) -> Row:
        """Return a whole job, for a change of it: what was asked for, and what became of it."""
        asked = _asked(job)
        every = {name: field.read(asked) for name, field in FIELDS.items()}
        return {**every, **self._state(job, asked)}

    def _state(self, job: Job, asked: dict[str, Any]) -> Row:
        cluster = self._cluster
        values: dict[str, Any] = brief_values(cluster, job, ())
        values |= detail_values(cluster, job, self.tracked)
        end_us = values["end_us"] or (limit_end_us(job) if job.start_us else 0)
        per_cpu, per_node = values["mem_per_cpu_mib"], values["mem_per_node_mib"]
        tasks_each = max(1, asked.get("ntasks_per_node", 0))
        return {
            "job_id": job.job_id,
            "array_job_id": job.array_job_id,
            "array_task_id": job.array_task_id,
            "het_job_id": job.het_job_id,
            "het_job_id_set": values["het_job_ids"] or None,
            "het_job_offset": job.het_offset,
            "pack_job_id": job.het_job_id,
            "pack_job_offset": job.het_offset,
            "name": values["name"],
            "user_id": job.uid,
            "user_name": job.user_name,
            "group_id": job.gid,
            "account": job.account or None,
            "partition": job.partition,
            "qos": job.qos or None,
            "wckey": values["wckey"] or None,
            "reservation": values["reservation"] or None,
            "job_state": job.state | job.flags,
            "exit_code": job.exit_code,
            "derived_ec": job.derived_exit_code,
            "restart_cnt": job.attempt,
            "time_limit": job.time_limit_min,
            "time_min": _given(values["time_min_min"]),
            "delay_boot": _given(values["delay_boot_min"]) * 60,
            "priority": self._soft.priority_of(job),
            "direct_set_prio": int(0 < job.priority < NO_VAL),
            "site_factor": job.site_factor,
            "nice": NICE_OFFSET + job.nice,
            "comment": job.comment or None,
            "admin_comment": job.admin_comment or None,
            "submit_time": job.submit_us // SECOND_US,
            "start_time": job.start_us // SECOND_US,
            "end_time": end_us // SECOND_US,
            "alloc_node": values["alloc_node"] or None,
            "batch_host": values["batch_host"] or None,
            "batch_features": values["batch_features"] or None,
            "burst_buffer_state": values["burst_buffer_state"] or None,
            "nodes": values["nodes"] or None,
            "licenses": values["licenses"] or None,
            "reboot": int(bool(asked.get("flags", 0) & REQ_REBOOT)),
            "req_switch": values["switches"],
            "wait4switch": values["switches_wait_s"],
            "min_nodes": max(1, values["nodes_min"]),
            "max_nodes": values["nodes_max"],
            "num_tasks": asked.get("ntasks") or NO_VAL,
            "pn_min_cpus": max(values["mincpus"], tasks_each * max(1, values["cpus_each"])),
            "min_mem_per_cpu": per_cpu or None,
            "min_mem_per_node": None if per_cpu else per_node,
            "pn_min_memory": MEM_PER_CPU + per_cpu if per_cpu else per_node,
            "gres_req": values["tres_req"] or None,
            "gres_used": values["gres_alloc"] or None,
            "tres_fmt_req_str": values["tres_req"] or None,
            "tres_fmt_alloc_str": values["tres_alloc"] or None,
            "total_nodes": len(job.nodes),
            "total_cpus": sum(alloc.charged_cpus for alloc in job.nodes),
        }


def _given(number: int) -> int:
    return 0 if number == NO_VAL else number


def _asked(job: Job) -> dict[str, Any]:
    request: dict[str, Any] = msgspec.to_builtins(whole_request(job.request))
    return request
