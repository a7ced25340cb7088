"""scontrol top: jobs of one queue change places; nobody else gains or loses."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.ctld.rules.context import Caller, Decision
from pyslurm_ng.ctld.rules.orders.top import top_jobs
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire.query_messages import JobsChanged, TopJobs
from tests.model.clusters import START_US, submit
from tests.world.site import Site

OWNER = Caller(uid=1001, gid=1001, user_name="user1001")
OTHER = Caller(uid=1002, gid=1002, user_name="user1002")
OPERATOR = Caller(uid=0, gid=0, user_name="root", is_operator=True)
OPEN = "SchedulerParameters=enable_user_top\n"
WEIGHTS = "PriorityType=priority/multifactor\nPriorityWeightAge=1000\nPriorityWeightJobSize=5000\n"


class Queue(Site):
    """Five waiting jobs of one user, the first and widest of highest priority, and one other's."""

    def __init__(self, more: str = OPEN) -> None:
        super().__init__(WEIGHTS + more)
        for nodes in (4, 3, 2, 2, 1):
            submit(self.cluster, JobRequest(nodes_min=nodes, nodes_max=nodes, ntasks=nodes))
        submit(self.cluster, JobRequest(nodes_min=4, nodes_max=4, ntasks=4), uid=1002)

    def top(self, *job_ids: int, who: Caller = OWNER) -> list[tuple[str, int, str]]:
        """Ask for these to be first; return what was refused."""
        request = TopJobs(bytes(16), [str(job_id) for job_id in job_ids])
        outcome = top_jobs(self.cluster, request, self.context(who))
        assert isinstance(outcome, Decision)
        assert isinstance(outcome.reply, JobsChanged)
        self.apply(outcome.events)
        return outcome.reply.errors

    def priorities(self) -> dict[int, int]:
        """Return every job's priority as a pass finds it."""
        plan = Planner()(snapshot(self.cluster, START_US), policy(self.conf))
        return dict(plan.priorities)

    def order(self) -> list[int]:
        """Return the owner's jobs as a pass would take them."""
        has = self.priorities()
        return sorted((job_id for job_id in has if job_id != 6), key=lambda it: (-has[it], it))


def test_those_named_come_first_and_the_rest_keeps_its_order() -> None:
    """The same priorities are given out in another order, so their sum stays the same."""
    queue = Queue()
    before = queue.priorities()
    assert queue.order() == [1, 2, 3, 4, 5]
    assert queue.top(5, 3) == []
    assert queue.order() == [5, 3, 1, 2, 4]
    after = queue.priorities()
    assert after[6] == before[6]
    assert sum(before.values()) - 5 <= sum(after.values()) <= sum(before.values())


def test_equal_jobs_change_places_too() -> None:
    """Job 4 goes before 3, which is as wide and older."""
    queue = Queue()
    assert queue.top(4) == []
    assert queue.order() == [4, 1, 2, 3, 5]
    assert queue.top(2) == []
    assert queue.order() == [2, 4, 1, 3, 5]


def test_doing_it_again_changes_nothing() -> None:
    """What is first stays first at no cost."""
    queue = Queue()
    queue.top(5)
    before = queue.priorities()
    queue.top(5)
    assert queue.priorities() == before


def test_users_that_may_use_it() -> None:
    """Users where the site allows it, for their own jobs only; operators always."""
    closed = Queue(more="")
    assert [code for _, code, _ in closed.top(5)] == [Errno.ESLURM_ACCESS_DENIED]
    assert closed.order() == [1, 2, 3, 4, 5]
    assert closed.top(5, who=OPERATOR) == []
    assert closed.order()[0] == 5
    assert [code for _, code, _ in Queue().top(5, who=OTHER)] == [Errno.ESLURM_ACCESS_DENIED]
