"""When a running job's time is over, and when a waiting one's begins."""

from __future__ import annotations

import pytest
from msgspec import to_builtins

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.rules.timers import begin_times, end_limit_us, time_limits
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.job import Dependency, JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of, submit

MINUTE_US = 60_000_000
CONF = """
ClusterName=times
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
OverTimeLimit=3
NodeName=n[1-4] CPUs=4
PartitionName=main Nodes=ALL Default=YES
PartitionName=strict Nodes=ALL OverTimeLimit=0
PartitionName=lenient Nodes=ALL OverTimeLimit=7
PartitionName=endless Nodes=ALL OverTimeLimit=UNLIMITED
"""


@pytest.mark.parametrize(
    ("partition", "minutes"), [("main", 13), ("strict", 10), ("lenient", 17), ("endless", 0)]
)
def test_a_job_may_run_over_its_limit_as_its_partition_says(partition: str, minutes: int) -> None:
    """Ten minutes and OverTimeLimit, the partition's before the cluster's; 0: for ever."""
    conf = conf_of(CONF)
    cluster = cluster_of(conf)
    job_id = submit(cluster, JobRequest(partition=partition), time_limit_min=10)
    for start in Planner()(snapshot(cluster, START_US), policy(conf)).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    job = cluster.jobs[job_id]
    expected_us = job.start_us + minutes * MINUTE_US if minutes else 0
    assert end_limit_us(cluster, conf, job) == expected_us
    assert expected_us == 0 or job.start_us >= START_US


def test_a_limit_is_kept_to_the_microsecond() -> None:
    """RELIABILITY 38: time in which the job was suspended is not counted; an extension is."""
    conf = conf_of(CONF)
    cluster = cluster_of(conf)
    job_id = submit(cluster, JobRequest(partition="strict"), time_limit_min=10)
    for start in Planner()(snapshot(cluster, START_US), policy(conf)).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    job = cluster.jobs[job_id]
    end_us = job.start_us + 10 * MINUTE_US
    assert time_limits(cluster, conf, end_us - 1) == []
    assert ends(time_limits(cluster, conf, end_us)) == [(job_id, JobState.TIMEOUT)]
    apply(cluster, ev.JobSuspended(job.start_us + MINUTE_US, job_id, cluster.next_duty_id))
    assert time_limits(cluster, conf, end_us + 60 * MINUTE_US) == []
    apply(cluster, ev.JobResumed(job.start_us + 31 * MINUTE_US, job_id, cluster.next_duty_id))
    end_us += 30 * MINUTE_US
    assert time_limits(cluster, conf, end_us - 1) == []
    assert ends(time_limits(cluster, conf, end_us)) == [(job_id, JobState.TIMEOUT)]
    apply(cluster, ev.JobUpdated(end_us - 1, job_id, {"time_limit_min": 15}))
    end_us += 5 * MINUTE_US
    assert time_limits(cluster, conf, end_us - 1) == []
    assert ends(time_limits(cluster, conf, end_us)) == [(job_id, JobState.TIMEOUT)]


def ends(events: list[ev.AnyEvent]) -> list[tuple[int, int]]:
    """Return which jobs end, and how."""
    return [
        (event.job_id, event.state)
        for event in events
        if isinstance(event, ev.JobEnded | ev.JobCompleting)
    ]


def test_a_job_is_looked_at_from_its_begin_time_on() -> None:
    """Until then no pass sees it; a new begin time counts at once."""
    conf = conf_of(CONF)
    cluster = cluster_of(conf)
    begin_us = START_US + 5 * MINUTE_US
    job_id = submit(cluster, JobRequest(partition="main"), time_limit_min=10)
    fields = {"begin_us": begin_us, "eligible_us": 0}
    apply(cluster, ev.JobUpdated(START_US, job_id, fields))
    assert not begin_times(cluster, begin_us - 1, cluster.job_index.ineligible)
    assert not snapshot(cluster, begin_us - 1).waiting
    assert begin_times(cluster, begin_us, cluster.job_index.ineligible) == [
        ev.JobEligible(time_us=begin_us, job_id=job_id)
    ]
    apply_all(cluster, begin_times(cluster, begin_us, cluster.job_index.ineligible))
    assert [job.job_id for job in snapshot(cluster, begin_us).waiting] == [job_id]


def test_held_jobs_are_not_looked_at_every_second_and_go_on_once_released() -> None:
    cluster = cluster_of()
    job_id = submit(cluster, JobRequest())
    apply(cluster, ev.JobUpdated(START_US, job_id, {"priority": 0, "eligible_us": 0}))
    assert not cluster.job_index.ineligible
    apply(cluster, ev.JobUpdated(START_US, job_id, {"priority": NO_VAL}))
    assert check(cluster) == []
    assert begin_times(cluster, START_US, cluster.job_index.ineligible) == [
        ev.JobEligible(time_us=START_US, job_id=job_id)
    ]


def test_a_held_job_is_looked_at_while_it_depends_on_others() -> None:
    cluster = cluster_of()
    terms = [Dependency("after", submit(cluster, JobRequest()), delay_min=1)]
    job_id = submit(cluster, JobRequest())
    fields = {"priority": 0, "eligible_us": 0, "dependencies": to_builtins(terms)}
    apply(cluster, ev.JobUpdated(START_US, job_id, fields))
    assert list(cluster.job_index.ineligible) == [job_id]
    apply(cluster, ev.DependencyChanged(START_US, job_id, (), dependency_any=False))
    assert not cluster.job_index.ineligible
    assert check(cluster) == []
