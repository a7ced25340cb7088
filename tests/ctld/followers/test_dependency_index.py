"""Terms that time settles are looked at when their moment comes, not every second.

RELIABILITY 54b: a second cost as much as all terms of all waiting jobs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.ctld.followers.dependency_index import DependencyIndex
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import TERMINAL_STATES
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter, UpdateJob
from tests.world.callers import ROOT
from tests.world.operations import lines_run
from tests.world.site import Site


class Scene(Site):
    """A room whose index hears of all that happens."""

    def __init__(self, more: str = "") -> None:
        super().__init__(more)
        self.index = DependencyIndex(self.cluster)

    def apply(self, events: Sequence[ev.AnyEvent]) -> None:
        super().apply(list(events))
        self.index.applied(events)

    def second(self, by_us: int = 1_000_000) -> None:
        """Let time pass with only what the index says; nothing that is due may be left out."""
        self.now_us += by_us
        cluster, dependent = self.cluster, self.index.due(self.now_us)
        expected = dependency.due(cluster, self.now_us, cluster.job_index.ineligible)
        due = dependency.due(
            cluster, self.now_us, sorted(dependent, key=[*cluster.job_index.ineligible].index)
        )
        assert due == expected
        self.apply(timers.due(cluster, self.conf, {}, self.now_us, dependent=dependent))

    def done(self, outcome: object) -> None:
        """Apply what a rule decided."""
        assert not isinstance(outcome, Reject), outcome
        self.apply(outcome.events)  # type: ignore[attr-defined]


def test_minutes_after_a_start_are_looked_at_once_they_are_over() -> None:
    scene = Scene()
    first = scene.job()
    second = scene.job(dependency=f"after:{first.job_id}+2")
    scene.second()
    assert scene.index.due(scene.now_us) == []
    scene.run_pass()
    assert first.start_us
    scene.second()
    assert scene.index.due(scene.now_us + MINUTE_US) == []
    assert second.dependencies
    scene.second(2 * MINUTE_US)
    assert not second.dependencies and second.eligible_us


def test_a_second_in_which_nothing_is_due_does_no_work() -> None:
    """However many terms there are."""
    scene = Scene()
    first = [scene.job(nodes_min=4, time_limit_min=60) for _ in range(100)]
    text = ":".join(f"{job.job_id}+5" for job in first)
    for _ in range(5):
        scene.job(dependency=f"after:{text}")
    scene.second()
    assert lines_run(scene.index.due, scene.now_us) < 20
    scene.run_pass()
    scene.second()
    assert lines_run(scene.index.due, scene.now_us) < 20


@pytest.mark.parametrize("seed", range(20))
def test_nothing_that_is_due_is_left_out(seed: int) -> None:
    """Random jobs, arrays, ends, updates: the same as if all were looked at every second."""
    dice = random.Random(seed)
    scene = Scene("MinJobAge=120")
    for _ in range(60):
        known = list(scene.cluster.jobs)
        kind = dice.randrange(6)
        if kind <= 1 or not known:
            array = dice.choice(["", "", "0-3"])
            text = ""
            if known and dice.random() < 0.7:
                form = dice.choice(["after:{}+1", "after:{}+3", "aftercorr:{}", "afterany:{}"])
                some = dice.sample(known, min(len(known), dice.randint(1, 3)))
                text = dice.choice(",?").join(form.format(job_id) for job_id in some)
            scene.submit(array=array, dependency=text, nodes_min=dice.randint(1, 2))
        elif kind == 2:
            scene.run_pass()
        elif kind == 3:
            over = CancelJobs(bytes(16), JobFilter(jobs=[str(dice.choice(known))]))
            outcome = cancel_jobs(scene.cluster, over, scene.context(ROOT))
            scene.done(outcome)
        elif kind == 4:
            job = scene.cluster.jobs[dice.choice(known)]
            if job.state not in TERMINAL_STATES:
                term = dice.choice(["", f"after:{dice.choice(known)}+2", f"aftercorr:{known[0]}"])
                change = UpdateJob(bytes(16), {"dependency": term}, jobs=[str(job.job_id)])
                scene.done(update_job(scene.cluster, change, scene.context(ROOT)))
        scene.second(dice.choice([1, 20, 60, 200]) * 1_000_000)
    assert set(scene.cluster.job_index.ineligible) <= scene.cluster.jobs.keys()
