"""Sockets, cores and threads that a job insists on or has to itself."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pyslurm_ng.base.numbers import REQ_NO_SPECIAL_CORES
from pyslurm_ng.model.check import check
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, empty_node
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.request.need import Selection, need_of
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.world.passes import run_pass

SPEC = NodeSpec("n", cpus=16, sockets=2, cores_per_socket=4, threads_per_core=2)
PLAIN = Selection(with_memory=False)
SOCKETS = Selection(with_memory=False, whole_sockets=True)


def node(busy: int = 0, spec: NodeSpec = SPEC) -> FreeNode:
    free = empty_node(0, spec)
    free.cores &= ~busy
    free.is_idle = not busy
    return free


def cores(
    free: FreeNode, selection: Selection = PLAIN, partition: str = "", **wants: int | str
) -> int:
    """Return the mask of cores that a job of one node gets, 0 for none."""
    request = JobRequest(**{"nodes_min": 1, "nodes_max": 1, "ntasks": 1, **wants})  # type: ignore[arg-type]
    main = Partition("main", (0,), select_type_parameters=partition)
    need = need_of(request, main, {}, selection)
    chosen = choose(need, [free])
    return int.from_bytes(allot(need, chosen)[0].cores, "little") if chosen else 0


def test_nodes_too_small_inside_are_of_no_use() -> None:
    """-B, --sockets-per-node, --cores-per-socket, --threads-per-core are least counts."""
    assert cores(node(), sockets_per_node=2, cores_per_socket=4, threads_per_core=2)
    assert not cores(node(), sockets_per_node=3)
    assert not cores(node(), cores_per_socket=5)
    assert not cores(node(), threads_per_core=3)


def test_a_socket_has_no_more_tasks_than_allowed() -> None:
    """--ntasks-per-socket: two tasks of one core in each socket, four of them and not five."""
    assert cores(node(), ntasks=4, cpus_per_task=2, ntasks_per_socket=2) == 0b0011_0011
    assert not cores(node(), ntasks=5, cpus_per_task=2, ntasks_per_socket=2)
    assert cores(node(), ntasks=2, cpus_per_task=4, ntasks_per_socket=1) == 0b0011_0011
    # With one socket nearly full the other has its two, and no more.
    assert not cores(node(busy=0b1111), ntasks=3, cpus_per_task=2, ntasks_per_socket=2)


def test_a_socket_without_room_for_its_tasks_is_of_no_use() -> None:
    """--ntasks-per-socket=9 is refused where sockets have eight CPUs, even for few tasks."""
    assert cores(node(), ntasks=4, ntasks_per_socket=8)
    assert cores(node(), ntasks=2, cpus_per_task=3, ntasks_per_socket=8)
    assert not cores(node(), ntasks=4, ntasks_per_socket=9)


def test_threads_of_a_core_are_no_way_around_the_limit_of_a_socket() -> None:
    """Two tasks of one thread would fit a core; with one task a socket they have one in each."""
    assert cores(node(), ntasks=2, ntasks_per_socket=1) == 0b0001_0001
    assert cores(node(), ntasks=4, ntasks_per_socket=2) == 0b0001_0001
    assert cores(node(), ntasks=4, ntasks_per_socket=2, distribution="block:block") == 0b0001_0001
    assert cores(node(), ntasks=4, ntasks_per_socket=3).bit_count() == 3
    assert cores(node(), SOCKETS, ntasks=2, ntasks_per_socket=1) == 0xFF
    assert cores(node(), ntasks=2, ntasks_per_socket=2) == 0b0000_0001


def test_whole_sockets() -> None:
    """CR_Socket: a job that gets a core gets its socket, and no other job gets it meanwhile."""
    assert cores(node(), SOCKETS) == 0b0000_1111
    assert cores(node(), SOCKETS, ntasks=9) == 0b1111_1111
    assert cores(node(busy=0b0001), SOCKETS) == 0b1111_0000
    assert cores(node(busy=0b1_0001), SOCKETS) == 0
    # A partition may say otherwise, either way.
    assert cores(node(), SOCKETS, "CR_Core") == 0b0000_0001
    assert cores(node(), PLAIN, "CR_Socket") == 0b0000_1111


def test_one_task_per_core() -> None:
    """CR_ONE_TASK_PER_CORE: a task of one CPU has a core of two threads for itself."""
    assert cores(node(), PLAIN, ntasks=4).bit_count() == 2
    alone = Selection(with_memory=False, one_task_per_core=True)
    assert cores(node(), alone, ntasks=4).bit_count() == 4
    assert cores(node(), PLAIN, "CR_ONE_TASK_PER_CORE", ntasks=4).bit_count() == 4
    assert cores(node(), alone, ntasks=4, ntasks_per_core=2).bit_count() == 2
    assert cores(node(), alone, ntasks=2, cpus_per_task=4).bit_count() == 4
    assert not cores(node(), alone, ntasks=9)


def test_block_may_be_the_default() -> None:
    """CR_CORE_DEFAULT_DIST_BLOCK, unless the job says cyclic."""
    block = Selection(with_memory=False, is_block=True)
    assert cores(node(), block, ntasks=4) == 0b0011
    assert cores(node(), PLAIN, ntasks=4) == 0b1_0001
    assert cores(node(), block, ntasks=4, distribution="block:cyclic") == 0b1_0001


def test_special_cores_are_the_jobs_choice_where_allowed() -> None:
    """--core-spec and --thread-spec take whole nodes, less so many cores at the top."""
    allowed = Selection(with_memory=False, allows_special=True)
    special = NodeSpec(
        "n", cpus=16, sockets=2, cores_per_socket=4, threads_per_core=2, core_spec_count=3
    )
    assert cores(node(spec=special)) == 0b0000_0001
    assert cores(node(spec=special), allowed, core_spec=1) == 0b0111_1111
    assert cores(node(spec=special), allowed, core_spec=2) == 0b0111_0111
    assert cores(node(spec=special), allowed, thread_spec=3) == 0b0111_0111
    assert cores(node(spec=special), PLAIN, core_spec=1) == 0b0000_0001
    assert not cores(node(busy=1), allowed, core_spec=1)
    # --core-spec=0: the node's specialised cores are the job's.
    assert cores(node(spec=special), allowed, flags=REQ_NO_SPECIAL_CORES) == 0b1111_1111
    assert cores(node(spec=special), PLAIN, flags=REQ_NO_SPECIAL_CORES) == 0b0000_0001


def test_a_job_with_fewer_special_cores_than_its_node_starts() -> None:
    """It has more CPUs than the node counts as free for jobs."""
    text = FOUR_NODES.replace("CoresPerSocket=8", "CoresPerSocket=4 CoreSpecCount=3")
    conf = conf_of(text + "AllowSpecResourcesUsage=YES\n")
    for wants, cpus in (({"core_spec": 1}, 7), ({"flags": REQ_NO_SPECIAL_CORES}, 8)):
        cluster = cluster_of(conf)
        job_id = submit(cluster, JobRequest(**wants))
        run_pass(cluster, START_US, policy(conf))
        assert [alloc.cpus for alloc in cluster.jobs[job_id].nodes] == [cpus]
        assert check(cluster) == []


def test_special_cores_are_the_first_ones_with_spec_cores_first() -> None:
    """The lowest of each socket in turn, whether the node or the job says how many."""
    conf = conf_of(
        FOUR_NODES.replace("CoresPerSocket=8", "CoresPerSocket=4 CoreSpecCount=3")
        + "SchedulerParameters=spec_cores_first\n"
    )
    spec = cluster_of(conf).node(0).spec
    assert cores(node(spec=spec), ntasks=5) == 0b1110_1100
    allowed = Selection(with_memory=False, allows_special=True)
    assert cores(node(spec=spec), allowed, core_spec=1) == 0b1111_1110


@given(
    busy=st.integers(0, 255),
    tasks=st.integers(1, 8),
    per_task=st.integers(1, 6),
    per_socket=st.integers(0, 4),
    selection=st.sampled_from([PLAIN, SOCKETS, Selection(with_memory=False, is_block=True)]),
    distribution=st.sampled_from(["", "block:block", "cyclic:cyclic"]),
)
def test_no_core_is_given_twice_and_each_task_has_its_own(
    busy: int,
    tasks: int,
    per_task: int,
    per_socket: int,
    selection: Selection,
    distribution: str,
) -> None:
    """Requests are random.

    Only free cores are given, enough of them, in whole sockets where asked.
    """
    got = cores(
        node(busy=busy),
        selection,
        ntasks=tasks,
        cpus_per_task=per_task,
        ntasks_per_socket=per_socket,
        distribution=distribution,
    )
    assert not got & busy
    if got:
        assert got.bit_count() * 2 >= tasks * per_task
        if selection.whole_sockets:
            assert got in (0x0F, 0xF0, 0xFF)
        elif per_socket:
            parts = (got & 0x0F).bit_count(), (got >> 4).bit_count()
            if per_task == 1 or per_task % 2 == 0:  # else tasks may share a core between sockets
                assert sum(min(per_socket, 2 * part // per_task) for part in parts) >= tasks
            most = -(-per_socket * per_task // 2)
            assert max((got & 0x0F).bit_count(), (got >> 4).bit_count()) <= most
