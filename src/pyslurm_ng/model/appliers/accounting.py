"""How associations, QOS and what was used of them change."""

from __future__ import annotations

from .. import events as ev
from ..assoc import OwnerUsage
from ..cluster import Cluster
from ..states import JobFlag
from .charges import charge_so_far
from .registry import applies


@applies(ev.AssocChanged)
def _assoc_changed(cluster: Cluster, event: ev.AssocChanged) -> None:
    if event.replace:
        cluster.assocs, cluster.users = {}, {}
    for assoc in event.changed:
        cluster.assocs[assoc.assoc_id] = assoc
    for assoc_id in event.removed:
        cluster.assocs.pop(assoc_id, None)
    for user in event.users:
        cluster.users[user.name] = user
    for name in event.users_removed:
        cluster.users.pop(name, None)
    cluster.assoc_version = event.version or cluster.assoc_version
    cluster.assoc_index.enter_all(cluster.assocs.values())


@applies(ev.QosChanged)
def _qos_changed(cluster: Cluster, event: ev.QosChanged) -> None:
    if event.replace:
        cluster.qos = {}
    for qos in event.changed:
        cluster.qos[qos.name] = qos
    for name in event.removed:
        cluster.qos.pop(name, None)


@applies(ev.UsageReset)
def _usage_reset(cluster: Cluster, event: ev.UsageReset) -> None:
    if event.is_all:
        cluster.usage.clear()
        cluster.usage_since_us = event.time_us
    keys: list[tuple[str, int | str]] = [("assoc", assoc_id) for assoc_id in event.assoc_ids]
    for kind, owner in (*keys, *(("qos", name) for name in event.qos)):
        at_us = event.time_us
        cluster.usage[kind, owner] = OwnerUsage(kind, owner, at_us, since_us=at_us)
    assoc_ids = set(event.assoc_ids)
    if assoc_ids:
        for job in map(cluster.jobs.__getitem__, cluster.job_index.active):
            if job.assoc_id in assoc_ids and not job.flags & JobFlag.COMPLETING:
                charge_so_far(job, event.time_us)


@applies(ev.UsageKept)
def _usage_kept(cluster: Cluster, event: ev.UsageKept) -> None:
    assert event.until_us >= cluster.usage_until_us, event
    cluster.usage_until_us = event.until_us
    for usage in event.owners:
        cluster.usage[usage.kind, usage.owner] = usage
    # When accounting removes an association, its usage is removed, too.
    for kind, owner in list(cluster.usage):
        if owner not in (cluster.assocs if kind == "assoc" else cluster.qos):
            del cluster.usage[kind, owner]
