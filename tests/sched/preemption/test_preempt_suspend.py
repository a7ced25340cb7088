"""Preemption by suspension: cores change hands at once, and come back by themselves."""

from __future__ import annotations

from pyslurm_ng.base.numbers import MINUTE_US, SECOND_US
from pyslurm_ng.model.states import JobState
from tests.model.clusters import START_US
from tests.sched.preemption.preemption_site import TIERS, PreemptionSite, end

SUSPEND = TIERS % "SUSPEND,GANG"


def small(site: PreemptionSite, partition: str, cpus: int = 4, minutes: int = 60) -> int:
    """Submit a job that asks for little memory: suspended jobs keep theirs."""
    return site.add(partition, cpus, minutes=minutes, mem_per_cpu_mib=100)


def test_victim_is_suspended_and_goes_on_afterwards() -> None:
    site = PreemptionSite(SUSPEND)
    low = [small(site, "low") for _ in range(4)]
    site.run_pass()
    high = small(site, "high")
    plan = site.run_pass()
    [(victim, mode)] = plan.preemptions[0].victims
    assert mode == "SUSPEND"
    assert site.state(victim) == JobState.SUSPENDED and site.state(high) == JobState.RUNNING
    assert site.nodes(high) == site.nodes(victim)
    assert site.cluster.jobs[victim].suspended_by == high
    assert site.cluster.jobs[victim].preempt_us == START_US
    site.wait(5)
    assert site.state(victim) == JobState.SUSPENDED
    end(site, high)
    site.run_pass()
    assert site.states(*low) == ["RUNNING"] * 4
    assert site.cluster.jobs[victim].suspended_by == 0
    assert site.cluster.jobs[victim].suspended_us == 5 * SECOND_US


def test_cores_of_the_suspended_are_kept_for_them() -> None:
    """When the preemptor has left, the victim goes on; no other job gets in between."""
    site = PreemptionSite(SUSPEND)
    low = [small(site, "low") for _ in range(4)]
    site.run_pass()
    high = small(site, "high")
    site.run_pass()
    late = small(site, "low", 1, minutes=1)
    end(site, high)
    site.run_pass()
    assert site.states(*low, late) == ["RUNNING"] * 4 + ["PENDING"]


def test_next_preemptor_takes_the_same_cores_without_new_victims() -> None:
    site = PreemptionSite(SUSPEND)
    low = [small(site, "low") for _ in range(4)]
    site.run_pass()
    first = small(site, "high")
    [(victim, _)] = site.run_pass().preemptions[0].victims
    second = small(site, "high")
    end(site, first)
    plan = site.run_pass()
    assert [preemption.victims for preemption in plan.preemptions] == [((victim, "SUSPEND"),)]
    assert site.cluster.jobs[victim].suspended_by == second
    assert site.states(*low).count("SUSPENDED") == 1 and site.state(victim) == JobState.SUSPENDED
    assert site.state(second) == JobState.RUNNING


def test_memory_stays_with_the_suspended_job() -> None:
    """A job whose memory would not fit beside the suspended one suspends none."""
    site = PreemptionSite(SUSPEND)
    low = [site.add("low", 4) for _ in range(4)]
    site.run_pass()
    high = site.add("high", 4)
    assert site.run_pass().preemptions == []
    assert site.states(*low, high) == ["RUNNING"] * 4 + ["PENDING"]


def test_timeline_counts_shared_cores_once() -> None:
    """A job of no tier to preempt is promised what comes free when both are over, not before."""
    site = PreemptionSite(SUSPEND)
    for minutes in (10, 60, 60, 60):
        small(site, "low", minutes=minutes)
    site.run_pass()
    for _ in range(1):
        small(site, "high", minutes=30)
    [(victim, _)] = site.run_pass().preemptions[0].victims
    where = site.nodes(victim)
    late = site.add("low", 4, mem_per_cpu_mib=100, node_list=f"n{where[0] + 1}")
    plan = site.run_pass()
    left_min = site.cluster.jobs[victim].time_limit_min
    promised = plan.expected_start_us[late]
    assert (
        START_US + (30 + left_min) * MINUTE_US <= promised <= START_US + (32 + left_min) * MINUTE_US
    )


def test_modes_may_differ_by_partition() -> None:
    """One victim is suspended, the other cancelled: the job starts when that one has left."""
    site = PreemptionSite(
        SUSPEND.replace("PartitionName=low", "PartitionName=low PreemptMode=CANCEL")
    )
    low = [small(site, "low") for _ in range(2)]
    mid = [small(site, "mid") for _ in range(2)]
    site.run_pass()
    high = site.add("high", 4, nodes=4, mem_per_cpu_mib=100)
    site.run_pass()
    assert site.states(*low, *mid) == ["PREEMPTED"] * 2 + ["SUSPENDED"] * 2
    assert site.state(high) == JobState.PENDING
    site.wait(3)
    assert site.states(*mid) == ["SUSPENDED"] * 2
    site.clean_up()
    site.run_pass()
    assert site.state(high) == JobState.RUNNING
    end(site, high)
    site.run_pass()
    assert site.states(*mid) == ["RUNNING"] * 2
