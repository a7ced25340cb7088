"""Preemption by suspension: cores change hands at once, and come back by themselves."""

from __future__ import annotations

from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.model.states import JobState
from tests.sched.preemption.test_preempt import MINUTE_US, SECOND_US, START_US, TIERS, Site

SUSPEND = TIERS % "SUSPEND,GANG"


def end(site: Site, job_id: int) -> None:
    """Let a job's run end and its nodes clean up."""
    job = site.cluster.jobs[job_id]
    site.apply(job_end.complete(site.cluster, job, job_end.End(JobState.COMPLETED), site.now_us))
    site.clean_up()


def small(site: Site, partition: str, cpus: int = 4, minutes: int = 60) -> int:
    """Submit a job that asks for little memory: suspended jobs keep theirs."""
    return site.job(partition, cpus, minutes=minutes, mem_per_cpu_mib=100)


def test_victim_is_suspended_and_goes_on_afterwards() -> None:
    site = Site(SUSPEND)
    low = [small(site, "low") for _ in range(4)]
    site.run()
    high = small(site, "high")
    plan = site.run()
    [(victim, mode)] = plan.preemptions[0].victims
    assert mode == "SUSPEND"
    assert site.state(victim) == JobState.SUSPENDED and site.state(high) == JobState.RUNNING
    assert site.nodes(high) == site.nodes(victim)
    assert site.cluster.jobs[victim].suspended_by == high
    assert site.cluster.jobs[victim].preempt_us == START_US
    site.wait(5)
    assert site.state(victim) == JobState.SUSPENDED
    end(site, high)
    site.run()
    assert site.states(*low) == ["RUNNING"] * 4
    assert site.cluster.jobs[victim].suspended_by == 0
    assert site.cluster.jobs[victim].suspended_us == 5 * SECOND_US


def test_cores_of_the_suspended_are_kept_for_them() -> None:
    """When the preemptor has left, the victim goes on; no other job gets in between."""
    site = Site(SUSPEND)
    low = [small(site, "low") for _ in range(4)]
    site.run()
    high = small(site, "high")
    site.run()
    late = small(site, "low", 1, minutes=1)
    end(site, high)
    site.run()
    assert site.states(*low, late) == ["RUNNING"] * 4 + ["PENDING"]


def test_next_preemptor_takes_the_same_cores_without_new_victims() -> None:
    site = Site(SUSPEND)
    low = [small(site, "low") for _ in range(4)]
    site.run()
    first = small(site, "high")
    [(victim, _)] = site.run().preemptions[0].victims
    second = small(site, "high")
    end(site, first)
    plan = site.run()
    assert [item.victims for item in plan.preemptions] == [((victim, "SUSPEND"),)]
    assert site.cluster.jobs[victim].suspended_by == second
    assert site.states(*low).count("SUSPENDED") == 1 and site.state(victim) == JobState.SUSPENDED
    assert site.state(second) == JobState.RUNNING


def test_memory_stays_with_the_suspended() -> None:
    """A job whose memory would not fit beside the suspended one suspends nobody."""
    site = Site(SUSPEND)
    low = [site.job("low", 4) for _ in range(4)]
    site.run()
    high = site.job("high", 4)
    assert site.run().preemptions == []
    assert site.states(*low, high) == ["RUNNING"] * 4 + ["PENDING"]


def test_timeline_counts_shared_cores_once() -> None:
    """A job of no tier to preempt is promised what comes free when both are over, not before."""
    site = Site(SUSPEND)
    for minutes in (10, 60, 60, 60):
        small(site, "low", minutes=minutes)
    site.run()
    for _ in range(1):
        small(site, "high", minutes=30)
    [(victim, _)] = site.run().preemptions[0].victims
    where = site.nodes(victim)
    late = site.job("low", 4, mem_per_cpu_mib=100, node_list=f"n{where[0] + 1}")
    plan = site.run()
    left = site.cluster.jobs[victim].time_limit_min
    promised = plan.expected_start_us[late]
    assert START_US + (30 + left) * MINUTE_US <= promised <= START_US + (32 + left) * MINUTE_US


def test_modes_may_differ_by_partition() -> None:
    """One victim is suspended, the other cancelled: the job starts when that one has left."""
    site = Site(SUSPEND.replace("PartitionName=low", "PartitionName=low PreemptMode=CANCEL"))
    low = [small(site, "low") for _ in range(2)]
    mid = [small(site, "mid") for _ in range(2)]
    site.run()
    high = site.job("high", 4, nodes=4, mem_per_cpu_mib=100)
    site.run()
    assert site.states(*low, *mid) == ["PREEMPTED"] * 2 + ["SUSPENDED"] * 2
    assert site.state(high) == JobState.PENDING
    site.wait(3)
    assert site.states(*mid) == ["SUSPENDED"] * 2
    site.clean_up()
    site.run()
    assert site.state(high) == JobState.RUNNING
    end(site, high)
    site.run()
    assert site.states(*mid) == ["RUNNING"] * 2
