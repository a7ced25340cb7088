"""When a node is cut off, and what it then gives back. Pure; see ADR 0026.

Under `node_loss=lease` a node that has not been answered by its controller for some heartbeats asks
other nodes to pass its message on. While the controller is away there is no answer, and nothing
ends. If it lives, it answers with the runs that it has given up with the node; the node ends those
when its lease is over, and reports that the same way.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyslurm_ng.base.numbers import SIGNAL_NODE_FAIL
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.node_loss_messages import RUNS_AT_ONCE, NodeWord

_MISSED = 3.5  # heartbeats without an answer


class Lease:
    """How long a node has been without its controller; times in seconds of a monotonic clock.

    Attributes:
        is_kept: whether the site wants it.
        lease_s: how long a node keeps what was given up with it.
        beat_s: between heartbeats.
    """

    def __init__(self, *, is_kept: bool, lease_s: float, now_s: float) -> None:
        """Begin with a whole lease: a daemon that has just started was not there to be answered."""
        self.is_kept = is_kept
        self.lease_s = lease_s
        self.beat_s = 30.0
        self._heard_s = now_s

    def heard(self, now_s: float) -> None:
        """The controller has answered something that we sent."""
        self._heard_s = now_s

    def is_cut_off(self, now_s: float) -> bool:
        """Return whether it is time to ask other nodes."""
        return self.is_kept and now_s - self._heard_s >= _MISSED * self.beat_s

    def is_over(self, now_s: float) -> bool:
        """Return whether the node has been without its controller for the whole lease."""
        return self.is_kept and now_s - self._heard_s >= self.lease_s

    def orders(self, given_up: Iterable[tuple[int, int]], now_s: float) -> list[nm.TerminateJob]:
        """Return what ends the runs that the controller has given up, once the lease is over."""
        if not self.is_over(now_s):
            return []
        return [nm.TerminateJob(0, *run, SIGNAL_NODE_FAIL) for run in given_up]


def word(reports: Iterable[nm.Report]) -> NodeWord:
    """Return what a node has to say of runs that it has ended, from its unsent reports."""
    over = {
        (report.job_id, report.attempt): None
        for report in reports
        if isinstance(report, nm.JobTerminated)
    }
    return NodeWord(list(over)[:RUNS_AT_ONCE])
