"""Jobs with parts of GPUs: several share a device, none with a job that has it whole."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import (
    REQ_EXCLUSIVE,
    REQ_GRES_ENFORCE_BIND,
    REQ_GRES_MANY_TASKS_SHARING,
    REQ_GRES_ONE_TASK_SHARING,
)
from pyslurm_ng.ctld.rules.submission.place import check_names
from pyslurm_ng.model.gres_parts import held_parts
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeGres, NodeSpec
from pyslurm_ng.sched.cons_tres.step_select import Lack, StepNeed, StepPlace, place, shares_of
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US
from tests.sched.cons_tres.exact_steps import exact_step
from tests.sched.cons_tres.parts_site import MINUTE_US, PartsSite
from tests.world.examples import drawn


def test_shards_fill_one_gpu_after_another() -> None:
    """Three, one and two shards of two GPUs with four each: the third job opens the second GPU."""
    site = PartsSite()
    jobs = [site.add(gres=f"shard:{count}") for count in (3, 1, 2)]
    site.run()
    assert [site.held(job_id) for job_id in jobs] == [[{0: 3}], [{0: 1}], [{1: 2}]]
    assert site.used() == "gpu:0,shard:6(4/4,2/4),mps:0(0/100,0/100)"
    # scontrol show job -d: how many of the parts of each GPU are the job's.
    assert [site.shown(job_id) for job_id in jobs] == [
        "shard:3(3/4,0/4)",
        "shard:1(1/4,0/4)",
        "shard:2(0/4,2/4)",
    ]


def test_a_job_may_have_more_cores_than_are_near_its_shard() -> None:
    """Only enforced binding keeps it to the eight cores of one socket."""
    gpu = NodeGres("gpu", "", 2, cores=(b"\xff", b"\x00\xff"))
    parts = NodeGres("shard", "", 8, parts=(4, 4))
    site = PartsSite(gres=(gpu, parts, NodeGres("mps", "", 200, parts=(100, 100))))
    wide = site.add(gres="shard:1", ntasks=1, cpus_per_task=12)
    bound = site.add(gres="shard:1", ntasks=1, cpus_per_task=9, flags=REQ_GRES_ENFORCE_BIND)
    other = site.add(gres="shard:1", ntasks=1, cpus_per_task=4)
    site.run()
    assert site.held(wide) == [{0: 1}]
    assert len(site.held(other)) == 1
    assert site.held(bound) == []


def test_a_gpu_is_whole_or_in_parts_of_one_name() -> None:
    """A shared GPU is not given whole, or by percentages, until the last of its jobs ends."""
    site = PartsSite()
    short = site.add(10, gres="shard:1")
    long = site.add(20, gres="shard:1")
    whole = site.add(gres="gpu:1")
    second = site.add(gres="gpu:1")
    percent = site.add(gres="mps:50")
    plan = site.run()
    assert {start.job_id for start in plan.starts} == {short, long, whole}
    assert plan.expected_start_us[second] == START_US + 20 * MINUTE_US
    assert site.held(short) == site.held(long) == [{0: 1}]
    site.run(10)
    assert not site.cluster.jobs[second].nodes
    site.run(10)
    assert site.cluster.jobs[second].nodes
    assert not site.cluster.jobs[percent].nodes


def test_parts_of_one_job_are_of_one_gpu() -> None:
    """Three shards do not fit into two and two, however many are free on the node."""
    site = PartsSite()
    for _ in range(4):
        site.add(10, gres="shard:2")
    assert len(site.run().starts) == 4
    site.end(1)
    site.end(3)
    assert site.used().split(",", 1)[1].startswith("shard:4(2/4,2/4)")
    three = site.add(gres="shard:3")
    site.run()
    assert not site.cluster.jobs[three].nodes


def test_several_gpus_where_the_administrator_allows_it() -> None:
    """MULTIPLE_SHARING_GRES_PJ: five shards are four of one GPU and one of the other."""
    site = PartsSite(select=",MULTIPLE_SHARING_GRES_PJ")
    job_id = site.add(gres="shard:5")
    site.run()
    assert site.held(job_id) == [{0: 4, 1: 1}]
    assert site.cluster.jobs[job_id].nodes[0].gres[0].count == 5


def test_tasks_share_a_gpu_or_have_one_each() -> None:
    """--gres-flags=one-task-per-sharing, and the default of the site taken back."""
    many = ",MULTIPLE_SHARING_GRES_PJ"
    for select, flags, expected in (
        (many, 0, {0: 2}),
        (many, REQ_GRES_ONE_TASK_SHARING, {0: 1, 1: 1}),
        (many + ",ONE_TASK_PER_SHARING_GRES", 0, {0: 1, 1: 1}),
        (many + ",ONE_TASK_PER_SHARING_GRES", REQ_GRES_MANY_TASKS_SHARING, {0: 2}),
    ):
        site = PartsSite(select=select)
        job_id = site.add(ntasks=2, tres_per_task="gres/shard=1", flags=flags)
        site.run()
        assert site.held(job_id) == [expected]


def test_the_least_loaded_gpu_first() -> None:
    """LL_SHARED_GRES."""
    site = PartsSite(select=",LL_SHARED_GRES")
    jobs = [site.add(gres="shard:1") for _ in range(3)]
    site.run()
    assert [site.held(job_id) for job_id in jobs] == [[{0: 1}], [{1: 1}], [{0: 1}]]


def test_mps_is_of_one_gpu_of_a_node_unless_all_may_be_shared() -> None:
    """The default of mps is one_sharing, that of shards all_sharing."""
    gres = (
        NodeGres("gpu", "", 2),
        NodeGres("mps", "", 200, parts=(100, 100), flags="all_sharing"),
        NodeGres("shard", "", 8, parts=(4, 4)),
    )
    for facts, running in (((), 2), (gres, 3)):
        site = PartsSite(gres=facts)
        for _ in range(3):
            site.add(gres="mps:50")
        assert len(site.run().starts) == running


def test_parts_lie_where_the_node_says() -> None:
    """gres.conf may give one GPU more than another."""
    gres = (NodeGres("gpu", "", 2), NodeGres("shard", "", 8, parts=(2, 6)))
    site = PartsSite(gres=(*gres, NodeGres("mps", "", 200)))
    job_id = site.add(gres="shard:5")
    site.run()
    assert site.held(job_id) == [{1: 5}]


def test_parts_near_free_cores() -> None:
    """The GPU whose socket is busy is not the first choice."""
    near = (b"\xff", b"\x00\xff")
    site = PartsSite(
        gres=(NodeGres("gpu", "", 2, cores=near), NodeGres("shard", "", 8, parts=(4, 4)))
    )
    site.add(ntasks=1, cpus_per_task=8)
    site.run()
    job_id = site.add(gres="shard:1", ntasks=1, cpus_per_task=2)
    site.run()
    assert site.held(job_id) == [{1: 1}]
    (alloc,) = site.cluster.jobs[job_id].nodes
    assert int.from_bytes(alloc.cores, "little") & 0xFF00


def test_a_shared_gpu_becomes_free_for_the_job_that_it_was_promised() -> None:
    """A long job with shards goes to the GPU that is in parts for long, not to the promised one."""
    site = PartsSite()
    short = site.add(10, gres="shard:3")
    long = site.add(100, gres="shard:2")
    site.run()
    assert (site.held(short), site.held(long)) == ([{0: 3}], [{1: 2}])
    whole = site.add(60, gres="gpu:1")
    later = site.add(60, gres="shard:1")
    plan = site.run()
    assert plan.expected_start_us[whole] == START_US + 10 * MINUTE_US
    assert site.held(later) == [{1: 1}]
    site.run(10)
    assert site.cluster.jobs[whole].nodes


def test_what_no_job_can_have_is_refused() -> None:
    """Parts together with whole GPUs or of two names, and mps of several nodes."""
    site = PartsSite(2)
    for wants in (
        {"gres": "gpu:1,shard:1"},
        {"gres": "shard:1", "gpus": "1"},
        {"gres": "shard:1,mps:1"},
        {"gres": "mps:10", "nodes_min": 2},
        {"tres_per_task": "gres/shard=1", "gpus_per_node": "1"},
    ):
        answer = check_names(site.cluster, JobRequest(**wants), site.conf)  # type: ignore[arg-type]
        assert isinstance(answer, Reject), wants
    ok = check_names(site.cluster, JobRequest(gres="shard:1", nodes_min=2), site.conf)
    assert not isinstance(ok, Reject)


def shards(count: int) -> StepNeed:
    """Return what a step asks for that wants some shards."""
    return exact_step(gres_per_node=(("shard", "", count),))


def test_steps_share_what_the_job_has() -> None:
    """Two steps of two shards go beside each other in a job of five; a third waits."""
    site = PartsSite(select=",MULTIPLE_SHARING_GRES_PJ")
    job_id = site.add(gres="shard:5", ntasks=3)
    site.run()
    job = site.cluster.jobs[job_id]
    specs = {0: snapshot(site.cluster, site.now_us).specs[0] or NodeSpec("")}
    (share,) = shares_of(job, specs, ignore_steps=False)
    taken = []
    for _ in range(2):
        step = place(shards(2), [share])
        assert isinstance(step, StepPlace)
        taken.append([held_parts(gres) for gres in step.allocs[0].gres])
        share.cores &= share.cores - 1
    assert taken == [[{0: 2}], [{0: 2}]]
    assert place(shards(2), [share]) == Lack.GRES
    last = place(shards(1), [share])
    assert isinstance(last, StepPlace)
    assert held_parts(last.allocs[0].gres[0]) == {1: 1}


WANTS = st.sampled_from(
    [
        {"gres": "shard:1"},
        {"gres": "shard:2"},
        {"gres": "shard:3", "ntasks": 2},
        {"gres": "shard:1", "nodes_min": 2, "nodes_max": 2},
        {"tres_per_task": "gres/shard=1", "ntasks": 3},
        {"gres": "mps:30"},
        {"gres": "gpu:1"},
        {"gres": "gpu:2"},
        {"gpus": "3"},
        {"gres": "gpu:1", "nodes_min": 2, "nodes_max": 2},
        {"gres": "shard:2", "flags": REQ_EXCLUSIVE},
    ]
)
ARRIVALS = st.lists(
    st.tuples(WANTS, st.sampled_from([1, 2, 5, 9]), st.sampled_from([0, 0, 1, 2])), max_size=25
)


@settings(deadline=None, max_examples=drawn(40))
@given(
    arrivals=ARRIVALS,
    select=st.sampled_from(["", ",MULTIPLE_SHARING_GRES_PJ", ",LL_SHARED_GRES"]),
    scheduler=st.sampled_from(["sched/backfill", "sched/builtin"]),
)
def test_nothing_is_in_use_twice_at_any_time(
    arrivals: list[tuple[dict[str, object], int, int]], select: str, scheduler: str
) -> None:
    """Jobs come and go; a job with whole GPUs that is first in line is delayed by none after it."""
    site = PartsSite(2, select, scheduler)
    promised: dict[int, int] = {}
    for wants, minutes, gap in arrivals:
        is_first = not site.cluster.job_index.pending
        job_id = site.add(minutes, **wants)
        plan = site.run(gap)
        if is_first and "gpu" in str(wants) and job_id in plan.expected_start_us:
            promised[job_id] = plan.expected_start_us[job_id]
    for _ in range(400):
        if not site.cluster.job_index.pending:
            break
        site.run(1)
    assert not site.cluster.job_index.pending
    for job_id, start_us in promised.items():
        assert site.cluster.jobs[job_id].start_us <= start_us + MINUTE_US
