"""What `sacctmgr modify account set RawUsage=0` takes away: as measured with Slurm 22.05.

What an account and all below it have used is zero, and the accounts above have used so much less.
QOS are not concerned; a QOS that is reset itself is zero, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyslurm_ng.ctld.followers.usage_charges import Charge, Charging, charge_run
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.limits.usage import Ledger, OwnerKey, Spent


def runs_of(cluster: Cluster, job_ids: Iterable[int], event: ev.UsageReset) -> list[int]:
    """Return those of some jobs that belong to associations with usage that is reset."""
    assoc_ids = set(event.assoc_ids)
    return [job_id for job_id in job_ids if cluster.jobs[job_id].assoc_id in assoc_ids]


def take_away(
    charging: Charging, ledger: Ledger, holds: Mapping[int, Charge], event: ev.UsageReset
) -> dict[OwnerKey, None]:
    """Set usage to zero in a ledger; return who else changed: accounts above and QOS.

    Args:
        holds: what running jobs are charged for; QOS are charged for what ran so far.
    """
    cluster, at_us = charging.cluster, event.time_us
    changed: dict[OwnerKey, None] = {}
    for job_id in runs_of(cluster, holds, event):
        charge = holds[job_id]
        charge = charge._replace(owners=tuple(name for name in charge.owners if name[0] == "qos"))
        charge_run(charging, ledger, cluster.jobs[job_id], charge, at_us)
        changed.update(dict.fromkeys(charge.owners))
    assoc_ids = set(event.assoc_ids)
    for assoc_id in event.assoc_ids:
        assoc = cluster.assocs.get(assoc_id)
        if assoc is None or assoc.parent_id in assoc_ids:
            continue  # the parent is reset, too, and its usage includes this
        lost = ledger.of(("assoc", assoc_id), at_us)
        above = cluster.assocs.get(assoc.parent_id)
        while above is not None:
            owner: OwnerKey = ("assoc", above.assoc_id)
            ledger.put(owner, at_us, ledger.of(owner, at_us).less(lost))
            changed[owner] = None
            above = cluster.assocs.get(above.parent_id)
    for owner in reset_owners(event):
        ledger.put(owner, at_us, Spent())
    return changed


def reset_owners(event: ev.UsageReset) -> list[OwnerKey]:
    """Return the associations and QOS with usage that is zero now."""
    owners: list[OwnerKey] = [("assoc", assoc_id) for assoc_id in event.assoc_ids]
    return [*owners, *(("qos", name) for name in event.qos)]
