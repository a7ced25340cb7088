"""Licences: how many there are, used and kept by reservations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.ctld.records import elements
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.license_server import ServerUse, is_remote
from pyslurm_ng.sched.frame.licenses import in_force
from pyslurm_ng.wire.query_messages import Records, ShowLicenses

if TYPE_CHECKING:
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
        total, used = cluster.licenses[name], cluster.job_counts.licenses_used.get(name, 0)
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
