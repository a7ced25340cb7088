"""Jobs that make the scheduler raise are in the journal: everything else ends all the same.

RELIABILITY 20, 54.
"""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.cluster import Cluster, free_job_id
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter

SEEDS = int(os.environ.get("PYSLURM_SIM_SEEDS", "40")) // 10
FIRST = int(os.environ.get("PYSLURM_SIM_FIRST_SEED", "0"))
LEAST, MOST = -(1 << 63), (1 << 63) - 1
POISON = "poison"
FIELDS = ("ntasks", "cpus_per_task", "nodes_min", "mem_per_node_mib", "mem_per_cpu_mib")


class Silence:
    """A log that nobody reads."""

    def error(self, text: str) -> None:
        """Say nothing."""


class PoisonedLife(Chaos):
    """A life with jobs in it that a version without bounds has accepted."""

    def __init__(self, seed: int) -> None:
        self.noted = self.spared_by_controller = Faults(Silence(), lambda: 0.0)
        super().__init__(seed, Planner(), 25)
        for _ in range(15):
            self.world.after(self.world.random.randrange(400) * 1_000_000, self._poison)

    def _poison(self) -> None:
        """Write one more into the journal, past all rules."""
        if self.controller is None:
            return
        chance, cluster = self.world.random, self.controller.cluster
        extreme = chance.choice((LEAST, -1, INFINITE, NO_VAL, 1 << 40, MOST))
        fields = {chance.choice(FIELDS): extreme} if chance.random() < 0.5 else {}
        self.controller.writer.record(
            [
                ev.JobSubmitted(
                    time_us=self.world.now_us, job_id=free_job_id(cluster),
                    request=JobRequest(name=POISON, **fields), uid=1002, gid=1002,
                    user_name="mallory", group_name="mallory", account="", qos="", assoc_id=0,
                    partition="main", time_limit_min=60 if fields else chance.choice((LEAST, -1)),
                    script_hash="", eligible_us=self.world.now_us,
                )
            ]
        )  # fmt: skip

    def _poisoned(self, cluster: Cluster) -> list[Job]:
        return [job for job in cluster.jobs.values() if job.request.name == POISON]

    def _all_over(self) -> bool:
        if self.controller is None or not self.users.are_answered:
            return False
        cluster = self.controller.cluster
        poisoned_ids = {job.job_id for job in self._poisoned(cluster)}
        return poisoned_ids.issuperset({*cluster.job_index.pending, *cluster.job_index.active})

    def _judge(self) -> None:
        """Everything but poison is over; poison waits, and root may cancel it."""
        controller = self._alive()
        cluster = controller.cluster
        assert self._all_over(), "a job of somebody else waits for ever"
        waiting = [
            job for job in self._poisoned(cluster) if job.job_id in cluster.job_index.pending
        ]
        self.held = sum(job.reason == Reason.BadConstraints for job in waiting)
        context = Context(self.conf, self.world.now_us, Caller(0, 0, "root", is_operator=True))
        names = [str(job.job_id) for job in self._poisoned(cluster)]
        decision = cancel_jobs(
            cluster, CancelJobs(request_id=bytes(16), filter=JobFilter(jobs=names)), context
        )
        assert not hasattr(decision, "code"), decision
        controller.writer.record(decision.events)  # type: ignore[union-attr]
        self.world.run(until_us=self.world.now_us + 600_000_000)
        super()._judge()


def test_poisoned_journals_cost_no_other_job() -> None:
    """With crashes, restarts and broken networks. The state always has some of these jobs."""
    jobs_held = 0
    for seed in range(FIRST, FIRST + max(1, SEEDS)):
        life = PoisonedLife(seed)
        try:
            life.run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        jobs_held += life.held
        assert set(life.noted.counts) <= {"job", "pass"}
    assert jobs_held


@pytest.mark.parametrize("field", FIELDS)
def test_a_poisoned_job_can_be_read_from_the_journal(field: str) -> None:
    """A journal that holds it can be read: what is in the state is there."""
    cluster = Cluster()
    request = JobRequest(name=POISON, **{field: LEAST})
    apply(
        cluster,
        ev.JobSubmitted(
            time_us=1, job_id=1, request=request, uid=1, gid=1, user_name="u", group_name="g",
            account="", qos="", assoc_id=0, partition="main", time_limit_min=LEAST,
            script_hash="", eligible_us=1,
        ),
    )  # fmt: skip
    again = Cluster.from_bytes(cluster.to_bytes())
    assert again.jobs[1].state == JobState.PENDING
    assert again.digest() == cluster.digest()
