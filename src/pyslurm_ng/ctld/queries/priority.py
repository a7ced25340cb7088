"""What sprio asks: the factors of waiting jobs' priorities, by the scheduler's own formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.sluid import sluid_text
from pyslurm_ng.ctld import job_filter
from pyslurm_ng.ctld.rules.private_data import Audience
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.job_views import Views
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire.query_messages import Records, ShowPriorities

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.ctld.rules.context import Caller
    from pyslurm_ng.model.partition import Partition

_encoder = msgspec.msgpack.Encoder()
BILLION = 1_000_000_000
PRIORITY_FIELDS = [
    "job_id",
    "partition",
    "user_name",
    "account",
    "qos",
    "priority",
    "site",
    "nice",
    "age",
    "fairshare",
    "size",
    "partition_factor",
    "qos_factor",
    "assoc",
    "tres",
    "tres_weighted",
    "sluid",
]
"""Factors are normalised ones in billionths, those of TRES a text of NAME=FACTOR."""
WEIGHT_FIELDS = ["age", "assoc", "fairshare", "size", "partition_factor", "qos_factor", "tres"]


def show_priorities(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowPriorities,
    caller: Caller,
    now_us: int,
) -> Records | Reject:
    """Return one record for each partition of each job that a pass would consider now.

    Jobs whose priority was set by hand, or is held, have no factors and are left out. The second
    blob holds one record: the configured weights.
    """
    test = job_filter.agrees(cluster, request.filter, now_us)
    if isinstance(test, Reject):
        return test
    audience = Audience(cluster, conf, caller, show_all=True)
    job_ids: set[int] | None = None
    if request.filter.jobs:
        named = job_filter.JobFinder(cluster).several(request.filter.jobs)
        if isinstance(named, Reject):
            return named
        job_ids = {job.job_id for job, _ in named[0]}
    rules = policy(conf)
    views = Views(faulted=lambda job_id, error: soft.spared(f"job {job_id} is not listed", error))
    view = snapshot(cluster, now_us, views)
    ranking = Ranking(view, rules, soft.fairshare)
    packed = []
    for job in sorted(view.waiting, key=lambda job: job.job_id):
        record = cluster.jobs[job.job_id]
        if job_ids is not None and job.job_id not in job_ids:
            continue
        if not test(record) or not audience.sees_job(record):
            continue
        names = request.filter.partitions
        try:
            sluid = sluid_text(record.sluid)
            packed += _rows(view.partitions, ranking, rules.weight_tres, job, sluid, names)
        except Exception as error:  # noqa: BLE001 - all others are listed
            soft.spared(f"job {job.job_id} is not listed", error)
    weights = (
        rules.weight_age,
        rules.weight_assoc,
        rules.weight_fairshare,
        rules.weight_size,
        rules.weight_partition,
        rules.weight_qos,
        conf.priority_weight_tres,  # as it is written
    )
    return Records(
        now_us=now_us,
        fields=PRIORITY_FIELDS,
        records=b"".join(packed),
        cluster_name=cluster.cluster_name,
        more_fields=WEIGHT_FIELDS,
        more_records=_encoder.encode(weights),
        last_update_us=cluster.time_us,
    )


def _rows(
    partitions: dict[str, Partition],
    ranking: Ranking,
    weights: Mapping[str, float],
    job: Waiting,
    sluid: str,
    fields: Sequence[str],
) -> list[bytes]:
    rows = []
    for name in job.partitions:
        partition = partitions.get(name)
        if partition is None or (fields and name not in fields):
            continue
        if ranking.fixed_part(job, partition)[1]:
            continue
        factors = ranking.factors(job, partition)
        values = (
            job.job_id,
            name,
            job.user_name,
            job.account,
            job.qos,
            ranking.priority(job, partition),
            job.site_factor,
            job.nice,
            *(
                int(factor * BILLION)
                for factor in (
                    factors.age,
                    factors.fairshare,
                    factors.size,
                    factors.partition,
                    factors.qos,
                    factors.assoc,
                )
            ),
            ",".join(f"{name}={factor:.2f}" for name, factor in factors.tres),
            ",".join(f"{name}={weights[name] * factor:.0f}" for name, factor in factors.tres),
            sluid,
        )
        rows.append(_encoder.encode(values))
    return rows
