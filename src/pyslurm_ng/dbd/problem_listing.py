"""`sacctmgr list problem`: what makes submissions fail, and events that could not be stored."""

from __future__ import annotations

import pwd
from collections.abc import Iterable, Iterator

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import DeniedError, refuse_denied
from pyslurm_ng.dbd.list_request import Asked
from pyslurm_ng.dbd.tree import Row, Tree

FIELDS = ("Cluster", "Account", "User", "Problem")


def problems(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    """Return accounts and users whose jobs fail, and events that were set aside.

    An account or user without any association has no cluster.

    Raises:
        DeniedError: as in Slurm, only operators may ask.
    """
    if not asked.actor.is_operator:
        raise DeniedError("Access/permission denied", *refuse_denied().lines)
    accounts = asked.where.values("Accounts", lower=True)
    users = asked.where.users("Users")
    trees = [(number, name, Tree(asked.connection, number)) for number, name in asked.clusters()]
    tied = [row for _, _, tree in trees for row in tree.rows.values()]
    shown: list[Row] = []
    if not asked.where.values("Clusters"):
        shown += _without_associations(
            asked, schema.accounts, "Account", {row["account"] for row in tied}
        )
    for number, cluster, tree in trees:
        shown += [
            _row("Account has no users", cluster=cluster, account=row["account"])
            for row in tree.rows.values()
            if not row["user"] and row["account"] != "root" and row["id"] not in tree.children
        ]
        shown += _rows_set_aside(asked, number, cluster)
    if not asked.where.values("Clusters"):
        names = {row["user"] for row in tied}
        shown += _without_associations(asked, schema.users, "User", names)
        shown += [
            _row("User does not have a uid", user=name)
            for name in sorted(filter(None, names))
            if not _has_uid(name)
        ]
    return FIELDS, [
        row
        for row in shown
        if (not accounts or row["Account"] in accounts) and (not users or row["User"] in users)
    ]


def _row(problem: str, cluster: str = "", account: str = "", user: str = "") -> Row:
    return {"Cluster": cluster, "Account": account, "User": user, "Problem": problem}


def _without_associations(
    asked: Asked, table: sa.Table, what: str, tied: set[str]
) -> Iterator[Row]:
    query = sa.select(table.c.name).where(table.c.is_deleted == 0).order_by(table.c.name)
    for name in asked.connection.execute(query).scalars():
        if name not in tied:
            yield _row(f"{what} has no Associations", **{what.lower(): name})


def _has_uid(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _rows_set_aside(asked: Asked, cluster_id: int, cluster: str) -> Iterator[Row]:
    """Yield events of the cluster's journal that could not be stored."""
    table, jobs = schema.problem_rows, schema.jobs
    of_job = (
        (jobs.c.cluster_id == table.c.cluster_id)
        & (jobs.c.job_id == table.c.job_id)
        & (jobs.c.is_last == 1)
    )
    query = (
        sa.select(table, jobs.c.account, jobs.c.user)
        .outerjoin(jobs, of_job)
        .where(table.c.cluster_id == cluster_id)
        .order_by(table.c.id)
    )
    for row in asked.connection.execute(query):
        whose = f" of job {row.job_id}" if row.job_id else ""
        yield {
            "Cluster": cluster,
            "Account": row.account or "",
            "User": row.user or "",
            "Problem": f"Not stored: {row.kind}{whose} (record {row.sequence}): {row.error}",
        }
