"""Licences, reservations and counters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.tres import format_tres
from pyslurm_ng.ctld.queries.job_fields import ids_of_mask
from pyslurm_ng.ctld.queries.records import array_head, elements
from pyslurm_ng.ctld.rules.reservation.reservation_nodes import cores_and_cpus
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster, is_remote
from pyslurm_ng.model.license_server import ServerUse
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.reservation.licenses import in_force
from pyslurm_ng.sched.reservation.reserved import may_use
from pyslurm_ng.wire.query_messages import (
    Diagnostics,
    Records,
    ShowDiagnostics,
    ShowLicenses,
    ShowReservations,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.ctld.rules.context import Caller

LICENSE_FIELDS = [
    "name",
    "total",
    "used",
    "free",
    "reserved",
    "remote",
    "last_consumed",
    "last_deficit",
    "last_update_us",
]
_NO_SERVER = ServerUse("", 0, 0, 0)
RESERVATION_FIELDS = [
    "name",
    "start_us",
    "end_us",
    "nodes",
    "node_count",
    "core_count",
    "features",
    "partition",
    "flags",
    "tres",
    "users",
    "groups",
    "accounts",
    "qos",
    "licenses",
    "max_start_delay_s",
    "comment",
    "purge_s",
    "core_ids",  # of nodes held in part: "n1 0-3;n2 5,7"
    "allowed_partitions",
    "burst_buffer",
]


def show_licenses(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowLicenses,
    caller: Caller,
    now_us: int,
) -> Records | Reject:
    """Return licences by name."""
    packed = []
    kept: Counter[str] = Counter()
    for _, counts in in_force(cluster.reservations.values(), now_us):
        kept.update(counts)
    for name in sorted(cluster.licenses):
        if request.names and name not in request.names:
            continue
        total, used = cluster.licenses[name], cluster.licenses_used.get(name, 0)
        free, server = cluster.licenses_left(name), cluster.license_servers.get(name, _NO_SERVER)
        row = (
            *(name, total, used, free, kept[name], is_remote(name)),
            *(server.consumed, server.deficit, server.updated_us),
        )
        packed.append(bytes([0x90 + len(row)]) + elements(row))
    return Records(
        now_us=now_us,
        fields=LICENSE_FIELDS,
        records=b"".join(packed),
        cluster_name=cluster.cluster_name,
        last_update_us=cluster.time_us,
    )


def show_reservations(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowReservations,
    caller: Caller,
    now_us: int,
) -> Records | Reject:
    """Return reservations in order of creation; PrivateData hides those of others."""
    words = {word.lower() for word in conf.private_data}
    is_private = "reservations" in words and not caller.is_operator
    packed = []
    for item in cluster.reservations.values():
        if request.name and item.name != request.name:
            continue
        if is_private and not _concerns(cluster, item, caller):
            continue
        nodes = [node for node_id in item.node_ids if (node := cluster.nodes[node_id]) is not None]
        cores, cpus = cores_and_cpus(cluster, item)
        values = (
            item.name,
            item.start_us,
            item.end_us,
            hostlist.fold([node.spec.name for node in nodes]),
            len(nodes),
            cores,
            item.features,
            item.partition,
            ",".join(item.flags),
            item.tres or format_tres({"cpu": cpus, **_devices(item)}),
            ",".join(item.users),
            ",".join(item.groups),
            ",".join(item.accounts),
            ",".join(item.qos),
            item.licenses,
            item.max_start_delay_s,
            item.comment,
            item.purge_s,
            _core_ids(cluster, item),
            ",".join(item.allowed_partitions),
            item.burst_buffer,
        )
        packed.append(array_head(len(values)) + elements(values))
    return Records(
        now_us=now_us,
        fields=RESERVATION_FIELDS,
        records=b"".join(packed),
        cluster_name=cluster.cluster_name,
        last_update_us=cluster.time_us,
    )


def _core_ids(cluster: Cluster, item: Reservation) -> str:
    """Return the cores of each node that a reservation holds in part."""
    return ";".join(
        f"{node.spec.name} {ids_of_mask(mask)}"
        for node_id, mask in zip(item.node_ids, item.core_masks, strict=False)
        if mask and (node := cluster.nodes[node_id]) is not None
    )


def _devices(item: Reservation) -> dict[str, int]:
    """Return how many devices a reservation holds, by name and by name and type."""
    found: dict[str, int] = {}
    for held in (held for of_node in item.gres for held in of_node):
        keys = [f"gres/{held.name}", f"gres/{held.name}:{held.type}"][: 2 if held.type else 1]
        for key in keys:
            found[key] = found.get(key, 0) + held.count
    return found


def _concerns(cluster: Cluster, item: Reservation, caller: Caller) -> bool:
    """Return whether a user may use a reservation with one of its accounts and QOS."""
    groups = (*caller.groups, caller.group_name)
    own = [assoc for assoc in cluster.assocs.values() if assoc.user == caller.user_name]
    standings = [(assoc.account, qos) for assoc in own for qos in assoc.qos or ("",)]
    return any(
        may_use(item, caller.user_name, account, qos, groups)
        for account, qos in standings or [("", "")]
    )


def show_diagnostics(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowDiagnostics,
    caller: Caller,
    now_us: int,
    *,
    user_names: Mapping[int, str] | None = None,
) -> Diagnostics:
    """Return the counters of sdiag."""
    passes, jobs = soft.passes, soft.jobs
    running = sum(1 for job_id in cluster.active if cluster.jobs[job_id].state == JobState.RUNNING)
    names = user_names or {}
    counters = {
        "agent_queue": soft.agent_queue,
        "agents": soft.agents,
        "dbd_queue": soft.dbd_queue,
        "jobs_submitted": jobs.submitted,
        "jobs_started": jobs.started,
        "jobs_completed": jobs.completed,
        "jobs_canceled": jobs.cancelled,
        "jobs_failed": jobs.failed,
        "jobs_pending": len(cluster.pending) + cluster.unsplit_tasks,
        "jobs_running": running,
        "schedule_last_us": passes.last_us,
        "schedule_max_us": passes.longest_us,
        "schedule_total_us": passes.total_us,
        "schedule_cycles": passes.cycles,
        "schedule_depth": passes.tested,
        "schedule_queue": passes.queue_length,
        "schedule_when_us": passes.last_at_us,
        "backfilled": passes.started,
        "backfilled_ever": passes.started_ever,
        "backfilled_het": passes.het_components,
        "cut_by_test": passes.cut_by.get("bf_max_job_test", 0),
        "cut_by_start": passes.cut_by.get("bf_max_job_start", 0),
        "started_last_pass": passes.last_started,
        "tested_last_pass": passes.last_tested,
        "tried_last_pass": passes.last_tried,
        "schedule_tried": passes.tried,
        "schedule_queue_total": passes.queue_total,
        "schedule_slots": passes.slots,
        "schedule_slots_total": passes.slots_total,
        "clock_latency_us": soft.clock_latency_us,
        "epoch": cluster.epoch,
        "sequence": cluster.sequence,
        "journal_bytes": soft.journal_bytes,
        "journal_groups": soft.journal_groups,
        **{f"refused_{cause}": count for cause, count in soft.refused.items()},
    }
    return Diagnostics(
        now_us=now_us,
        since_us=soft.reset_us or soft.started_us,
        counters=counters,
        messages=[(kind, call.count, call.total_us) for kind, call in soft.calls.items()],
        users=[
            (uid, names.get(uid, ""), call.count, call.total_us)
            for uid, call in soft.callers.items()
        ],
    )
