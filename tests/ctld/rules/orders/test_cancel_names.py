"""`scancel --name`: other jobs than those named must not end."""

from __future__ import annotations

import pytest

from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter
from tests.model.clusters import START_US
from tests.world.callers import ROOT
from tests.world.site import Site


@pytest.mark.parametrize(
    ("name", "state"), [("Sim", JobState.CANCELLED), ("sim", JobState.PENDING)]
)
def test_names_of_jobs_to_cancel_are_exact(name: str, state: JobState) -> None:
    """As with Slurm 22.05, whose squeue does not look at their case."""
    site = Site()
    job = site.job(name="Sim", begin_us=START_US + 10**12)
    message = CancelJobs(bytes(16), JobFilter(names=[name]), 9)
    decision = cancel_jobs(site.cluster, message, site.context(ROOT))
    assert isinstance(decision, Decision)
    site.apply(decision.events)
    assert job.state == state
