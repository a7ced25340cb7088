"""RELIABILITY 54c: jobs that cannot be launched come back later and later, then are held."""

from __future__ import annotations

from collections import Counter

import pytest

from pyslurm_ng.base.numbers import END_CLEAN
from pyslurm_ng.ctld.rules.nodes.reports import judge
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.check import check
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.world import World
from pyslurm_ng.wire import node_messages as nm
from tests.model.clusters import START_US, cluster_of, conf_of, submit

SECOND_US = 1_000_000
BAD, GOOD = 1001, 1002
CONF = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
MinJobAge=100000
MaxBatchRequeue=3
NodeName=n[1-%d] CPUs=16 RealMemory=64000
PartitionName=main Nodes=ALL Default=YES MaxTime=60
"""
LAUNCHES = 3  # that may fail before somebody has to look


class Storm:
    """Nodes where one user's scripts can never be started, and another's are over at once."""

    def __init__(self, nodes: int, more: str = "") -> None:
        self.world = World(start_us=START_US)
        self.conf = conf_of(CONF % nodes + more)
        self.controller = SimController(
            self.world, self.conf, Planner(), cluster=cluster_of(self.conf), keep_journal=False
        )
        self.cluster = self.controller.cluster
        self.starts: Counter[int] = Counter()
        self.waited_s: list[int] = []
        self.controller.writer.observe(self._count)

    def _count(self, events: object) -> None:
        for event in events:  # type: ignore[attr-defined]
            if isinstance(event, ev.JobAllocated):
                self.starts[event.job_id] += 1
                job = self.cluster.jobs[event.job_id]
                if job.uid == GOOD:
                    self.waited_s.append((self.world.now_us - job.submit_us) // SECOND_US)

    def submit(self, uid: int, count: int) -> list[int]:
        """Put jobs into the queue."""
        jobs = [
            submit(self.cluster, JobRequest(), self.world.now_us, uid=uid) for _ in range(count)
        ]
        self.controller.scheduler.applied([ev.JobUpdated(self.world.now_us, -1, {})])
        self.controller.scheduler.due()
        return jobs

    def step(self, seconds: int) -> None:
        """Let nodes answer, and time pass."""
        now_us, cluster, record = self.world.now_us, self.cluster, self.controller.writer.record
        for node_id, duties in list(cluster.duties.items()):
            for duty in list(duties.values()):
                if duty.kind != DutyKind.LAUNCH:
                    done = nm.JobTerminated(duty.job_id, duty.attempt, duty.duty_id)
                    record(judge(cluster, node_id, done, self.conf, now_us))
                    continue
                key = duty.job_id, duty.attempt, duty.duty_id
                report: nm.Report = nm.BatchEnded(*key, 0, now_us, now_us, END_CLEAN)
                if cluster.jobs[duty.job_id].uid == BAD:
                    report = nm.LaunchFailed(*key, 4027, "no such thing")
                record(judge(cluster, node_id, report, self.conf, now_us))
        self.world.run(until_us=now_us + seconds * SECOND_US)
        self.world.now_us = now_us + seconds * SECOND_US
        self.controller.tick()


AGAIN = "SchedulerParameters=nohold_on_prolog_fail\n"
COUNTS = (200, pytest.param(5000, marks=pytest.mark.soak))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("more", "starts", "reason"),
    [("", 1, Reason.JobHeldAdmin), (AGAIN, LAUNCHES + 1, Reason.JobHoldMaxRequeue)],
    ids=["held", "again"],
)
def test_a_storm_of_failing_launches_ends_by_itself(
    count: int, more: str, starts: int, reason: Reason
) -> None:
    """Each job has a few starts, further and further apart. Other jobs start as usual."""
    # Room for some more than all of them, or good jobs would wait for bad ones' turns.
    storm = Storm(count // 16 + 4, more)
    bad = storm.submit(BAD, count)
    good: list[int] = []
    for turn in range(400):
        if turn % 20 == 0:
            good += storm.submit(GOOD, 5)
        storm.step(5)
    jobs = storm.cluster.jobs
    assert {storm.starts[job_id] for job_id in bad} == {starts}
    assert {jobs[job_id].reason for job_id in bad} == {reason}
    assert {jobs[job_id].state for job_id in bad} == {JobState.PENDING}
    assert {jobs[job_id].state for job_id in good} == {JobState.COMPLETED}
    assert max(storm.waited_s) <= 10
    assert check(storm.cluster) == []
