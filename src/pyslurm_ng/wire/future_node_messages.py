"""Nodes that slurm.conf has with State=FUTURE: what `slurmd -F` asks the controller."""

from __future__ import annotations

import msgspec

from pyslurm_ng.model import bounds as b
from pyslurm_ng.wire.table import RequestId, message, reply


@message(kind="TakeFutureNode", roles="user", owner_rule="admin", rate="change", max_bytes=1 << 16)
class TakeFutureNode(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`slurmd -F`: which FUTURE node of slurm.conf a host is to be, by hardware and feature."""

    request_id: RequestId
    hostname: b.HostText
    address: b.HostText
    sockets: b.Count
    cores_per_socket: b.Count
    threads_per_core: b.Count
    feature: b.NameText = ""


@reply("FutureNode")
class FutureNode(msgspec.Struct, frozen=True):
    """The node that a host is from now on."""

    name: str
