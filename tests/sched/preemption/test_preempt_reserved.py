"""Preemption inside reservations."""

from __future__ import annotations

from pyslurm_ng.sched.backfill.planner import Planner
from tests.world.reservations import ReservationSite

TIERS = """
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=low Nodes=ALL PriorityTier=1
PartitionName=high Nodes=ALL PriorityTier=10
"""


def test_a_reservations_jobs_preempt_each_other_only() -> None:
    """A job inside has only the reservation's nodes, so no job outside leaves for it."""
    room = ReservationSite(TIERS, plan=Planner())
    room.make(nodes="n1")
    room.advance()
    inside = room.job(partition="low", reservation="r", cpus_per_task=16, time_limit_min=60)
    room.job(partition="low", cpus_per_task=16, nodes_min=3, time_limit_min=60)
    room.run_pass()
    room.job(partition="high", reservation="r", cpus_per_task=8, time_limit_min=60)
    (preemption,) = room.run_pass().preemptions
    assert [job_id for job_id, _ in preemption.victims] == [inside.job_id]
