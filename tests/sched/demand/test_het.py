"""Heterogeneous jobs: all components start at one moment, or none does."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from pyslurm_ng._select import NEVER, Grid
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import NO_VAL, REQ_EXCLUSIVE
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch_het
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit, submit_het
from tests.sched.demand.het_queues import queues
from tests.sched.whole_nodes import WHOLE_NODES
from tests.world.examples import drawn
from tests.world.passes import run_pass, together
from tests.world.reservations import ReservationSite

MINUTE_US = 60_000_000
RULES = policy(conf_of())
BUILTIN = policy(conf_of(FOUR_NODES + "SchedulerType=sched/builtin\n"))


def states(cluster: Cluster, job_ids: list[int]) -> set[int]:
    """Return the states that some jobs are in."""
    return {cluster.jobs[job_id].state for job_id in job_ids}


def test_components_in_two_partitions_start_in_one_pass() -> None:
    """Each gets what it asks for, where it asks; the script belongs to the leader alone."""
    cluster = cluster_of()
    cpu = JobRequest(ntasks=4, partition="main")
    gpu = JobRequest(gpus_per_node="a100:1", partition="gpu")
    ids = submit_het(cluster, cpu, gpu)
    plan = run_pass(cluster)
    assert [start.job_id for start in plan.starts] == ids
    assert states(cluster, ids) == {JobState.RUNNING}
    assert list(cluster.jobs[ids[0]].steps) and not cluster.jobs[ids[1]].steps
    assert cluster.jobs[ids[1]].nodes[0].gres[0].count == 1


def test_components_share_no_node_with_one_another() -> None:
    """One CPU each, and idle nodes in plenty: as in Slurm, each has a node of its own."""
    cluster = cluster_of()
    single = JobRequest(ntasks=1, nodes_max=1)
    ids = submit_het(cluster, single, single, JobRequest(ntasks=1, nodes_max=1, node_list="n3"))
    other = submit_het(cluster, *[single] * 5)
    plan = run_pass(cluster)
    assert states(cluster, ids) == {JobState.RUNNING}
    nodes = [alloc.node_id for job_id in ids for alloc in cluster.jobs[job_id].nodes]
    assert len(nodes) == len(set(nodes)) == 3
    assert states(cluster, other) == {JobState.PENDING}
    assert "together they need 5 nodes" in plan.waits[other[0]].text


def test_components_that_name_one_node_are_refused() -> None:
    """Both want n1, and it cannot be both their own."""
    site = ReservationSite(plan=Planner())
    twice = [JobRequest(node_list="n1"), JobRequest(node_list="n[1-2]", nodes_min=2)]
    outcome = site.submit_parts(*twice)
    assert isinstance(outcome, Reject) and outcome.code == Errno.ESLURM_INVALID_NODE_NAME


def test_none_starts_when_one_has_no_room() -> None:
    """The second component waits for GPUs; the first is promised the same moment."""
    cluster = cluster_of()
    for _ in range(2):
        submit(cluster, JobRequest(gpus_per_node="a100:4"), time_limit_min=60)
    run_pass(cluster)
    ids = submit_het(cluster, JobRequest(), JobRequest(gpus="1"), time_limit_min=10)
    small = submit(cluster, JobRequest(), time_limit_min=600)
    plan = run_pass(cluster)
    assert states(cluster, ids) == {JobState.PENDING}
    moments = {plan.expected_start_us[job_id] for job_id in ids}
    assert len(moments) == 1 and moments.pop() >= START_US + 60 * MINUTE_US
    assert all(plan.planned_nodes[job_id] for job_id in ids)
    assert plan.waits[ids[0]].reason == Reason.Resources
    assert cluster.jobs[small].nodes


def test_two_components_never_count_the_same_nodes_twice() -> None:
    """Four whole nodes: 3 + 2 never fit, 2 + 2 do. An impossible job holds no other job up."""
    conf = conf_of(WHOLE_NODES)
    cluster = cluster_of(conf)
    too_many = submit_het(
        cluster, JobRequest(nodes_min=3, nodes_max=3), JobRequest(nodes_min=2, nodes_max=2)
    )
    pair = submit_het(
        cluster, JobRequest(nodes_min=2, nodes_max=2), JobRequest(nodes_min=2, nodes_max=2)
    )
    plan = run_pass(cluster, rules=policy(conf))
    assert states(cluster, too_many) == {JobState.PENDING}
    assert not set(too_many) & set(plan.expected_start_us)
    assert states(cluster, pair) == {JobState.RUNNING}


def test_a_common_start_waits_for_the_later_part_and_others_fill_the_time() -> None:
    """Three nodes end at 60 minutes; a 2 + 2 job waits for then, a short job uses the free node."""
    conf = conf_of(WHOLE_NODES)
    cluster = cluster_of(conf)
    rules = policy(conf)
    submit(cluster, JobRequest(nodes_min=3, nodes_max=3), time_limit_min=60)
    run_pass(cluster, rules=rules)
    two = JobRequest(nodes_min=2, nodes_max=2)
    ids = submit_het(cluster, two, two)
    short = submit(cluster, JobRequest(), time_limit_min=60)
    long = submit(cluster, JobRequest(), time_limit_min=61)
    plan = run_pass(cluster, rules=rules)
    assert {plan.expected_start_us[job_id] for job_id in ids} == {START_US + 60 * MINUTE_US}
    assert cluster.jobs[short].state == JobState.RUNNING
    assert cluster.jobs[long].state == JobState.PENDING
    assert plan.expected_start_us[long] == START_US + 120 * MINUTE_US


def test_component_that_may_not_be_considered_holds_up_the_others() -> None:
    """One component is held: nothing of the job starts, and the other says so."""
    cluster = cluster_of()
    ids = submit_het(cluster, JobRequest(), JobRequest())
    apply_all(cluster, [ev.JobUpdated(time_us=START_US, job_id=ids[1], fields={"priority": 0})])
    plan = run_pass(cluster)
    assert states(cluster, ids) == {JobState.PENDING}
    assert "1 of 2 components" in plan.waits[ids[0]].text


def test_dispatch_starts_nothing_when_one_part_has_gone() -> None:
    """Between plan and dispatch a component was held: no event for any."""
    cluster = cluster_of()
    ids = submit_het(cluster, JobRequest(), JobRequest())
    plan = Planner()(snapshot(cluster, START_US), RULES)
    update = ev.JobUpdated(time_us=START_US, job_id=ids[1], fields={"priority": 0})
    apply_all(cluster, [update])
    assert dispatch_het(cluster, plan.starts, START_US) == []
    assert dispatch_het(cluster, plan.starts[:1], START_US) == []


def test_bf_hetjob_prio_decides_whose_priority_counts() -> None:
    """Components of different nice: with min the job is behind a plain one, with max before it."""
    first: dict[str, bool] = {}
    for how in ("min", "avg", "max"):
        text = FOUR_NODES + f"SchedulerParameters=bf_hetjob_prio={how}\nPriorityWeightJobSize=0\n"
        rules = policy(conf_of(text))
        cluster = cluster_of(conf_of(text))
        four = JobRequest(nodes_min=4, ntasks=4, flags=REQ_EXCLUSIVE)
        submit(cluster, four)
        run_pass(cluster, rules=rules)
        plain = submit(cluster, four)
        ids = submit_het(cluster, JobRequest(nodes_min=3, ntasks=3), JobRequest(partition="gpu"))
        for job_id, priority in zip((plain, *ids), (500, 900, 50), strict=True):
            update = ev.JobUpdated(time_us=START_US, job_id=job_id, fields={"priority": priority})
            apply_all(cluster, [update])
        plan = run_pass(cluster, rules=rules)
        starts = plan.expected_start_us
        assert starts[ids[0]] == starts[ids[1]]
        first[how] = starts[ids[0]] < starts[plain]
    assert first == {"min": False, "avg": False, "max": True}


def test_strict_order_starts_all_or_none_too() -> None:
    """sched/builtin: a whole-node pair that does not fit leaves the nodes as they were."""
    cluster = cluster_of()
    big = JobRequest(ntasks=17, nodes_min=2)
    ids = submit_het(cluster, big, JobRequest(nodes_min=4, ntasks=64))
    plan = run_pass(cluster, rules=BUILTIN)
    assert not plan.starts and set(plan.waits) == set(ids)
    cluster = cluster_of()
    ids = submit_het(cluster, JobRequest(), JobRequest(partition="gpu"))
    plan = run_pass(cluster, rules=BUILTIN)
    assert [start.job_id for start in plan.starts] == ids


@settings(deadline=None, max_examples=drawn(60))
@given(first=queues, second=queues, builtin=st.booleans())
def test_no_job_is_ever_started_in_part(
    first: list[tuple[list[JobRequest], int]],
    second: list[tuple[list[JobRequest], int]],
    builtin: bool,
) -> None:
    """All or nothing, no oversubscription, one common moment, the same plan for the same state."""
    text = FOUR_NODES + "Licenses=matlab:3\n"
    text += "SchedulerType=sched/builtin\n" if builtin else ""
    conf = conf_of(text)
    cluster, rules = cluster_of(conf), policy(conf)
    jobs: list[list[int]] = []
    for queue in (first, second):
        for parts, limit in queue:
            if len(parts) == 1:
                jobs.append([submit(cluster, parts[0], time_limit_min=limit)])
            else:
                jobs.append(submit_het(cluster, *parts, time_limit_min=limit))
        view = snapshot(cluster, START_US)
        again = Planner()(view, rules)
        pending = set(cluster.job_index.pending)
        plan = run_pass(cluster, rules=rules)
        assert plan.starts == again.starts
        assert plan.expected_start_us == again.expected_start_us
        assert {start.job_id for start in plan.starts} | set(plan.waits) == pending
        for ids in jobs:
            nodes = [alloc.node_id for job_id in ids for alloc in cluster.jobs[job_id].nodes]
            assert len(set(nodes)) == len(nodes)
            assert len(states(cluster, ids)) == 1
            assert len({plan.expected_start_us.get(job_id) for job_id in ids}) == 1


TIMES = [0, 1, 2, 4, 7, 11, 16, *range(20, 80, 3)]
SHAPES = [(1, 1, 1, 1), (1, 2, 3, 4), (1, 3, 1, 20), (2, 3, 3, 33), (3, 1, 1, 9)]


def grid_of(nodes: list[tuple[int, int]]) -> tuple[Grid, list[int]]:
    """Return a grid of two resources, and a kind of each shape."""
    grid = Grid(TIMES, [0] * len(nodes), 1, 2)
    for resource in (0, 1):
        grid.set_amounts(resource, [node[resource] for node in nodes])
    planes = {
        (resource, amount): grid.add_plane(resource, [amount])
        for resource in (0, 1)
        for amount in (1, 2, 3)
    }
    mask = grid.add_mask(bytes([1] * len(nodes)))
    kinds = []
    for count, cpus, mem, duration in SHAPES:
        shape = grid.add_shape([0, 1], [planes[0, cpus], planes[1, mem]], [[cpus, mem]], 0)
        kinds.append(grid.add_kind(shape, mask, count, duration))
    return grid, kinds


@settings(deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=70),
    before=st.lists(st.integers(0, 4), max_size=20),
    tried=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 70)), max_size=20),
    after=st.lists(st.integers(0, 4), max_size=20),
)
def test_trial_rolled_back_has_never_been(
    nodes: list[tuple[int, int]],
    before: list[int],
    tried: list[tuple[int, int]],
    after: list[int],
) -> None:
    """What is found and held afterwards is the same as on a grid that saw no trial."""
    (grid, kinds), (twin, _) = grid_of(nodes), grid_of(nodes)
    for either in (grid, twin):
        for shape in before:
            start = either.find(kinds[shape])
            if start != NEVER:
                either.take_nodes(kinds[shape], either.found(), start)
    grid.begin_trial()
    for shape, time in tried:
        slot = grid.find_from(kinds[shape], time) if time % 2 else grid.find(kinds[shape])
        if slot != NEVER:
            grid.take_nodes(kinds[shape], grid.found(), slot)
    grid.roll_back()
    for shape in after:
        slot = grid.find(kinds[shape])
        assert slot == twin.find(kinds[shape])
        if slot != NEVER:
            assert grid.found() == twin.found()
            grid.take_nodes(kinds[shape], grid.found(), slot)
            twin.take_nodes(kinds[shape], twin.found(), slot)
    for node in range(len(nodes)):
        for resource in (0, 1):
            assert grid.free_at(node, resource) == twin.free_at(node, resource)


@settings(deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=70),
    holdings=st.lists(st.integers(0, 4), max_size=40),
    shape=st.integers(0, 4),
    time=st.integers(0, 90),
)
def test_first_start_not_before_a_moment(
    nodes: list[tuple[int, int]], holdings: list[int], shape: int, time: int
) -> None:
    """It is the first boundary from then on with enough nodes free for as long as needed."""
    grid, kinds = grid_of(nodes)
    for other in holdings:
        start = grid.find(kinds[other])
        if start != NEVER:
            grid.take_nodes(kinds[other], grid.found(), start)
    count, cpus, mem, duration = SHAPES[shape]
    free = [(grid.free_at(node, 0), grid.free_at(node, 1)) for node in range(len(nodes))]
    expected = NEVER
    for slot, begin in enumerate(TIMES):
        if begin < time:
            continue
        end = max(slot + 1, len([moment for moment in TIMES if moment < begin + duration]))
        fits = sum(min(c[slot:end]) >= cpus and min(m[slot:end]) >= mem for c, m in free)
        if fits >= count:
            expected = begin
            break
    assert grid.find_from(kinds[shape], time) == expected


def test_components_inside_a_reservation_have_its_nodes_or_wait() -> None:
    """Two nodes take two components, not three. No magnet draws one component alone."""
    here = ReservationSite(plan=Planner())
    here.make(nodes="n2,n3", flags="MAGNETIC")
    here.advance()
    wide, pair, outside = (
        submit_inside(here, *(JobRequest(ntasks=count, reservation=name) for count in counts))
        for name, counts in (("r", (1, 1, 1)), ("r", (8, 7)), ("", (4, 4)))
    )
    plan = Planner()(snapshot(here.cluster, here.now_us), policy(here.conf))
    for starts in together(plan.starts):
        events = dispatch_het(here.cluster, starts, here.now_us)
        assert events
        here.apply(events)
    assert states(here.cluster, wide) == {JobState.PENDING}
    assert set(wide) <= set(plan.waits)
    assert nodes_of(here, pair) == {"n2", "n3"}
    assert states(here.cluster, outside) == {JobState.RUNNING}
    assert nodes_of(here, outside) == {"n1", "n4"}


def test_components_may_be_in_different_reservations() -> None:
    """One each in two reservations and outside; all or none start, and no other is delayed."""
    here = ReservationSite(plan=Planner())
    here.make("a", nodes="n1")
    here.make("b", nodes="n2")
    here.advance()
    across = submit_inside(
        here,
        JobRequest(reservation="b"),
        JobRequest(reservation="a"),
        JobRequest(node_list="n3"),
    )
    plan = Planner()(snapshot(here.cluster, here.now_us), policy(here.conf))
    assert [start.job_id for start in plan.starts] == across
    here.apply(dispatch_het(here.cluster, plan.starts, here.now_us))
    assert [nodes_of(here, [job_id]) for job_id in across] == [{"n2"}, {"n1"}, {"n3"}]
    wide = JobRequest(reservation="a", flags=REQ_EXCLUSIVE)
    waiting = submit_inside(here, JobRequest(reservation="b"), wide)
    plan = Planner()(snapshot(here.cluster, here.now_us), policy(here.conf))
    assert not plan.starts and set(plan.waits) == set(waiting)
    assert f"component {waiting[1]} of its job finds no room" in plan.waits[waiting[0]].text
    assert all(plan.priorities[job_id] for job_id in waiting)


def nodes_of(room: ReservationSite, job_ids: list[int]) -> set[str]:
    """Return the nodes that some jobs have."""
    return {name for job_id in job_ids for name in room.places(room.cluster.jobs[job_id])}


def submit_inside(room: ReservationSite, *requests: JobRequest) -> list[int]:
    """Submit a heterogeneous job of alice through the rule; return the ids."""
    outcome = room.submit_parts(*requests)
    assert isinstance(outcome, Decision), outcome
    return [outcome.reply.job_id + offset for offset in range(len(requests))]


def test_components_that_never_have_room_together_say_what_they_need_together() -> None:
    """Each may have its two licences; there are not four."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    component = JobRequest(nodes_min=1, nodes_max=1, licenses="matlab:2")
    job_ids = submit_het(cluster, component, component)
    plan = Planner()(snapshot(cluster, START_US), policy(conf_of(WHOLE_NODES)))
    assert not plan.starts
    for job_id in job_ids:
        assert plan.waits[job_id].reason == Reason.Resources
        assert plan.waits[job_id].text == (
            "no time was found when all components have room: "
            "together they need 2 nodes, 2 CPUs, 4 licences matlab"
        )


