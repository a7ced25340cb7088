"""Reservations as records; PrivateData hides those of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.tres import format_tres
from pyslurm_ng.ctld.queries.job_fields import ids_of_mask
from pyslurm_ng.ctld.records import array_head, elements
from pyslurm_ng.ctld.rules.reservation.reservation_nodes import cores_and_cpus
from pyslurm_ng.ctld.rules.reservation.reservations import concerns
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.wire.query_messages import Records, ShowReservations

if TYPE_CHECKING:
    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.ctld.rules.context import Caller

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
    tracked = conf.tracked_tres()
    packed: list[bytes] = []
    for reservation in cluster.reservations.values():
        if request.name and reservation.name != request.name:
            continue
        if is_private and not concerns(cluster, reservation, caller):
            continue
        try:
            packed.append(_packed(cluster, reservation, tracked))
        except Exception as error:  # noqa: BLE001 - all others are listed
            soft.spared(f"reservation {reservation.name} is not listed", error)
    return Records(
        now_us=now_us,
        fields=RESERVATION_FIELDS,
        records=b"".join(packed),
        cluster_name=cluster.cluster_name,
        last_update_us=cluster.time_us,
    )


def _packed(cluster: Cluster, reservation: Reservation, tracked: tuple[str, ...]) -> bytes:
    nodes = [
        node for node_id in reservation.node_ids if (node := cluster.nodes[node_id]) is not None
    ]
    cores, cpus = cores_and_cpus(cluster, reservation)
    counts = ((f"license/{name}", count) for name, count in license_counts(reservation.licenses))
    licenses = {name: count for name, count in counts if name in tracked}
    values = (
        reservation.name,
        reservation.start_us,
        reservation.end_us,
        hostlist.fold([node.spec.name for node in nodes]),
        len(nodes),
        cores,
        reservation.features,
        reservation.partition,
        ",".join(reservation.flags),
        reservation.tres or format_tres({"cpu": cpus, **_devices(reservation), **licenses}),
        ",".join(reservation.users),
        ",".join(reservation.groups),
        ",".join(reservation.accounts),
        ",".join(reservation.qos),
        reservation.licenses,
        reservation.max_start_delay_s,
        reservation.comment,
        reservation.purge_s,
        _core_ids(cluster, reservation),
        ",".join(reservation.allowed_partitions),
        reservation.burst_buffer,
    )
    return array_head(len(values)) + elements(values)


def _core_ids(cluster: Cluster, reservation: Reservation) -> str:
    """Return the cores of each node that a reservation holds in part."""
    return ";".join(
        f"{node.spec.name} {ids_of_mask(mask)}"
        for node_id, mask in zip(reservation.node_ids, reservation.core_masks, strict=False)
        if mask and (node := cluster.nodes[node_id]) is not None
    )


def _devices(reservation: Reservation) -> dict[str, int]:
    """Return how many devices a reservation holds, by name and by name and type."""
    counts: dict[str, int] = {}
    for gres in (gres for of_node in reservation.gres for gres in of_node):
        keys = [f"gres/{gres.name}", f"gres/{gres.name}:{gres.type}"][: 2 if gres.type else 1]
        for key in keys:
            counts[key] = counts.get(key, 0) + gres.count
    return counts
