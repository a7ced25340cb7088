"""Jobs that share cores in rows, and take turns there with PreemptMode=GANG."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import (
    MINUTE_US,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_USER,
    REQ_OVERSUBSCRIBE,
    SECOND_US,
)
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.starts import gang
from pyslurm_ng.model.job import SUSPENDED_BY_GANG
from pyslurm_ng.model.rows import Load, oversubscribe_shown, row_count
from pyslurm_ng.model.states import JobState
from tests.model.clusters import START_US
from tests.sched.preemption.preemption_site import ROWS, PreemptionSite, end
from tests.world.examples import drawn

GANG = "PreemptMode=GANG\nSchedulerTimeSlice=30\n"


def cores(site: PreemptionSite, job_id: int) -> list[tuple[int, bytes]]:
    return [(alloc.node_id, alloc.cores) for alloc in site.cluster.jobs[job_id].nodes]


def test_force_lets_two_jobs_have_a_core_and_no_third() -> None:
    site = PreemptionSite(ROWS % "")
    first = [site.add("twice", 4) for _ in range(4)]
    site.run_pass()
    assert len({tuple(cores(site, job_id)) for job_id in first}) == 4  # idle cores come first
    second = [site.add("twice", 4) for _ in range(4)]
    third = site.add("twice", 4)
    plan = site.run_pass()
    assert site.states(*first, *second, third) == ["RUNNING"] * 8 + ["PENDING"]
    assert sorted(cores(site, job_id) for job_id in second) == sorted(
        cores(site, job_id) for job_id in first
    )
    assert plan.expected_start_us[third] >= START_US + 60 * MINUTE_US
    assert [site.cluster.node_index.use[node_id].cpus for node_id in range(4)] == [4] * 4


def test_yes_shares_among_jobs_that_ask() -> None:
    site = PreemptionSite(ROWS % "")
    asks = REQ_OVERSUBSCRIBE
    plain = [site.add("ask", 4) for _ in range(2)]
    open_jobs = [site.add("ask", 4, flags=asks) for _ in range(6)]
    site.run_pass()
    more = [site.add("ask", 4, flags=asks), site.add("ask", 4), site.add("ask", 1, flags=asks)]
    site.run_pass()
    assert site.states(*plain, *open_jobs) == ["RUNNING"] * 8
    assert site.states(*more) == ["PENDING"] * 3
    assert len({tuple(cores(site, job_id)) for job_id in open_jobs}) == 2


def test_each_partition_counts_its_own_jobs_on_a_core() -> None:
    """FORCE:2 and YES:3: two of one and three of the other may have a core; figures of 22.05."""
    site = PreemptionSite(ROWS % "")
    twice = [site.add("twice", 4) for _ in range(8)]
    site.run_pass()
    asks = REQ_OVERSUBSCRIBE
    more = [site.add("ask", 4, flags=asks) for _ in range(12)]
    site.run_pass()
    assert site.states(*twice, *more) == ["RUNNING"] * 20
    full = [site.add("ask", 1, flags=asks), site.add("twice", 1), site.add("alone", 1)]
    full.append(site.add("ask", 1))
    site.run_pass()
    assert site.states(*full) == ["PENDING"] * 4


def test_jobs_that_do_not_share_keep_others_away() -> None:
    site = PreemptionSite(ROWS % "")
    alone = [site.add("alone", 4), site.add("ask", 4), *(site.add("alone", 4) for _ in range(2))]
    site.run_pass()
    others = [site.add("twice", 1), site.add("ask", 1, flags=REQ_OVERSUBSCRIBE)]
    site.run_pass()
    assert site.states(*alone) == ["RUNNING"] * 4
    assert site.states(*others) == ["PENDING"] * 2


def test_a_higher_tier_is_not_let_in_among_a_lower_one() -> None:
    text = ROWS.replace("OverSubscribe=YES:3", "OverSubscribe=YES:3 PriorityTier=5")
    site = PreemptionSite(text % "")
    for _ in range(4):
        site.add("twice", 4)
    site.run_pass()
    other = site.add("ask", 1, flags=REQ_OVERSUBSCRIBE)
    site.run_pass()
    assert site.states(other) == ["PENDING"]


def test_force_leaves_no_choice() -> None:
    """--exclusive means nothing where OverSubscribe=FORCE."""
    site = PreemptionSite(ROWS % "")
    for _ in range(4):
        site.add("twice", 4)
    site.run_pass()
    whole = [site.add("twice", 4, flags=flag) for flag in (REQ_EXCLUSIVE, REQ_EXCLUSIVE_USER)]
    in_yes = site.add("ask", 4, flags=REQ_EXCLUSIVE | REQ_OVERSUBSCRIBE)
    site.run_pass()
    assert site.states(*whole, in_yes) == ["RUNNING", "RUNNING", "PENDING"]


@pytest.mark.parametrize(
    ("partition", "flags", "word"),
    [
        ("alone", 0, "NO"),
        ("alone", REQ_OVERSUBSCRIBE, "YES"),
        ("ask", 0, "OK"),
        ("ask", REQ_OVERSUBSCRIBE, "YES"),
        ("ask", REQ_EXCLUSIVE, "NO"),
        ("ask", REQ_EXCLUSIVE_USER, "NO"),
        ("twice", 0, "YES"),
        ("twice", REQ_EXCLUSIVE, "YES"),
    ],
)
def test_what_a_job_shows(partition: str, flags: int, word: str) -> None:
    """OverSubscribe= of scontrol show job, and SLURM_JOB_OVERSUBSCRIBE."""
    site = PreemptionSite(ROWS % "")
    request = site.cluster.jobs[site.add(partition, 1, flags=flags)].request
    assert oversubscribe_shown(request, site.cluster.partitions[partition]) == word


def test_memory_is_never_shared() -> None:
    site = PreemptionSite(ROWS % "")
    first = [site.add("twice", 4, mem_per_cpu_mib=900) for _ in range(4)]
    site.run_pass()
    second = site.add("twice", 4, mem_per_cpu_mib=900)
    small = site.add("twice", 4, mem_per_cpu_mib=100)
    site.run_pass()
    assert site.states(*first, second, small) == ["RUNNING"] * 4 + ["PENDING", "RUNNING"]


def test_array_tasks_share_too() -> None:
    site = PreemptionSite(ROWS % "")
    head = site.add("twice", 4, ranges=((0, 9, 1),))
    site.run_pass()
    assert sum(job.state == JobState.RUNNING for job in site.cluster.jobs.values()) == 8
    assert site.cluster.jobs[head].array_pending == ((8, 9, 1),)


def test_rows_take_turns_and_a_job_alone_just_runs() -> None:
    """Of two rows one runs, and the other in the next slice.

    A job that is alone on its cores always runs.
    """
    site = PreemptionSite(ROWS % GANG)
    first = site.add("twice", 4, nodes=2)
    second = site.add("twice", 4, nodes=4)
    alone = site.add("alone", 1)
    site.run_pass()
    seen = []
    for _ in range(4):
        site.apply(gang.turns(site.cluster, 30, site.now_us))
        site.check()
        seen.append((site.state(first).name, site.state(second).name))
        assert gang.turns(site.cluster, 30, site.now_us) == []
        site.wait(30)
    assert set(seen) == {("RUNNING", "SUSPENDED"), ("SUSPENDED", "RUNNING")}
    assert all(earlier != other for earlier, other in pairwise(seen))
    assert site.state(alone) in (JobState.PENDING, JobState.RUNNING)
    job = next(job for job in site.cluster.jobs.values() if job.state == JobState.SUSPENDED)
    assert job.suspended_by == SUSPENDED_BY_GANG and job.suspended_us >= 30 * SECOND_US


def test_turns_are_even_on_every_node() -> None:
    """Two jobs on one node have half of its time each, though three share another."""
    site = PreemptionSite((ROWS % GANG).replace("FORCE:2", "FORCE:3"))
    pair = [site.add("twice", 4, node_list="n1") for _ in range(2)]
    three = [site.add("twice", 4, node_list="n2") for _ in range(3)]
    site.run_pass()
    assert site.states(*pair, *three) == ["RUNNING"] * 5
    slices = dict.fromkeys((*pair, *three), 0)
    for _ in range(12):
        site.apply(gang.turns(site.cluster, 30, site.now_us))
        for job_id in slices:
            slices[job_id] += site.state(job_id) == JobState.RUNNING
        site.wait(30)
    assert [slices[job_id] for job_id in pair] == [6, 6]
    assert [slices[job_id] for job_id in three] == [4, 4, 4]


def test_no_job_has_a_turn_beside_a_job_that_preempted_others() -> None:
    """Though that job would share its cores with jobs of its own partition."""
    conf = (ROWS % "").replace("PartitionName=ask", "PartitionName=ask PriorityTier=9")
    conf = conf.replace("OverSubscribe=YES:3", "OverSubscribe=FORCE:2")
    site = PreemptionSite(
        conf
        + "PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\nSchedulerTimeSlice=30\n"
    )
    low = [site.add("twice", 4, nodes=4) for _ in range(2)]
    site.run_pass()
    site.apply(gang.turns(site.cluster, 30, site.now_us))
    high = site.add("ask", 4, nodes=4, minutes=5)
    site.run_pass()
    assert site.state(high) == JobState.RUNNING
    for _ in range(4):
        site.apply(gang.turns(site.cluster, 30, site.now_us))
        site.check()
        assert site.states(*low) == ["SUSPENDED"] * 2
        site.wait(30)
    end(site, high)
    site.run_pass()
    site.apply(gang.turns(site.cluster, 30, site.now_us))
    assert sorted(site.states(*low)) == ["RUNNING", "SUSPENDED"]


def test_a_preempted_job_waits_though_its_preemptor_waits_for_a_turn() -> None:
    """Nor do others share its cores once it goes on."""
    conf = (ROWS % "").replace("PartitionName=twice", "PartitionName=twice PriorityTier=9")
    site = PreemptionSite(
        conf
        + "PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\nSchedulerTimeSlice=30\n"
    )
    low = site.add("alone", 4, node_list="n1")
    site.run_pass()
    wide = site.add("twice", 4, nodes=2, node_list="n1,n2", minutes=5)
    site.run_pass()
    other = site.add("twice", 4, node_list="n2", minutes=5)
    site.run_pass()
    assert site.states(low, wide, other) == ["SUSPENDED", "RUNNING", "RUNNING"]
    seen = set()
    for _ in range(4):
        site.apply(gang.turns(site.cluster, 30, site.now_us))
        site.run_pass()
        assert site.state(low) == JobState.SUSPENDED
        seen.add((site.state(wide).name, site.state(other).name))
        site.wait(30)
    assert seen == {("RUNNING", "SUSPENDED"), ("SUSPENDED", "RUNNING")}
    end(site, wide)
    site.run_pass()
    assert site.state(low) == JobState.RUNNING


def test_cores_of_jobs_that_clean_up_are_shared_as_before() -> None:
    """No pass gives them to other jobs meanwhile."""
    site = PreemptionSite(ROWS % "")
    for _ in range(2):
        site.add("twice", 4, nodes=4)
    site.run_pass()
    first = next(iter(site.cluster.job_index.active))
    job = site.cluster.jobs[first]
    site.apply(job_end.complete(site.cluster, job, job_end.End(JobState.COMPLETED), site.now_us))
    late = site.add("twice", 4)
    assert site.run_pass().starts == []
    site.clean_up()
    site.run_pass()
    assert site.state(late) == JobState.RUNNING


def test_last_one_left_runs_at_once() -> None:
    site = PreemptionSite(ROWS % GANG)
    jobs = [site.add("twice", 4, nodes=4) for _ in range(2)]
    site.run_pass()
    site.apply(gang.turns(site.cluster, 30, site.now_us))
    runs, waits = sorted(jobs, key=site.state)
    assert (site.state(runs), site.state(waits)) == (JobState.RUNNING, JobState.SUSPENDED)
    end(site, runs)
    site.apply(gang.turns(site.cluster, 30, site.now_us))
    assert site.state(waits) == JobState.RUNNING


def test_cores_of_jobs_that_wait_for_their_turn_are_not_free() -> None:
    site = PreemptionSite(ROWS % GANG)
    for _ in range(2):
        site.add("twice", 4, nodes=4)
    site.run_pass()
    site.apply(gang.turns(site.cluster, 30, site.now_us))
    late = [site.add("alone", 1), site.add("twice", 1)]
    site.run_pass()
    assert site.states(*late) == ["PENDING"] * 2


@settings(deadline=None, max_examples=drawn(80))
@given(
    jobs=st.lists(
        st.tuples(st.sampled_from(["twice", "ask", "ask+", "alone"]), st.integers(1, 4),
                  st.integers(0, 4), st.sampled_from([1, 60])),
        max_size=16,
    ),
    mode=st.sampled_from(["", GANG]),
)  # fmt: skip
def test_no_core_has_more_jobs_than_its_rows(
    jobs: list[tuple[str, int, int, int]], mode: str
) -> None:
    """In random clusters rows are kept, turns of a partition do not collide, and each job ends."""
    site = PreemptionSite(ROWS % mode)
    for partition, cpus, nodes, minutes in jobs:
        flags = REQ_OVERSUBSCRIBE if partition.endswith("+") else 0
        site.add(partition.strip("+"), cpus, nodes=nodes, minutes=minutes, flags=flags)
        site.run_pass()
        site.wait(31)
        loads: dict[tuple[int, str], Load] = {}
        busy: dict[tuple[int, str], int] = {}
        for job_id in site.cluster.job_index.active:
            job = site.cluster.jobs[job_id]
            for alloc in job.nodes:
                mask = int.from_bytes(alloc.cores, "little")
                group = job.partition if job.rows > 1 else f"job {job_id}"
                loads.setdefault((alloc.node_id, group), Load()).add(mask)
                if mode and job.state == JobState.RUNNING and not job.flags:
                    assert not busy.get((alloc.node_id, group), 0) & mask
                    busy[alloc.node_id, group] = busy.get((alloc.node_id, group), 0) | mask
        for (node_id, group), load in loads.items():
            partition_record = site.cluster.partitions.get(group)
            rows = row_count(partition_record) if partition_record is not None else 1
            assert not load.with_jobs(rows + 1)
            for (other_id, other_group), other in loads.items():
                is_alone = group.startswith("job ") or other_group.startswith("job ")
                if other_id == node_id and other_group != group and is_alone:
                    assert not load.with_jobs(1) & other.with_jobs(1)
        site.clean_up()


def test_load_counts() -> None:
    load = Load()
    for mask in (0b1100, 0b0110, 0b0100):
        load.add(mask)
    assert [load.with_jobs(count) for count in (1, 2, 3, 4)] == [0b1110, 0b0100, 0b0100, 0]


def test_partition_rows() -> None:
    partition = PreemptionSite(ROWS % "").cluster.partitions["twice"]
    counts = {"NO": 1, "YES:3": 3, "FORCE:1": 1, "FORCE:7": 7}
    for word, count in counts.items():
        assert row_count(msgspec.structs.replace(partition, oversubscribe=word)) == count
