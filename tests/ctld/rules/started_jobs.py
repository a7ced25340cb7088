"""Jobs that run, what their nodes owe for them, and what they report."""

from __future__ import annotations

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.nodes.reports import judge
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.rules.starts.preparation import Preparation
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.node import NodeFacts, NodeGres
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire import node_messages as nm
from tests.model.clusters import START_US, conf_of, submit

LATER_US = START_US + 5_000_000


def running(cluster: Cluster, *, prolog: bool = False, **request: object) -> Job:
    job_id = submit(cluster, JobRequest(**request))  # type: ignore[arg-type]
    for start in Planner()(snapshot(cluster, START_US), policy(conf_of())).starts:
        apply_all(
            cluster, dispatch(cluster, start, START_US, prepare=Preparation(every_node=prolog))
        )
    return cluster.jobs[job_id]


def tell(
    cluster: Cluster, node_id: int, report: nm.Report, conf: SlurmConf | None = None
) -> list[ev.AnyEvent]:
    """Apply what follows from a report, and make sure that its echo changes nothing."""
    conf = conf or conf_of()
    events = judge(cluster, node_id, report, conf, LATER_US)
    apply_all(cluster, events)
    assert check(cluster) == []
    assert judge(cluster, node_id, report, conf, LATER_US) == []
    return events


def launch_duty(cluster: Cluster, job: Job) -> int:
    (duty,) = (
        duty
        for duty in cluster.duties[job.batch_node_id].values()
        if duty.kind == DutyKind.LAUNCH and duty.job_id == job.job_id
    )
    return duty.duty_id


GPUS = (NodeGres("gpu", "a100", 4),)

WHOLE = NodeFacts(
    cpus=16, sockets=2, cores_per_socket=8, threads_per_core=1, real_memory_mib=64000, gres=GPUS,
    boot_id="one",
)  # fmt: skip
