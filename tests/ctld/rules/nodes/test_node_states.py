"""RELIABILITY 36: every state of a node and its jobs meets every action of an administrator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import END_CLEAN
from pyslurm_ng.base.state_names import job_state, node_state_words
from pyslurm_ng.ctld.queries.nodes import node_state
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.nodes.registration import register
from pyslurm_ng.ctld.rules.update.update_nodes import STATES, update_nodes
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, NodeFlag
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.query_messages import UpdateNodes
from tests.ctld.rules.started_jobs import LATER_US, WHOLE, launch_duty, running, tell
from tests.model.clusters import START_US, cluster_of, conf_of

ROOT = Caller(0, 0, "root", is_admin=True, is_operator=True)
N1 = 0


def act(cluster: Cluster, state: str) -> bool:
    """Let root set a state of n1; return whether that was allowed."""
    settings = {"state": state, "reason": "test"}
    request = UpdateNodes(request_id=bytes(16), nodes="n1", settings=settings)
    outcome = update_nodes(cluster, request, Context(conf_of(), LATER_US, ROOT))
    if isinstance(outcome, Reject):
        return False
    apply_all(cluster, outcome.events)
    return True


def change(cluster: Cluster, **settings: str) -> int:
    """Let root change n1; return the number of the refusal, 0 where there is none."""
    request = UpdateNodes(request_id=bytes(16), nodes="n1", settings=settings)
    outcome = update_nodes(cluster, request, Context(conf_of(), LATER_US, ROOT))
    if isinstance(outcome, Reject):
        return outcome.code
    apply_all(cluster, outcome.events)
    return 0


def idle(cluster: Cluster) -> Job | None:
    return None


def starting(cluster: Cluster) -> Job:
    """A job has n1, whose slurmd has not said yet that it runs."""
    return running(cluster, node_list="n1")


def runs(cluster: Cluster) -> Job:
    job = starting(cluster)
    apply(cluster, ev.DutiesDone(START_US, ((N1, launch_duty(cluster, job)),)))
    return job


def ends(cluster: Cluster) -> Job:
    """Its script is over; n1 cleans up."""
    job = runs(cluster)
    tell(cluster, N1, nm.BatchEnded(job.job_id, 0, 0, 0, START_US, LATER_US, 0))
    return job


def drained(cluster: Cluster) -> None:
    assert act(cluster, "DRAIN")


def draining(cluster: Cluster) -> Job:
    job = runs(cluster)
    assert act(cluster, "DRAIN")
    return job


def failing(cluster: Cluster) -> Job:
    job = runs(cluster)
    assert act(cluster, "FAIL")
    return job


def down(cluster: Cluster) -> None:
    assert act(cluster, "DOWN")


def down_drained(cluster: Cluster) -> None:
    assert act(cluster, "DRAIN")
    assert act(cluster, "DOWN")


def silent(cluster: Cluster) -> Job:
    job = runs(cluster)
    assert act(cluster, "NORESP")
    return job


def future(cluster: Cluster) -> None:
    assert act(cluster, "FUTURE")


SITUATIONS = (idle, starting, runs, ends, drained, draining, failing, down, down_drained, silent,
              future)  # fmt: skip

# For each situation and action: what sinfo says of the node, and squeue of the job. `refused`:
# the node is busy with a job, which this action would have to lose, or there is nothing to resume.
EXPECTED = """
             DOWN            DRAIN               FAIL               FUTURE  IDLE    NORESP                 RESUME                UNDRAIN
