"""What `scontrol explain` tells of a start is what the last pass has planned."""

from __future__ import annotations

from random import Random

import pytest

from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.explain.explain import outlook
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.sched.backfill.promises import KINDS, SiteOfEarlyEnds, queue_of, run


class AskedSite(SiteOfEarlyEnds):
    """A cluster whose users ask about each waiting job after each pass."""

    def compare(self, plan: Plan) -> None:
        super().compare(plan)
        planner, view = Planner(), snapshot(self.cluster, self.now_us)
        for job_id, start_us in plan.expected_start_us.items():
            if self.cluster.jobs[job_id].state != JobState.PENDING:
                continue
            job_outlook = outlook(
                view, self.rules, job_id, planner=planner, past_promises=plan.past_promises
            )
            assert job_outlook is not None
            assert (job_outlook.start_us, job_outlook.node_ids) == (
                start_us,
                plan.planned_nodes[job_id],
            )


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        ("tasks over some nodes", (0, 1)),
        ("weights, threads, partitions", (0, 1)),
        ("GPUs of each node", (0, 1)),
        ("sockets", (4, 6)),
        ("cores near GPUs", (0, 1)),
        ("limits that may be cut", (0, 1)),
        ("few switches", (0, 3)),
        ("nodes of a user's own", (3, 9)),
    ],
)
def test_a_start_is_shown_as_it_was_planned(kind: str, seeds: tuple[int, ...]) -> None:
    """With the nodes, though other choices would have been as good."""
    conf, topology, wants = KINDS[kind]
    for seed in seeds:
        assert run(AskedSite(conf, topology, Random(seed)), *queue_of(Random(seed), wants))
