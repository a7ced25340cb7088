"""`scontrol show assoc_mgr`: limits as the controller knows them, and what counts against them.

Answers of many associations or jobs take long, so they are made in slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import msgspec

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.ctld.rules.private_data import AssociationAudience
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.sched.fair_share.factors import ShareFigures, ShareStanding, share_figures
from pyslurm_ng.sched.limits.running_amounts import Used
from pyslurm_ng.sched.limits.usage import OwnerKey, Spent
from pyslurm_ng.wire.query_messages import (
    AssociationShown,
    AssociationsShown,
    Counted,
    QosShown,
    ShowAssociations,
    UserShown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.ctld.rules.context import Caller

T = TypeVar("T")
Key = tuple[str | int, ...]
SLICE = 128
"""Associations or jobs of one slice: a millisecond or two."""
_NOTHING = Used()


def show_associations(
    cluster: Cluster,
    conf: SlurmConf,
    request: ShowAssociations,
    caller: Caller,
    used: Mapping[Key, Used],
    spent: Callable[[OwnerKey], Spent],
    standing: ShareStanding,
) -> Generator[None, None, AssociationsShown]:
    """Return the records that were asked for, as far as PrivateData lets the caller see them.

    It yields wherever messages may go first.

    Args:
        used: what runs, by counter (see `Quotas.used`).
        spent: what associations and QOS have used.
        standing: how associations stand in fair-share.
    """
    audience = AssociationAudience(cluster, conf, caller)
    counters = _Counters(used, spent)
    for some in _slices((*cluster.job_index.pending, *cluster.job_index.active)):
        counters.count_waiting(cluster, some)
        yield
    parts = set(request.parts or ("assoc", "qos", "users"))
    names, accounts = frozenset(request.users), frozenset(request.accounts)
    users = [
        UserShown(user.name, user.default_account, user.default_wckey, user.admin_level)
        for user in cluster.users.values()
        if (audience.sees_users or user.name == caller.user_name)
        and (not names or user.name in names)
    ]
    qos = [
        qos
        for qos in sorted(cluster.qos.values(), key=lambda qos: qos.qos_id)
        if not request.qos or qos.name in request.qos
    ]
    shown: list[AssociationShown] = []
    if "assoc" in parts:
        figures = share_figures(standing.tree, standing.usage, standing.rules)
        yield
        for assocs in _slices(sorted(cluster.assocs.values(), key=lambda assoc: assoc.lineage)):
            chosen = [
                assoc
                for assoc in assocs
                if audience.sees(assoc)
                and (not accounts or assoc.account in accounts)
                # A filter of users keeps the accounts themselves.
                and (not names or not assoc.user or assoc.user in names)
            ]
            shown += _associations(cluster, chosen, counters, standing, figures)
            yield
    return AssociationsShown(
        cluster_name=cluster.cluster_name,
        tres=list(conf.tracked_tres()),
        users=users if "users" in parts else [],
        associations=shown,
        qos=[_qos(shown, counters, audience, caller) for shown in qos] if "qos" in parts else [],
    )


def _slices(values: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(values)
    while some := list(islice(iterator, SLICE)):
        yield some


class _Counters:
    """Adds up waiting jobs, running jobs and usage, by counter."""

    def __init__(self, used: Mapping[Key, Used], spent: Callable[[OwnerKey], Spent]) -> None:
        self.used = used
        self.spent = spent
        self._waiting: dict[Key, tuple[int, int]] = {}  # submitted, gathering age
        self._of_parts: dict[Key, list[Key]] = {}  # keys of users and accounts, by QOS

    def count_waiting(self, cluster: Cluster, job_ids: Iterable[int]) -> None:
        """Count jobs that are submitted; some may have gone since they were listed."""
        for job_id in job_ids:
            job = cluster.jobs.get(job_id)
            if job is not None:
                self._add(cluster, job, is_pending=job_id in cluster.job_index.pending)

    def _add(self, cluster: Cluster, job: Job, *, is_pending: bool) -> None:
        tasks = task_ranges.count(job.array_pending) if job.array_pending else 1
        accruing = tasks if is_pending and job.accrue_us else 0
        for key in _keys(cluster, job):
            submitted, gathering = self._waiting.get(key, (0, 0))
            self._waiting[key] = submitted + tasks, gathering + accruing

    def of(self, key: Key) -> Counted:
        """Return what counts under one key."""
        used = self.used.get(key, _NOTHING)
        submitted, accruing = self._waiting.get(key, (0, 0))
        # Owners have a ledger as a whole, not in parts.
        spent = self.spent((str(key[0]), key[1])) if len(key) == 2 else Spent()
        return Counted(
            jobs=used.jobs,
            accruing=accruing,
            submitted=submitted,
            wall_min=spent.wall_s / 60,
            tres={**used.tres, "node": len(used.node_ids)},
            tres_s=spent.tres_s,
            run_min=used.run_min,
            usage_s=spent.tres_s.get("billing", 0.0),
        )

    def parts(self, name: str, kind: str) -> dict[str, Counted]:
        """Return what counts for each user or account of a QOS."""
        if not self._of_parts:
            for key in dict.fromkeys((*self.used, *self._waiting)):
                if len(key) == 4:
                    self._of_parts.setdefault(key[1:3], []).append(key)
        keys = self._of_parts.get((name, kind), ())
        return {str(key[3]): self.of(key) for key in sorted(keys, key=lambda key: str(key[3]))}


def _keys(cluster: Cluster, job: Job) -> Iterator[Key]:
    """Yield the counters of a job; the same that `Quotas` keeps."""
    assoc = cluster.assocs.get(job.assoc_id)
    while assoc is not None:
        yield "assoc", assoc.assoc_id
        assoc = cluster.assocs.get(assoc.parent_id)
    partition = cluster.partitions.get(job.partition)
    for name in dict.fromkeys((job.qos, partition.qos if partition is not None else "")):
        if name in cluster.qos:
            yield "qos", name
            yield "qos", name, "user", job.uid
            yield "qos", name, "account", job.account


def _associations(
    cluster: Cluster,
    assocs: Iterable[Association],
    counters: _Counters,
    standing: ShareStanding,
    figures: Sequence[ShareFigures],
) -> Iterator[AssociationShown]:
    """Yield associations as they stand in a tree; those made since are left out."""
    tree = standing.tree
    for assoc in assocs:
        number = tree.index.get(assoc.assoc_id)
        if number is None:
            continue
        above = assoc.parent_id
        parent = cluster.assocs.get(above)
        level, figure = tree.parents[number], figures[number]
        yield AssociationShown(
            assoc_id=assoc.assoc_id,
            account=assoc.account,
            user=assoc.user,
            partition=assoc.partition,
            parent=parent.account if parent is not None else "",
            parent_id=above,
            lineage=assoc.lineage,
            comment=assoc.comment,
            priority=assoc.priority,
            shares=assoc.shares if assoc.shares != INFINITE else -1,
            level_shares=tree.level_shares[level] if level >= 0 else assoc.shares,
            norm_shares=figure.shares,
            norm_usage=figure.usage,
            effective_usage=figure.effective_usage,
            level=figure.level,
            factor=standing.factors.get(assoc.assoc_id, -1.0),
            is_default=assoc.is_default,
            limits=_set(assoc.limits),
            counted=counters.of(("assoc", assoc.assoc_id)),
        )


def _qos(qos: Qos, counters: _Counters, audience: AssociationAudience, caller: Caller) -> QosShown:
    accounts, users = (counters.parts(qos.name, kind) for kind in ("account", "user"))
    if not audience.sees_all:
        accounts = {name: used for name, used in accounts.items() if audience.sees_account(name)}
        users = {uid: used for uid, used in users.items() if uid == str(caller.uid)}
    return QosShown(
        qos_id=qos.qos_id,
        name=qos.name,
        priority=qos.priority,
        preempt_mode=qos.preempt_mode,
        limits=_set(qos.limits),
        counted=counters.of(("qos", qos.name)),
        accounts=accounts,
        users=users,
    )


def _set(limits: Limits) -> dict[str, int | dict[str, int]]:
    """Return the limits that are set."""
    return {
        name: value
        for name, value in msgspec.structs.asdict(limits).items()
        if value != INFINITE and value != {}
    }
