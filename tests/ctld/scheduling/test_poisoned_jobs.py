"""One job that makes the scheduler raise costs itself: it is held, all others start.

Finding C1: two jobs with a time limit of -2^63 minutes, accepted from the wire and kept in the
journal, made every pass raise, so that nobody's job started any more, restarts included.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec
import pytest

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.scheduling import starter
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill import queue, walk
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.demand import demand
from pyslurm_ng.sched.frame import job_views
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.timeline import room_now
from pyslurm_ng.sched.timeline.node_plan import NodePlan
from pyslurm_ng.sched.timeline.pools import Pools
from pyslurm_ng.sim.world import World
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.world.logs import LineLog
from tests.world.sim_room import SimRoom

LEAST, MOST = -(1 << 63), (1 << 63) - 1
EXTREMES = (LEAST, -1, INFINITE, NO_VAL, 1 << 40, MOST)
FIELDS = get_type_hints(JobRequest)  # without the bounds that requests of today have to keep
INT_FIELDS = sorted(name for name, kind in FIELDS.items() if kind is int and name != "uid")
TEXT_FIELDS = sorted(name for name, kind in FIELDS.items() if kind is str)
assert len(INT_FIELDS) > 30
assert len(TEXT_FIELDS) > 30
RECORD_FIELDS = (
    "priority", "nice", "site_factor", "array_limit", "accrue_us", "eligible_us", "submit_us",
    "begin_us", "time_limit_min",
)  # fmt: skip
ODD_TEXTS = ("\x00\n%s", "&|()[*]", "1-0", "gpu:99999999999999999999", "n[1-4", ",,,", "\u202e" * 9)


class Room(SimRoom):
    """A controller on four nodes that counts faults, its loop and its time in the test's hands."""

    def __init__(self, text: str = "", cluster: Cluster | None = None) -> None:
        conf = conf_of(text) if text else conf_of()
        world = World(start_us=START_US)
        self.log = LineLog()
        self.faults = Faults(self.log, lambda: world.now_us / 1e6)
        super().__init__(conf, cluster=cluster or cluster_of(conf), world=world, faults=self.faults)

    def submit(self, uid: int = 1001, **wants: Any) -> Job:
        """Put a job into the state as an older version has accepted it."""
        limit_min = wants.get("time_limit_min", 60)
        job_id = submit(self.cluster, JobRequest(**wants), uid=uid, time_limit_min=limit_min)
        self.controller.scheduler.applied([ev.JobUpdated(START_US, job_id, {})])
        return self.cluster.jobs[job_id]

    def run(self, seconds: float = 20) -> None:
        """Let passes run."""
        self.controller.scheduler.due()
        super().run(seconds)


def is_set_aside(job: Job) -> bool:
    return job.priority == 0 and job.reason == Reason.BadConstraints and bool(job.reason_text)


def test_two_broken_jobs_stop_no_other_job() -> None:
    """Finding C1."""
    room = Room()
    poison = [room.submit(uid=1, nodes_min=2, time_limit_min=LEAST + number) for number in (0, 1)]
    good = [room.submit(uid=2, nodes_min=number) for number in (1, 2)]
    room.run()
    assert [job.state for job in good] == [JobState.RUNNING] * 2
    assert all(map(is_set_aside, poison))
    assert f"a time limit of {LEAST} minutes" in poison[0].reason_text
    assert room.faults.counts["job"] == 2
    # One is told with its cause, the other is only counted.
    assert sum("fault (job)" in line for line in room.log.lines) == 1


def test_a_restart_with_such_jobs_schedules_the_others() -> None:
    """They are in the journal, so a new controller has them in its state, too."""
    before = Room()
    poison = before.submit(uid=1, time_limit_min=LEAST)
    room = Room(cluster=Cluster.from_bytes(before.cluster.to_bytes()))
    good = room.submit(uid=2)
    room.run()
    assert good.state == JobState.RUNNING
    assert is_set_aside(room.cluster.jobs[poison.job_id])


def test_many_such_jobs_cost_one_more_pass() -> None:
    """A user with a thousand of them must not make all others wait for a thousand passes."""
    room = Room()
    poison = [room.submit(uid=1, time_limit_min=-number) for number in range(1, 1001)]
    good = room.submit(uid=2)
    room.run(1)
    assert good.state == JobState.RUNNING
    assert all(map(is_set_aside, poison))


