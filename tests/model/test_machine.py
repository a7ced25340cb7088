"""Random rules on a small cluster: what must hold holds after each, and replay equals live."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.ctld.followers.limit_index import LimitIndex
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.ends import job_end, node_loss
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev, task_ranges
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.assoc import Association, Qos
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster, free_job_id
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import Job, JobRequest, is_completing
from pyslurm_ng.model.job_counts import Submitter
from pyslurm_ng.model.states import JobState, NodeState
from pyslurm_ng.model.touched import touched_jobs
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.job_records import Running, Waiting
from pyslurm_ng.sched.frame.job_views import Views
from pyslurm_ng.sched.frame.measures import Ask, ask_of_allocation
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sched.limits.quotas import Quotas
from pyslurm_ng.sched.limits.running_amounts import Used
from pyslurm_ng.sched.limits.running_count import RunningCount
from tests.model.clusters import START_US, cluster_of, conf_of
from tests.world.examples import drawn

CONF = conf_of()
POLICY = policy(CONF)

REQUESTS = st.builds(
    JobRequest,
    name=st.sampled_from(["a", "b"]),
    ntasks=st.integers(0, 40),
    cpus_per_task=st.integers(0, 4),
    mem_per_cpu_mib=st.sampled_from([0, 100, 5000]),
    gpus=st.sampled_from(["", "", "1", "a100:3"]),
    flags=st.sampled_from([0, 0, 0, REQ_EXCLUSIVE]),
)


def _id(record: Waiting | Running) -> int:
    return record.job_id


class ClusterMachine(RuleBasedStateMachine):
    """Users, nodes and time act on one cluster; every event goes through its journal form."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = cluster_of(CONF)
        accounts = (Association(1, "acct", "alice"),)
        apply(self.cluster, ev.AssocChanged(START_US, changed=accounts, version=1))
        apply(self.cluster, ev.QosChanged(START_US, changed=(Qos(1, "normal"),)))
        self.start_image = self.cluster.to_bytes()
        self.journal: list[bytes] = []
        self.now_us = START_US
        self.views = Views(slice_size=1)
        self.limits = LimitIndex(self.cluster)
        self.count = RunningCount(self.cluster, self.held)

    def record(self, events: list[ev.AnyEvent]) -> None:
        """Apply the live events and keep what the journal would hold."""
        for event in events:
            apply(self.cluster, event)
            self.views.forget(touched_jobs(event))
            self.count.forget(touched_jobs(event))
            self.limits.applied([event])
        self.journal.append(encode_batch(events))

    def held(self, job: Job) -> Ask:
        """Return what a job holds, however long."""
        return ask_of_allocation(
            job.nodes, job.licenses_alloc, self.cluster.partitions[job.partition], 0
        )

    def running(self) -> list[int]:
        """Return jobs that run and are not over."""
        jobs = self.cluster.jobs
        return [job for job in self.cluster.job_index.active if not is_completing(jobs[job])]

    @rule()
    def freshen_views(self) -> None:
        """Some records are made anew before a pass wants them."""
        self.views.begin(self.cluster)
        next(self.views.freshen(self.cluster), None)

    @rule()
    def forget_views(self) -> None:
        """All records are to be made anew, as after a change of the configuration."""
        self.views.forget([-1])

    @rule(request=REQUESTS, tasks=st.integers(0, 5), requeue=st.booleans())
    def submit(self, request: JobRequest, tasks: int, requeue: bool) -> None:
        self.record(
            [
                ev.JobSubmitted(
                    time_us=self.now_us,
                    job_id=free_job_id(self.cluster),
                    request=request,
                    uid=1001,
                    gid=1001,
                    user_name="alice",
                    group_name="alice",
                    account="acct",
                    qos="normal",
                    assoc_id=1,
                    partition="main",
                    time_limit_min=60,
                    script_hash="0" * 32,
                    eligible_us=self.now_us,
                    array_pending=((0, tasks - 1, 1),) if tasks else (),
                    requeue=requeue,
                )
            ]
        )

    @rule()
    def schedule(self) -> None:
        for start in Planner()(snapshot(self.cluster, self.now_us), POLICY).starts:
            self.record(dispatch(self.cluster, start, self.now_us))

    @precondition(lambda self: self.running())
    @rule(choice=st.randoms(use_true_random=False), status=st.sampled_from([0, 256, 9]))
    def script_ends(self, choice: object, status: int) -> None:
        job = self.cluster.jobs[choice.choice(self.running())]  # type: ignore[attr-defined]
        state = JobState.FAILED if status else JobState.COMPLETED
        self.record(
            job_end.complete(self.cluster, job, job_end.End(state, exit_code=status), self.now_us)
        )

    @precondition(lambda self: self.cluster.job_index.pending or self.cluster.job_index.active)
    @rule(
        choice=st.randoms(use_true_random=False),
        qos=st.sampled_from(["", "high"]),
        account=st.sampled_from(["acct", "other"]),
    )
    def job_is_updated(self, choice: object, qos: str, account: str) -> None:
        """An operator moves a job to another account and QOS."""
        job_ids = [*self.cluster.job_index.pending, *self.cluster.job_index.active]
        job_id = choice.choice(job_ids)  # type: ignore[attr-defined]
        fields: dict[str, object] = {"qos": qos, "account": account}
        self.record([ev.JobUpdated(self.now_us, job_id, fields=fields)])

    @rule(choice=st.randoms(use_true_random=False))
    def node_reports(self, choice: object) -> None:
        """A node says that it did one of its duties; the last clean node ends the job."""
        duties = [duty for of_node in self.cluster.duties.values() for duty in of_node.values()]
        if not duties:
            return
        duty = choice.choice(duties)  # type: ignore[attr-defined]
        done = ev.DutiesDone(self.now_us, ((duty.node_id, duty.duty_id),))
        self.record([done])
        job = self.cluster.jobs[duty.job_id]
        if duty.kind == DutyKind.TERMINATE and is_completing(job) and not job.nodes_pending:
            state = JobState(job.state)
            self.record(
                job_end.finish(self.cluster, job, state, job.exit_code, job.flags, self.now_us)
            )

    @rule(node_id=st.integers(0, 3))
    def node_dies(self, node_id: int) -> None:
        if self.cluster.node(node_id).state == NodeState.IDLE:
            self.record(
                node_loss.nodes_down(
                    self.cluster, (node_id,), "Not responding", self.now_us, for_silence=True
                )
            )

    @rule(node_id=st.integers(0, 3))
    def node_returns(self, node_id: int) -> None:
        if self.cluster.node(node_id).state == NodeState.DOWN:
            self.record([ev.NodesReturned(self.now_us, (node_id,))])

    @rule(seconds=st.sampled_from([1, 200, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.now_us += seconds * 1_000_000
        self.record(timers.due(self.cluster, CONF, {}, self.now_us))

    @invariant()
    def no_limit_is_overlooked(self) -> None:
        limited = self.limits.due(CONF, self.now_us)
        events = timers.time_limits(self.cluster, CONF, self.now_us, sorted(limited))
        every = sorted(self.cluster.job_index.active)
        assert events == timers.time_limits(self.cluster, CONF, self.now_us, every)

    @invariant()
    def kept_views_are_as_new_ones(self) -> None:
        kept = snapshot(self.cluster, self.now_us, self.views)
        fresh = snapshot(self.cluster, self.now_us)
        assert sorted(kept.waiting, key=_id) == sorted(fresh.waiting, key=_id)
        assert sorted(kept.running, key=_id) == sorted(fresh.running, key=_id)
        assert kept.gres_busy == self.cluster.node_index.columns.gres_busy
        assert kept.gres_used == self.cluster.node_index.columns.gres_used

    @invariant()
    def kept_counts_are_as_new_ones(self) -> None:
        """And a pass that counts its own starts changes nothing of them."""
        kept = self.count.quotas(None, is_safe=False)
        fresh = Quotas(self.cluster.assocs, self.cluster.qos)
        for job_id in self.cluster.job_index.active:
            fresh.took(self.cluster.jobs[job_id], self.held(self.cluster.jobs[job_id]))
        for counter in {*kept.used(), *fresh.used()}:
            used, other = (each.used().get(counter, Used()) for each in (kept, fresh))
            assert (used.jobs, used.node_ids) == (other.jobs, other.node_ids)
            assert +Counter(used.tres) == +Counter(other.tres)
        for job_id in self.cluster.job_index.active:
            kept.took(self.cluster.jobs[job_id], self.held(self.cluster.jobs[job_id]))

    @invariant()
    def submitted_jobs_are_counted(self) -> None:
        """By who submitted them, tasks of arrays counted singly, as if all were looked at."""
        counted: Counter[Submitter] = Counter()
        for job_id in (*self.cluster.job_index.pending, *self.cluster.job_index.active):
            job = self.cluster.jobs[job_id]
            submitter = Submitter(job.uid, job.assoc_id, job.account, job.qos, job.partition)
            counted[submitter] += task_ranges.count(job.array_pending) or 1
        assert self.cluster.job_counts.submitted == counted

    @invariant()
    def is_sound(self) -> None:
        assert check(self.cluster) == []

    def teardown(self) -> None:
        """What the journal holds leads to the very same cluster."""
        replayed = Cluster.from_bytes(self.start_image)
        for payload in self.journal:
            for event in decode_batch(payload):
                apply(replayed, event)
        assert replayed.digest() == self.cluster.digest()


TestClusterMachine = ClusterMachine.TestCase
TestClusterMachine.settings = settings(
    max_examples=drawn(40), stateful_step_count=40, deadline=None
)
