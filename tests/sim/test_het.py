"""Heterogeneous jobs while controllers and nodes crash and messages get lost."""

from __future__ import annotations

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos
from tests.world.examples import drawn
from tests.world.passes import in_strict_order


@pytest.mark.seeds
@pytest.mark.parametrize("seed", range(drawn(20)))
def test_components_start_and_end_together_whatever_breaks(seed: int) -> None:
    """A leader is never without its components, none starts apart, all are over in the end."""
    plan = in_strict_order if seed % 2 else Planner()
    chaos = Chaos(seed, plan, components=True)
    chaos.run()
    assert chaos.controller is not None
    cluster = chaos.controller.cluster
    assert any(job.het_job_id for job in cluster.jobs.values()), "no job has components"
    assert not cluster.job_index.active
