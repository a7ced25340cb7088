"""Runs of jobs whose use counts: what starts and ends them, and a configuration without decay."""

from __future__ import annotations

from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of
from tests.sched.whole_nodes import WHOLE_NODES, job


def started(parent: Limits, quality: Qos) -> tuple[Cluster, UsageIndex, Job]:
    """Return a cluster where one job of account physics holds a node of two CPUs."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    job_id = job(cluster, 1, 600)
    holder = cluster.jobs[job_id]
    holder.assoc_id, holder.qos = 2, quality.name
    apply(cluster, ev.QosChanged(START_US, changed=(quality,)))
    changed = (
        Association(1, "physics", limits=parent),
        Association(2, "physics", "ann", parent_id=1),
    )
    apply(cluster, ev.AssocChanged(START_US, changed=changed, version=1))
    index = UsageIndex(cluster)
    for start in Planner()(snapshot(cluster, START_US), policy(conf_of(WHOLE_NODES))).starts:
        events = dispatch(cluster, start, START_US)
        apply_all(cluster, events)
        index.applied(events)
    return cluster, index, holder


PLAIN = Qos(1, "normal")


def ends(cluster: Cluster, index: UsageIndex, job_id: int, now_us: int) -> None:
    """Let a running job end."""
    told(
        cluster,
        index,
        ev.JobCompleting(now_us, job_id, JobState.COMPLETED, 0, Reason.NONE, 0, ()),
        ev.JobEnded(now_us, job_id, JobState.COMPLETED, 0),
    )


def told(cluster: Cluster, index: UsageIndex, *events: ev.AnyEvent) -> None:
    """Let all hear of what has happened, as it comes out of a journal."""
    heard = decode_batch(encode_batch(list(events)))
    apply_all(cluster, heard)
    index.applied(heard)