def test_components_behind_another_job_wait_for_room_as_in_slurm() -> None:
    """Recorded of 26.11: `low` behind `big` says Priority, both components say Resources."""
    cluster = cluster_of()
    whole = JobRequest(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE)
    submit(cluster, whole, time_limit_min=60)
    run_pass(cluster)
    first = submit(cluster, whole, time_limit_min=60)
    second = submit(cluster, whole, time_limit_min=60)
    both = submit_het(cluster, JobRequest(), JobRequest(ntasks=2), time_limit_min=120)
    waits = run_pass(cluster).waits
    assert waits[first].reason == Reason.Resources
    assert waits[second].reason == Reason.Priority
    assert {waits[job_id].reason for job_id in both} == {Reason.Resources}
    assert f"job {first} of higher priority" in waits[both[0]].text


def test_components_that_never_fit_at_once_say_so() -> None:
    """Each fits the four nodes alone; the sentence names what they need together."""
    cluster = cluster_of()
    whole = JobRequest(nodes_min=3, nodes_max=3, flags=REQ_EXCLUSIVE)
    both = submit_het(cluster, whole, whole)
    waits = run_pass(cluster).waits
    for job_id in both:
        assert waits[job_id].reason == Reason.Resources
        assert "together they need 6 nodes" in waits[job_id].text


