"""node_loss=lease on a node: when it is cut off, what it ends then, and what it says of it."""

from __future__ import annotations

from pyslurm_ng.d.controllers.lease import Lease, word
from pyslurm_ng.d.core.node_core import NodeCore
from pyslurm_ng.d.core.orders import obey
from pyslurm_ng.wire import node_messages as nm

RUN = (7, 0)


def lease(now_s: float = 0.0, *, is_kept: bool = True) -> Lease:
    made = Lease(is_kept=is_kept, lease_s=60.0, now_s=now_s)
    made.beat_s = 10.0
    return made


def test_it_asks_after_three_heartbeats_and_ends_nothing_before_its_lease_is_over() -> None:
    """Even if the controller has given up the run.

    The controller's answer begins the lease again.
    """
    kept = lease()
    assert not kept.is_cut_off(30.0)
    assert kept.is_cut_off(35.0)
    assert kept.orders([RUN], 59.0) == []
    assert [(order.job_id, order.attempt) for order in kept.orders([RUN], 60.0)] == [RUN]
    kept.heard(61.0)
    assert kept.orders([RUN], 120.0) == []
    assert not kept.is_cut_off(90.0)


def test_runs_that_were_not_given_up_go_on() -> None:
    """However long it lasts: a controller that is away gives nothing up."""
    assert lease().orders([], 1e9) == []


def test_other_policies_end_no_run() -> None:
    """Neither Slurm's policy nor the one with confirmed ends."""
    kept = lease(is_kept=False)
    assert not kept.is_cut_off(1e9)
    assert kept.orders([RUN], 1e9) == []


def test_its_word_names_what_is_over() -> None:
    """Only what nothing is left of; asked about an unknown run it says so, too."""
    core = NodeCore(has_prolog=False, has_epilog=False, kill_wait_s=30)
    for order in (nm.TerminateJob(0, *RUN), nm.TerminateJob(0, *RUN)):
        assert obey(core, order, None) == []
    assert core.reports == [nm.JobTerminated(*RUN, 0)]
    assert word([*core.reports, nm.DutyDone(8, 0, 3)]).over == [RUN]
