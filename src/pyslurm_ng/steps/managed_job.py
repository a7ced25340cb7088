"""The job of one step manager: a Cluster of one job, with the rules that the controller has. Pure.

The controller signs what the job has; this hands it out to steps and takes it back. Nothing here
can name a node, core or device that is not in the job's credential.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, NodeAlloc, Step
from pyslurm_ng.model.node import Node, NodeFacts
from pyslurm_ng.model.states import JobState, NodeState
from pyslurm_ng.steps.creation import create, refusal_of_job
from pyslurm_ng.steps.ends import nodes_left, step_ended
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.step_messages import CompleteStep, CreateStep, StepGranted


class ManagedJob:
    """What steps of one job have.

    Attributes:
        cluster: of this job and its nodes alone.
        job: its record; `next_step_id` counts steps that wait, too.
    """

    def __init__(self, credential: nm.JobCredential) -> None:
        """Begin with a job of which no step runs; `credential.managed` describes its nodes."""
        assert credential.managed is not None
        self.cluster = _cluster_of(credential, credential.managed)
        self.job = self.cluster.jobs[credential.job_id]
        self._node_id = dict(
            zip(credential.nodes, (alloc.node_id for alloc in credential.allocs), strict=True)
        )

    def create(
        self, message: CreateStep, uid: int, conf: SlurmConf, now_us: int, step_id: int = -1
    ) -> tuple[Step, StepGranted] | Reject:
        """Return the share of a step, which `apply` then gives it.

        Args:
            step_id: that it got when it was queued; the next one unless given.
        """
        refusal = self._refusal(message, uid)
        if refusal is not None:
            return refusal
        return create(self.cluster, self.job, message, conf, now_us, step_id)

    def _refusal(self, message: CreateStep, uid: int) -> Reject | None:
        if message.job_id != self.job.job_id:
            return Reject(Errno.ESLURM_INVALID_JOB_ID)
        if message.resv_ports >= 0:
            # Only the controller knows which ports steps of other jobs have on these nodes.
            return Reject(Errno.ESLURM_PORTS_INVALID)
        return refusal_of_job(self.job, uid)

    def reserve_id(self, conf: SlurmConf) -> int | Reject:
        """Return the number of a step that is to run later."""
        step_id = self.job.next_step_id
        if step_id >= conf.max_step_count:
            return Reject(Errno.ESLURM_STEP_LIMIT)
        self.job.next_step_id = step_id + 1
        return step_id

    @property
    def is_suspended(self) -> bool:
        """Whether the job is stopped."""
        return self.job.state == JobState.SUSPENDED

    def suspend(self, *, is_suspended: bool) -> None:
        """Note that the job is stopped, and gives no shares; or that it goes on."""
        self.job.state = JobState.SUSPENDED if is_suspended else JobState.RUNNING

    # What changes it ----------------------------------------------------------------------------

    def created(self, step: Step, now_us: int) -> list[nm.StepNews]:
        """Give a step its share."""
        apply_all(self.cluster, [ev.StepCreated(now_us, self.job.job_id, step)])
        return [nm.StepNews(step.step_id, step)]

    def ended(self, node: str, report: nm.StepEnded, now_us: int) -> list[nm.StepNews]:
        """Take back what a step had on a node that says it is over there."""
        node_id = self._node_id.get(node)
        if node_id is None:
            return []
        return self._apply(step_ended(node_id, self.job, report, now_us))

    def not_launched(self, message: CompleteStep, now_us: int) -> list[nm.StepNews]:
        """Take back what a step had on nodes that never began it."""
        step = self.job.steps.get(message.step_id)
        if step is None:
            return []
        gone = {self._node_id.get(name) for name in message.nodes}
        node_ids = tuple(node_id for node_id in step.nodes_pending if node_id in gone)
        events = nodes_left(self.job, step, node_ids, message.exit_code, JobState.CANCELLED, now_us)
        return self._apply(events)

    def partial_news(self) -> list[nm.StepNews]:
        """Return what has ended of steps of which another part still runs."""
        news = []
        for step in self.job.steps.values():
            done = tuple(
                alloc.node_id for alloc in step.nodes if alloc.node_id not in step.nodes_pending
            )
            if done:
                news.append(
                    nm.StepNews(
                        step.step_id, None, done, step.end_state, step.exit_code, step.usage
                    )
                )
        return news

    def learn(self, news: Sequence[nm.StepNews], now_us: int) -> None:
        """Take up what was noted before a restart."""
        job_id = self.job.job_id
        for step_news in news:
            if step_news.step is not None:
                if step_news.step_id not in self.job.steps:
                    apply_all(self.cluster, [ev.StepCreated(now_us, job_id, step_news.step)])
            elif step_news.step_id in self.job.steps:
                ended = ev.StepEnded(
                    now_us, job_id, step_news.step_id, step_news.state, step_news.exit_code
                )
                apply_all(self.cluster, [ended])

    def _apply(self, events: Sequence[ev.AnyEvent]) -> list[nm.StepNews]:
        """Apply ends; only those of whole steps are news: a step of 1,000 nodes is one."""
        news = []
        for event in events:
            if isinstance(event, ev.StepEnded):
                step = self.job.steps[event.step_id]
                everywhere = tuple(alloc.node_id for alloc in step.nodes)
                news.append(
                    nm.StepNews(
                        event.step_id, None, everywhere, event.state, event.exit_code,
                        event.usage, event.end_us or event.time_us, event.cancelled_by,
                    )
                )  # fmt: skip
        apply_all(self.cluster, events)
        return news

    def node_names(self, node_ids: Sequence[int]) -> list[str]:
        """Return the names of nodes of the job."""
        return self.cluster.node_names(list(node_ids))


def _cluster_of(credential: nm.JobCredential, managed: nm.ManagedNodes) -> Cluster:
    cluster = Cluster()
    cluster.cluster_name = credential.cluster
    cluster.nodes = [None] * (1 + max(alloc.node_id for alloc in credential.allocs))
    pairs = zip(credential.allocs, managed.specs, managed.addresses, strict=True)
    for alloc, spec, (host, _) in pairs:
        cluster.nodes[alloc.node_id] = Node(
            alloc.node_id, spec, int(NodeState.IDLE), facts=NodeFacts(addr=host)
        )
    if managed.partition is not None:
        cluster.partitions[credential.partition] = managed.partition
    job = Job(
        job_id=credential.job_id,
        request=credential.request,
        uid=credential.uid,
        gid=credential.gid,
        user_name=credential.user_name,
        group_name=credential.group_name,
        submit_us=0,
        account=credential.account,
        qos=credential.qos,
        assoc_id=0,
        partition=credential.partition,
        time_limit_min=credential.request.time_limit_min,
        state=int(JobState.RUNNING),
        attempt=credential.attempt,
        start_us=credential.start_us,
        nodes=credential.allocs,
        batch_node_id=credential.allocs[0].node_id,
        next_step_id=managed.next_step_id,
    )
    cluster.jobs[job.job_id] = job
    cluster.build_indexes()
    return cluster


# What a credential of a step manager may say ----------------------------------------------------


def outside(credential: nm.JobCredential, known: nm.JobCredential | None) -> str:
    """Return what a step manager's credential has that its job has not; "" if all is well.

    Args:
        known: what the controller has said of the job to the node that asks, if anything.
    """
    if credential.issuer != credential.batch_host:
        return f"{credential.issuer} does not manage the steps of the job"
    if credential.step_id < 0 or len(credential.step_nodes) != len(credential.step_allocs):
        return "the step is malformed"
    whole = dict(zip(credential.nodes, credential.allocs, strict=False))
    for name, alloc in zip(credential.step_nodes, credential.step_allocs, strict=True):
        of_job = whole.get(name)
        if of_job is None:
            return f"node {name} is not the job's"
        if not _is_part(alloc, of_job):
            return f"the step has more of node {name} than the job has"
    if known is not None and known.attempt == credential.attempt and not known.issuer:
        for field in ("uid", "gid", "user_name", "nodes", "allocs", "batch_host"):
            if getattr(known, field) != getattr(credential, field):
                return f"{field} is not what slurmctld has signed"
    return ""


def _is_part(alloc: NodeAlloc, of_job: NodeAlloc) -> bool:
    """Return whether a step's share of a node is within its job's."""
    if int.from_bytes(alloc.cores, "little") & ~int.from_bytes(of_job.cores, "little"):
        return False
    if alloc.node_id != of_job.node_id or (of_job.mem_mib and alloc.mem_mib > of_job.mem_mib):
        return False
    amounts = {(gres.name, gres.type): gres for gres in of_job.gres}
    for gres in alloc.gres:
        all_of_it = amounts.get((gres.name, gres.type))
        if all_of_it is None or gres.count > all_of_it.count:
            return False
        if int.from_bytes(gres.indexes, "little") & ~int.from_bytes(all_of_it.indexes, "little"):
            return False
    return True
