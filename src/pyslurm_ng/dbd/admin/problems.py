"""`sacctmgr delete problem`: forget the events that could not be stored."""

from __future__ import annotations

from pyslurm_ng.base.units import plural
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import Change, DeniedError, RefusedError
from pyslurm_ng.dbd.admin.words import Words


def delete(change: Change, where: Words, _: Words) -> None:
    """Delete the rows set aside that `sacctmgr show problem` lists, of all or the named clusters.

    Raises:
        RefusedError: no rights, a condition other than Clusters, no such cluster, or no problem.
    """
    if not change.actor.is_administrator:
        raise DeniedError(" Only administrators may delete problems")
    other = next((key for key, _, _ in where.items if key != "Clusters"), "")
    if other:
        raise RefusedError(f" delete problem takes only the condition Clusters, not {other}")
    table = schema.problem_rows
    for cluster_id, name in change.clusters(where, must_exist=True):
        gone = change.connection.execute(
            table.delete().where(table.c.cluster_id == cluster_id)
        ).rowcount
        if gone:
            change.lines.append(f" Deleting {plural(gone, 'problem')} of cluster {name}")
            change.changed += gone
    if not change.changed:
        raise RefusedError(" Nothing deleted", is_output=True)