def test_a_held_job_may_start_once_it_is_changed() -> None:
    """With a limit that makes sense it runs."""
    room = Room()
    poison = room.submit(time_limit_min=LEAST)
    room.run()
    fields: dict[str, object] = {"time_limit_min": 5, "priority": NO_VAL, "reason": 0}
    room.controller.writer.record([ev.JobUpdated(room.world.now_us, poison.job_id, fields)])
    room.run()
    assert poison.state == JobState.RUNNING


Inject = Callable[[pytest.MonkeyPatch, set[int]], None]


def raise_in(owner: Any, name: str, find: Callable[..., object]) -> Inject:
    """Make a function of the scheduler raise when it is about certain jobs."""

    def inject(patch: pytest.MonkeyPatch, poisoned: set[int]) -> None:
        usual = getattr(owner, name)

        def raising(*args: Any, **kwargs: Any) -> Any:
            if find(*args, **kwargs) in poisoned:
                raise ZeroDivisionError("nobody foresaw this")
            return usual(*args, **kwargs)

        patch.setattr(owner, name, raising)

    return inject


def raise_in_kernel(planner: type) -> Inject:
    """Make the search for room of many jobs at once raise, without a word about which."""

    def inject(patch: pytest.MonkeyPatch, poisoned: set[int]) -> None:
        usual = planner.begin  # type: ignore[attr-defined]

        def raising(self: Any, *args: Any) -> Any:
            demands = args[0] if planner is Pools else args[1]
            if any(demand.need.cpus_min_per_node == 2 for demand in demands):
                raise MemoryError
            return usual(self, *args)

        patch.setattr(planner, "begin", raising)

    return inject


PLACES: dict[str, Inject] = {
    "record": raise_in(job_views, "_waiting", lambda cluster, job, now_us: job.job_id),
    "priority": raise_in(Ranking, "fixed_part", lambda self, job, partition: job.job_id),
    "prepare": raise_in(queue.Queue, "_prepare", lambda self, job, *rest: job.job_id),
    "demand": raise_in(demand.Demands, "of", lambda self, job, *rest: job.job_id),
    "consider": raise_in(walk.Walk, "_consider", lambda self, job, demand: job.job_id),
    "find": raise_in(walk.Walk, "_find", lambda self, job, demand: job.job_id),
    "settle": raise_in(walk.Walk, "_settle", lambda self, job, *rest: job.job_id),
    "start": raise_in(walk.Walk, "start_on", lambda self, job, *rest: job.job_id),
    "pools": raise_in_kernel(Pools),
    "nodes": raise_in_kernel(NodePlan),
    "dispatch": raise_in(starter, "dispatch", lambda cluster, start, *rest, **more: start.job_id),
}
POLICIES = {
    "backfill": "",
    "no backfill": "SchedulerType=sched/builtin\n",
    "nodes": "PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n",
}
NODES = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
NodeName=n[1-4] CPUs=4 RealMemory=1000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE
"""


@pytest.fixture(params=sorted(POLICIES))
def conf_text(request: pytest.FixtureRequest) -> str:
    return NODES + POLICIES[request.param]


@pytest.mark.parametrize("function", sorted(PLACES))
def test_an_exception_about_a_job_costs_that_job(
    function: str, conf_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is raised, all other jobs start, in their order."""
    room = Room(conf_text)
    good = [room.submit(uid=2, ntasks=2) for _ in range(3)]
    poison = room.submit(uid=1, ntasks=2, mincpus=2)
    good += [room.submit(uid=3, ntasks=2) for _ in range(3)]
    PLACES[function](monkeypatch, {poison.job_id})
    room.run()
    assert [job.state for job in good] == [JobState.RUNNING] * 6
    is_reached = function not in ("nodes", "pools") or bool(room.faults.counts)
    if "builtin" in conf_text or not is_reached:
        assert poison.state == JobState.RUNNING or is_set_aside(poison)
    else:
        assert is_set_aside(poison), (poison.state, room.log.lines)
    # Passes go on without it.
    cycles = room.controller.soft.passes.cycles
    late = room.submit(uid=4)
    room.run()
    assert late.state == JobState.RUNNING
    assert room.controller.soft.passes.cycles > cycles