idle         down            drained             fail               future  idle    idle*                  refused                  idle
starting     down/PENDING    draining/RUNNING    failing/RUNNING    refused refused mixed*/RUNNING         refused               mixed/RUNNING
runs         down/PENDING    draining/RUNNING    failing/RUNNING    refused refused mixed*/RUNNING         refused               mixed/RUNNING
ends         down/COMPLETED  draining/COMPLETING failing/COMPLETING refused refused completing*/COMPLETING refused               completing/COMPLETING
drained      drained         drained             fail               future  idle    drained*               idle                  idle
draining     drained/PENDING draining/RUNNING    failing/RUNNING    refused refused draining*/RUNNING      mixed/RUNNING         mixed/RUNNING
failing      fail/PENDING    draining/RUNNING    failing/RUNNING    refused refused failing*/RUNNING       mixed/RUNNING         mixed/RUNNING
down         down            drained             fail               future  idle    down*                  idle                  down
down_drained drained         drained             fail               future  idle    drained*               idle                  down
silent       down*/PENDING   draining*/RUNNING   failing*/RUNNING   refused refused mixed*/RUNNING         mixed*/RUNNING        mixed*/RUNNING
future       down            drained             fail               future  idle    future*                idle                  future
"""  # noqa: E501


def table() -> dict[tuple[str, str], str]:
    """Return the cells by situation and action."""
    head, *rows = [line.split() for line in EXPECTED.strip().splitlines()]
    return {
        (row[0], action): cell for row in rows for action, cell in zip(head, row[1:], strict=True)
    }


def seen(cluster: Cluster, job: Job | None) -> str:
    """Return what the commands show."""
    base, flags = node_state(cluster, cluster.node(N1))
    node = node_state_words(int(base), int(flags))[0]
    return node if job is None else f"{node}/{job_state(job.state, job.flags)}"


CELLS = [(situation, action) for situation in SITUATIONS for action in STATES]
NAMES = [f"{situation.__name__}-{action}" for situation, action in CELLS]


def test_the_table_is_whole() -> None:
    """No state of a node is left out, and no action."""
    assert set(table()) == {(situation.__name__, action) for situation, action in CELLS}


@pytest.mark.parametrize(("situation", "action"), CELLS, ids=NAMES)
def test_each_cell_is_defined(situation: Callable[[Cluster], Job | None], action: str) -> None:
    """What is shown is what the table says, the books are right, and again changes nothing."""
    cluster = cluster_of()
    job = situation(cluster)
    before = seen(cluster, job)
    is_allowed = act(cluster, action)
    expected = table()[situation.__name__, action]
    assert (seen(cluster, job) if is_allowed else "refused") == expected
    assert check(cluster) == []
    if not is_allowed:
        assert seen(cluster, job) == before
        return
    after = seen(cluster, job)
    act(cluster, action)
    assert seen(cluster, job) == after
    assert check(cluster) == []


@pytest.mark.parametrize(("situation", "action"), CELLS, ids=NAMES)
def test_from_each_cell_the_node_comes_back(
    situation: Callable[[Cluster], Job | None], action: str
) -> None:
    """A job goes on to its end or back into the queue, never both; then the node serves again."""
    cluster = cluster_of()
    job = situation(cluster)
    act(cluster, action)
    if job is not None and job.state in (JobState.RUNNING, JobState.COMPLETED):
        let_end(cluster, job)
    if job is not None:
        assert job.state in (JobState.COMPLETED, JobState.PENDING)
        assert (job.attempt == 1) == (job.state == JobState.PENDING)
    act(cluster, "RESUME")
    apply_all(cluster, register(cluster, N1, WHOLE, [], conf_of(), LATER_US))
    node = cluster.node(N1)
    assert seen(cluster, None) == "idle", node
    assert cluster.node_index.columns.usable[N1]
    assert not cluster.node_index.use[N1].allocs
    assert check(cluster) == []
    assert running(cluster, node_list="n1").state == JobState.RUNNING


@pytest.mark.parametrize(
    ("situation", "is_kept"),
    [(idle, False), (runs, False), (drained, True), (failing, True), (down, True)],
)
def test_only_nodes_out_of_service_have_a_reason(
    situation: Callable[[Cluster], object], is_kept: bool
) -> None:
    """`scontrol update NodeName=n1 Reason=` of a node that jobs can use is taken and not kept."""
    cluster = cluster_of()
    situation(cluster)
    assert change(cluster, reason="look here") == 0
    assert (cluster.nodes[N1].reason == "look here") == is_kept
    assert bool(cluster.nodes[N1].reason) == is_kept


def test_active_features_stay_among_the_available_ones() -> None:
    """AvailableFeatures= alone sets both, and is refused where it would drop an active one."""
    cluster = cluster_of()
    assert change(cluster, availablefeatures="a,b", activefeatures="a") == 0
    assert change(cluster, availablefeatures="b") == Errno.ESLURM_ACTIVE_FEATURE_NOT_SUBSET
    assert change(cluster, availablefeatures="") == Errno.ESLURM_ACTIVE_FEATURE_NOT_SUBSET
    assert change(cluster, activefeatures="c") == Errno.ESLURM_ACTIVE_FEATURE_NOT_SUBSET
    node = cluster.nodes[N1]
    assert (node.features, node.features_active) == (("a", "b"), ("a",))
    assert change(cluster, availablefeatures="a,c") == 0
    assert (node.features, node.features_active) == (("a", "c"), ("a", "c"))


def let_end(cluster: Cluster, job: Job) -> None:
    """Let a job's script end, and its node clean up."""
    if job.state == JobState.RUNNING:
        duties = cluster.duties.get(N1, {}).values()
        launches = [duty.duty_id for duty in duties if duty.kind == DutyKind.LAUNCH]
        report = nm.BatchEnded(
            job.job_id, 0, launches[0] if launches else 0, 0, START_US, LATER_US, END_CLEAN
        )
        tell(cluster, N1, report)
    for duty in [*cluster.duties.get(N1, {}).values()]:
        if duty.kind == DutyKind.TERMINATE:
            tell(cluster, N1, nm.JobTerminated(job.job_id, 0, duty.duty_id))


def test_of_a_rack_the_nodes_that_can_return_do() -> None:
    """An administrator resumes a rack, some nodes of which are in service."""
    cluster = cluster_of()
    change(cluster, state="DRAIN", reason="disk")
    request = UpdateNodes(request_id=bytes(16), nodes="ALL", settings={"state": "RESUME"})
    outcome = update_nodes(cluster, request, Context(conf_of(), LATER_US, ROOT))
    assert isinstance(outcome, Decision)
    assert outcome.refused == Errno.ESLURM_INVALID_NODE_STATE
    apply_all(cluster, outcome.events)
    assert not cluster.node(N1).flags & NodeFlag.DRAIN
    again = update_nodes(cluster, request, Context(conf_of(), LATER_US, ROOT))
    assert again == Reject(Errno.ESLURM_INVALID_NODE_STATE)


def test_nodes_change_beside_names_of_no_node() -> None:
    """A rack is drained by a list with a node that is gone; the name is refused all the same."""
    cluster = cluster_of()
    context = Context(conf_of(), LATER_US, ROOT)
    for nodes in ("n1,gone9", "gone[1-2],n1"):
        request = UpdateNodes(bytes(16), nodes, {"state": "DRAIN", "reason": "rack"})
        outcome = update_nodes(cluster, request, context)
        assert isinstance(outcome, Decision)
        assert outcome.refused == Errno.ESLURM_INVALID_NODE_NAME
        apply_all(cluster, outcome.events)
        assert cluster.node(N1).flags & NodeFlag.DRAIN
        change(cluster, state="RESUME")
    for nodes, settings in (("gone9", {"state": "RESUME"}), ("n1,gone9", {"nodeaddr": "a,b"})):
        request = UpdateNodes(bytes(16), nodes, settings)
        assert update_nodes(cluster, request, context) == Reject(Errno.ESLURM_INVALID_NODE_NAME)