def test_a_component_that_never_fits_is_named_by_the_others() -> None:
    """The explanation of one component names the other one that stops it."""
    cluster = cluster_of()
    fits = JobRequest(nodes_min=1, nodes_max=1)
    wide = JobRequest(nodes_min=1, nodes_max=1, ntasks=17)
    first, second = submit_het(cluster, fits, wide)
    waits = run_pass(cluster).waits
    assert waits[second].reason == Reason.BadConstraints
    assert "has no such nodes" in waits[second].text
    assert f"component {second} of its job cannot run" in waits[first].text


def test_a_component_without_room_in_sight_is_named_by_the_others() -> None:
    """A node that it needs is in use for good."""
    cluster = cluster_of()
    submit(cluster, JobRequest(node_list="n1", flags=REQ_EXCLUSIVE), time_limit_min=NO_VAL)
    run_pass(cluster)
    first, second = submit_het(cluster, JobRequest(), JobRequest(node_list="n1"))
    waits = run_pass(cluster).waits
    assert waits[second].text.endswith("no time was found")
    text = f"component {second} of its job finds no room: {waits[second].text}"
    assert waits[first].text == text


def test_components_that_cannot_be_over_by_a_deadline_do_not_start() -> None:
    cluster = cluster_of()
    late = JobRequest(deadline_us=START_US + 30 * MINUTE_US)
    job_ids = submit_het(cluster, JobRequest(), late, time_limit_min=60)
    plan = run_pass(cluster)
    assert states(cluster, job_ids) == {JobState.PENDING}
    assert {plan.waits[job_id].reason for job_id in job_ids} == {Reason.DeadLine}