@pytest.mark.parametrize("seed", range(6))
def test_injected_exceptions_never_stop_the_others(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several jobs, several places, a queue longer than the machine: only the poisoned wait."""
    chance = random.Random(seed)
    room = Room(NODES)
    jobs = [
        room.submit(uid=chance.randint(1, 5), ntasks=chance.randint(1, 4), time_limit_min=2)
        for _ in range(40)
    ]
    poisoned = {job.job_id for job in chance.sample(jobs, 8)}
    for function in chance.sample(sorted(set(PLACES) - {"pools", "nodes"}), 4):
        PLACES[function](monkeypatch, poisoned)
    for _ in range(40):
        room.run(60)
        now_us = room.world.now_us
        for job_id in [*room.cluster.job_index.active]:
            end(room, job_id, now_us)
    states = {job.job_id: job.state for job in jobs}
    assert {job_id for job_id, state in states.items() if state == JobState.PENDING} == poisoned
    assert all(is_set_aside(room.cluster.jobs[job_id]) for job_id in poisoned)


def end(room: Room, job_id: int, now_us: int) -> None:
    """Let a running job be over at once."""
    job = room.cluster.jobs[job_id]
    clean = frozenset(alloc.node_id for alloc in job.nodes)
    over = job_end.End(JobState.COMPLETED)
    room.controller.writer.record(
        job_end.complete(room.cluster, job, over, now_us, clean_nodes=clean)
    )


def test_an_active_job_whose_record_raises_costs_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps what it has; the others share the rest."""
    room = Room(NODES)
    odd = room.submit(uid=1, ntasks=4)
    room.run()
    assert odd.state == JobState.RUNNING
    raise_in(job_views, "_running", lambda cluster, job, *rest, **more: job.job_id)(
        monkeypatch, {odd.job_id}
    )
    good = [room.submit(uid=2, ntasks=4) for _ in range(4)]
    room.run()
    assert sorted(job.state for job in good) == [JobState.PENDING, *[JobState.RUNNING] * 3]
    assert odd.state == JobState.RUNNING


def test_a_fault_of_no_job_starts_another_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """No job is held for it: the pass is run again a second later."""
    room = Room(NODES)
    job = room.submit()
    with monkeypatch.context() as patch:
        patch.setattr(Planner, "_begin", lambda self, view, policy: 1 // 0)
        room.run(10)
        assert job.state == JobState.PENDING
        assert not is_set_aside(job)
        assert 5 <= room.faults.counts["pass"] <= 11
    room.run(400)  # it may have been left out meanwhile
    assert job.state == JobState.RUNNING


@pytest.mark.parametrize("field", INT_FIELDS)
def test_no_number_of_a_job_stops_others(field: str) -> None:
    """Old journals may hold any number: what submission refuses today was accepted before."""
    for value in EXTREMES:
        room = Room()
        room.submit(uid=1, **{field: value})
        room.submit(uid=1, ntasks=4, gpus="2", **{field: value} if field != "ntasks" else {})
        good = room.submit(uid=2)
        room.run(3)
        assert good.state == JobState.RUNNING, (value, room.log.lines)


@pytest.mark.parametrize("field", TEXT_FIELDS)
def test_no_text_of_a_job_stops_others(field: str) -> None:
    """In every field that has a grammar."""
    for value in ODD_TEXTS:
        room = Room()
        room.submit(uid=1, **{field: value})
        good = room.submit(uid=2)
        room.run(3)
        assert good.state == JobState.RUNNING, (value, room.log.lines)


@pytest.mark.parametrize("field", RECORD_FIELDS)
def test_no_number_of_a_record_stops_others(field: str) -> None:
    """The same for what the controller itself keeps of a job."""
    for value in EXTREMES:
        room = Room()
        odd = room.submit(uid=1)
        setattr(odd, field, value)
        good = room.submit(uid=2)
        room.run(3)
        assert good.state == JobState.RUNNING, (value, room.log.lines)


def test_builtin_scheduling_names_the_job_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """sched/builtin plans in Python alone, and names the job."""
    room = Room(NODES + POLICIES["no backfill"])
    poison = room.submit(uid=1, ntasks=2)
    raise_in(room_now, "choose", lambda need, *rest: need.tasks)(monkeypatch, {2})
    good = room.submit(uid=2)
    room.run()
    assert good.state == JobState.RUNNING
    assert is_set_aside(poison)


def test_records_stay_encodable() -> None:
    """The event that holds a job goes into the journal like any other."""
    room = Room()
    poison = room.submit(time_limit_min=LEAST)
    room.run()
    image = Cluster.from_bytes(room.cluster.to_bytes())
    assert image.jobs[poison.job_id].reason_text == poison.reason_text
    assert msgspec.to_builtins(poison.request)
