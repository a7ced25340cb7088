"""`sacctmgr show runawayjobs`: ends the jobs that its user has confirmed."""

from __future__ import annotations

from pyslurm_ng.base.units import plural, whole_number
from pyslurm_ng.dbd import open_jobs
from pyslurm_ng.dbd.admin.change import Change, RefusedError, refuse_denied
from pyslurm_ng.dbd.admin.words import Words


def end(change: Change, where: Words, _: Words) -> None:
    """End the records of the jobs with these ids, on the clusters named.

    Raises:
        RefusedError: no rights, no ids, or no such cluster.
    """
    if not change.actor.is_operator:
        raise refuse_denied()
    job_ids = ids_of(where)
    if not job_ids:
        raise RefusedError(" IDs must be given.")
    for cluster_id, name in change.clusters(where, must_exist=True):
        count = open_jobs.end(change.connection, cluster_id, job_ids)
        if count:
            change.log("Fix Runaway Jobs", name, "", plural(count, "job"))
            change.changed += count


def ids_of(where: Words) -> list[int]:
    """Return the job ids that the conditions name.

    Raises:
        RefusedError: one is no number.
    """
    ids = []
    for text in where.values("IDs"):
        number = whole_number(text)
        if number is None:
            raise RefusedError(f" Bad job id: {text}")
        ids.append(number)
    return ids
