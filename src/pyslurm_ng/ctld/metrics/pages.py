"""The pages of metrics: the families of Slurm 26.11 by its paths, and ours below /metrics/pyslurm.

Names, labels and units of Slurm's families are what its controller was seen to print; the texts of
help are ours.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TypeAlias

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.metrics import job_sums, node_sums
from pyslurm_ng.ctld.metrics.job_sums import count_jobs
from pyslurm_ng.ctld.metrics.node_sums import count_nodes
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.daemon.metrics_text import family, table
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import reason_text

Lines: TypeAlias = list[str]
Work: TypeAlias = Generator[None, None, Lines]

_MOST_IN_A_SLICE = 5_000
_MEAN = "since the counters were reset, on average of a pass"
_SCHEDULER = (
    ("agent_cnt", "agents", "Messages to nodes under way"),
    ("agent_queue_size", "agent_queue", "Orders that nodes have not confirmed yet"),
    ("agent_thread_cnt", "", "Always 0: no threads send messages"),
    ("bf_depth_mean", "schedule_depth/", f"Jobs looked at {_MEAN}"),
    ("bf_mean_cycle", "schedule_total_us/", f"Microseconds {_MEAN}"),
    ("bf_mean_table_sz", "schedule_slots_total/", f"Slots of the timeline {_MEAN}"),
    ("bf_queue_len_mean", "schedule_queue_total/", f"Jobs in the queue {_MEAN}"),
    ("bf_try_depth_mean", "schedule_tried/", f"Jobs that room was looked for {_MEAN}"),
    ("backfilled_het_jobs", "backfilled_het", "Components of het jobs started by backfill"),
    ("backfilled_jobs", "backfilled_ever", "Jobs started by backfill since the controller started"),
    ("bf_active", "", "Always 0: each pass plans the whole queue"),
    ("bf_cycle_cnt", "schedule_cycles", "Passes since the counters were reset"),
    ("bf_cycle_last", "schedule_last_us", "Microseconds of the last pass"),
    ("bf_cycle_max", "schedule_max_us", "Microseconds of the longest pass"),
    ("bf_cycle_tot", "schedule_total_us", "Microseconds of all passes"),
    ("bf_depth_tot", "schedule_depth", "Jobs looked at by all passes"),
    ("bf_depth_try_tot", "schedule_tried", "Jobs that all passes looked for room for"),
    ("bf_last_depth", "tested_last_pass", "Jobs that the last pass looked at"),
    ("bf_last_depth_try", "tried_last_pass", "Jobs that the last pass looked for room for"),
    ("bf_queue_len", "schedule_queue", "Jobs in the queue of the last pass"),
    ("bf_queue_len_tot", "schedule_queue_total", "Jobs in the queues of all passes"),
    ("bf_table_size", "schedule_slots", "Slots of the timeline of the last pass"),
    ("bf_table_size_tot", "schedule_slots_total", "Slots of the timelines of all passes"),
    ("bf_when_last_cycle", "schedule_when_us@", "Time of the last pass"),
    ("sdiag_jobs_canceled", "jobs_canceled", "Jobs cancelled since the counters were reset"),
    ("sdiag_jobs_completed", "jobs_completed", "Jobs completed since the counters were reset"),
    ("sdiag_jobs_failed", "jobs_failed", "Jobs failed since the counters were reset"),
    ("sdiag_jobs_pending", "jobs_pending", "Jobs that wait"),
    ("sdiag_jobs_running", "jobs_running", "Jobs that run"),
    ("sdiag_jobs_started", "jobs_started", "Jobs started since the counters were reset"),
    ("sdiag_jobs_submitted", "jobs_submitted", "Jobs submitted since the counters were reset"),
    ("sdiag_job_states_ts", "now_us@", "Time at which jobs were counted by state"),
    ("last_backfilled_jobs", "backfilled", "Jobs started by backfill since the counters' reset"),
    ("sdiag_latency", "clock_latency_us", "Microseconds of a thousand looks at the clock"),
    ("schedule_cycle_cnt", "schedule_cycles", "Passes since the counters were reset"),
    ("schedule_cycle_depth", "schedule_depth", "Jobs looked at by all passes"),
    ("schedule_cycle_last", "schedule_last_us", "Microseconds of the last pass"),
    ("schedule_cycle_max", "schedule_max_us", "Microseconds of the longest pass"),
    ("schedule_cycle_tot", "schedule_total_us", "Microseconds of all passes"),
    ("schedule_queue_len", "schedule_queue", "Jobs in the queue of the last pass"),
    ("sched_exit_end", "schedule_cycles", "Passes that looked at the whole queue"),
    ("sched_exit_max_depth", "", "Always 0: passes are not cut by depth"),
    ("sched_exit_max_job_start", "", "Always 0: passes are not cut by jobs started"),
    ("sched_exit_lic", "", "Always 0: passes are not cut by licences"),
    ("sched_exit_rpc_cnt", "", "Always 0: passes are not cut by requests"),
    ("sched_exit_timeout", "", "Always 0: passes are not cut by time"),
    ("bf_exit_end", "whole_passes", "Passes that planned the whole queue"),
    ("bf_exit_max_job_start", "cut_by_start", "Passes cut by bf_max_job_start"),
    ("bf_exit_max_job_test", "cut_by_test", "Passes cut by bf_max_job_test"),
    ("bf_exit_state_changed", "", "Always 0: a pass goes on when the state changes"),
    ("bf_exit_table_limit", "", "Always 0: the timeline has no limit"),
    ("bf_exit_timeout", "", "Always 0: passes are not cut by time"),
    ("sched_mean_cycle", "schedule_total_us/", f"Microseconds {_MEAN}"),
    ("sched_mean_depth_cycle", "schedule_depth/", f"Jobs looked at {_MEAN}"),
    ("server_thread_cnt", "threads", "Threads that serve requests"),
    ("slurmdbd_queue_size", "dbd_queue", "Batches of records that slurmdbd has not confirmed"),
    ("last_proc_req_start", "since_us@", "Time at which the counters were reset"),
    ("sched_stats_timestamp", "now_us@", "Time at which these numbers were read"),
)
"""(suffix, counter, help); `/` takes the mean of a pass, `@` a time in seconds since 1970."""

_PARTITION_NODES = {
    "completing": "cg", "noresp": "no_resp", "reboot_req": "reboot_requested",
}  # fmt: skip
"""Where the family of a partition has another name than that of all nodes."""
_PARTITION_AMOUNTS = (
    ("nodes_cpus_efctv", 2, "CPUs that jobs may use"),
    ("nodes_cpus_idle", 3, "CPUs that jobs may use and that are not in use"),
    ("nodes_cpus_alloc", 1, "CPUs in use"),
    ("nodes_mem_alloc", 6, "Memory in use, in MiB"),
    ("nodes_mem_avail", 7, "Memory that jobs may use, in MiB"),
    ("nodes_mem_free", 8, "Memory that the kernels call free, in MiB"),
    ("nodes_mem_tot", 9, "Memory, in MiB"),
    ("cpus", 0, "CPUs"),
    ("gpus", 4, "GPUs"),
)


def jobs_page(cluster: Cluster, soft: Soft) -> Work:
    """Return `/metrics/jobs`."""
    sums = yield from count_jobs(cluster, soft)
    return table("slurm_jobs", job_sums.COLUMNS, {"": sums.all})


def users_page(cluster: Cluster, soft: Soft) -> Work:
    """Return `/metrics/jobs-users-accts`."""
    sums = yield from count_jobs(cluster, soft)
    lines: Lines = []
    for kind, label, groups in (
        ("user", "username", sums.by_user),
        ("account", "account", sums.by_account),
    ):
        rows = dict(sorted(groups.items()))
        lines += table(f"slurm_{kind}_jobs", job_sums.COLUMNS, rows, label)
        yield
    return lines


def nodes_page(cluster: Cluster, soft: Soft) -> Work:
    """Return `/metrics/nodes`."""
    sums = yield from count_nodes(cluster, soft)
    lines: Lines = []
    for column in range(len(node_sums.AMOUNTS)):
        suffix, purpose = node_sums.AMOUNTS[column]
        samples = ((name, amounts[column]) for name, amounts in sums.amounts.items())
        lines += family(f"slurm_node_{suffix}", purpose, samples, "node")
        yield
    lines += family("slurm_nodes", "Nodes", [("", len(sums.amounts))])
    return lines + table("slurm_nodes", node_sums.STATES, {"": sums.all})


def partitions_page(cluster: Cluster, soft: Soft) -> Work:
    """Return `/metrics/partitions`."""
    jobs = yield from count_jobs(cluster, soft)
    nodes = yield from count_nodes(cluster, soft)
    lines = family("slurm_partitions", "Partitions", [("", len(jobs.by_partition))])
    label = "partition"
    lines += table("slurm_partition_jobs", job_sums.COLUMNS, jobs.by_partition, label)
    lines += table("slurm_partition", job_sums.PARTITION_COLUMNS, jobs.sizes, label)
    yield
    states = [
        (f"nodes_{_PARTITION_NODES.get(suffix, suffix)}", purpose)
        for suffix, purpose in node_sums.STATES
    ]
    lines += table("slurm_partition", states, nodes.by_partition, label)
    for suffix, column, purpose in _PARTITION_AMOUNTS:
        samples = ((name, row[column]) for name, row in nodes.amounts_by_partition.items())
        lines += family(f"slurm_partition_{suffix}", purpose, samples, label)
    counts = nodes.nodes_by_partition.items()
    return lines + family("slurm_partition_nodes", "Nodes of a partition", counts, label)


def scheduler_page(counters: Mapping[str, int]) -> Lines:
    """Return `/metrics/scheduler`, from the counters of sdiag and times."""
    cycles = counters["schedule_cycles"]
    lines: Lines = []
    for suffix, counter, purpose in _SCHEDULER:
        value = counters[counter.rstrip("/@")] if counter else 0
        if counter.endswith("/"):
            value = value // cycles if cycles else 0
        elif counter.endswith("@"):
            value //= SECOND_US
        lines += family(f"slurm_{suffix}", purpose, [("", value)])
    return lines


def own_page(
    counters: Mapping[str, int], soft: Soft, more: Sequence[tuple[str, str, str, float]]
) -> Work:
    """Return our own families: what Slurm's controller has no word for.

    Args:
        more: (suffix, help, kind, number) of what only the daemon knows.
    """
    lines: Lines = []
    rows = [
        ("pass_seconds", "Duration of the last scheduling pass", "gauge",
         counters["schedule_last_us"] / SECOND_US),
        ("pass_seconds_total", "Duration of all passes since the counters were reset", "counter",
         counters["schedule_total_us"] / SECOND_US),
        ("pass_depth", "Jobs that the last pass looked at", "gauge", counters["tested_last_pass"]),
        ("duties", "Orders that nodes have not confirmed yet", "gauge", counters["agent_queue"]),
        ("slurmdbd_batches_waiting", "Batches of records that slurmdbd has not confirmed", "gauge",
         counters["dbd_queue"]),
        ("slurmdbd_connected", "Whether slurmdbd is connected", "gauge", int(soft.dbd_connected)),
        ("epoch", "How often a controller took command", "gauge", counters["epoch"]),
        ("journal_sequence", "The newest batch of events", "gauge", counters["sequence"]),
        ("journal_bytes_total", "Bytes written to the journal since the start", "counter",
         counters["journal_bytes"]),
        ("journal_syncs_total", "Groups of batches that were written to disk together", "counter",
         counters["journal_groups"]),
        *more,
    ]  # fmt: skip
    for suffix, purpose, kind, value in rows:
        lines += family(f"pyslurm_{suffix}", purpose, [("", value)], kind=kind)
    reasons: dict[str, int] = {}
    for index, wait in enumerate(list(soft.reason.values())):
        if index % _MOST_IN_A_SLICE == _MOST_IN_A_SLICE - 1:
            yield
        name = reason_text(wait.reason)
        reasons[name] = reasons.get(name, 0) + 1
    lines += family(
        "pyslurm_jobs_waiting", "Records of waiting jobs by the reason that the last pass gave",
        sorted(reasons.items()), "reason",
    )  # fmt: skip
    lines += family(
        "pyslurm_faults", "Errors that cost one job, node, message or row",
        sorted(soft.faults.items()), "kind",
    )  # fmt: skip
    refused = sorted(soft.refused.items())
    return lines + family("pyslurm_requests_refused", "Requests refused by cause", refused, "cause")
