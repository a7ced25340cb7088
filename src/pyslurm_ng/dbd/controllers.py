"""The controllers that are connected now: one for each cluster.

A cluster's journal is what its rows are made of, so a second controller with a journal of its own
under the same name would end the jobs of the first. It is refused as long as the first is there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.wire import dbd_messages as msg
from pyslurm_ng.wire.stream import Call

SILENT_S = 150.0
"""A controller asks for changes once a minute. One whose host died keeps its name so long."""
RETURN_S = 30.0
"""How long after slurmdbd's start a controller that was connected before may take to return."""

OfController = (
    msg.RegisterCluster
    | msg.RegisterExternal
    | msg.JournalBatch
    | msg.CompareJobs
    | msg.RewindJournal
    | msg.AwaitAssociations
    | msg.ReadUsage
)
"""Requests that a controller sends for its own cluster."""


@dataclass(slots=True)
class _Controller:
    call: Call
    journal_id: str
    address: str
    heard_s: float


class Controllers:
    """Which controller speaks for which cluster."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._by_cluster: dict[str, _Controller] = {}
        self._began_s = time.monotonic()

    @property
    def others_may_return(self) -> bool:
        """Whether a controller that was connected to the last slurmdbd may still come back."""
        return time.monotonic() < self._began_s + RETURN_S

    def admit(self, call: Call, request: OfController) -> bool:
        """Return whether a controller may speak for this cluster; answer it if it may not."""
        try:
            self._check(call, request)
        except RefusedError as error:
            self._faults.note("refused", f"{call.kind}: {error}")
            call.error(Errno.ESLURM_ACCESS_DENIED, str(error))
            return False
        return True

    def _check(self, call: Call, request: OfController) -> None:
        """Note that a controller is there.

        Raises:
            RefusedError: the sender's credential is another cluster's, or another controller
                speaks for this cluster.
        """
        if call.peer.cluster not in ("", request.cluster):
            raise RefusedError(
                f"cluster {request.cluster}: the sender belongs to cluster {call.peer.cluster}"
            )
        now_s = time.monotonic()
        known = self._by_cluster.get(request.cluster)
        if isinstance(request, msg.RegisterCluster):
            address = f"{request.control_host}:{request.control_port}"
            if known is not None and known.journal_id != request.journal_id:
                is_there = not known.call.is_gone and now_s < known.heard_s + SILENT_S
                if is_there and not known.call.is_beside(call):
                    raise RefusedError(rival_text(request, known.address))
            self._by_cluster[request.cluster] = _Controller(
                call, request.journal_id, address, now_s
            )
        elif known is not None and known.call.is_beside(call):
            known.heard_s = now_s


def rival_text(request: msg.RegisterCluster, address: str) -> str:
    """Return why a controller with another journal is refused."""
    return (
        f"cluster {request.cluster} is already registered by the controller at {address}, which "
        f"has another journal: give the one at {request.control_host}:{request.control_port} a "
        "ClusterName of its own, or stop the other one"
    )
