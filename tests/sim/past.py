"""A small cluster with a past: it runs a few jobs in virtual time and leaves its journal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from pyslurm_ng.base.numbers import REQ_HOLD
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.conf.topology_conf import TopologyConf
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.ends.requeue import requeue_rules
from pyslurm_ng.ctld.rules.submission.submit import allocate_job
from pyslurm_ng.journal.segment import SegmentHeader, encode_frames, segment_path
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.nodes import PretendNodes
from pyslurm_ng.sim.world import World
from pyslurm_ng.wire.job_messages import AllocateJob, SubmitJob
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter

BEGIN_US = 1_700_000_000_000_000
MINUTE_US = 60_000_000
CONF = """
ClusterName=past
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
PriorityType=priority/basic
SchedulerType=sched/builtin
NodeName=n[1-4] CPUs=2 RealMemory=1000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE OverSubscribe=EXCLUSIVE
"""
# minute of submission, user, nodes, limit in minutes, run in minutes, more of the request
PastJob = tuple[int, str, int, int, int, dict[str, str]]
JOBS: list[PastJob] = [
    (0, "ann", 3, 60, 50, {}),
    (1, "bob", 4, 60, 30, {}),
    (2, "cay", 1, 30, 20, {}),
    (3, "cay", 1, 30, 10, {"dependency": "afterany:3"}),
    (4, "dan", 2, 30, 15, {"array": "0-3%2"}),
    (5, "ann", 4, 60, 0, {}),  # cancelled while it waits
    (7, "eve", 1, 30, 5, {"origin": "srun"}),  # an allocation without a script
]


class _Accepted:
    def reply(self, answer: object) -> None: ...

    def error(self, code: int, text: str) -> None:
        raise AssertionError(text)


def record(
    directory: Path,
    *,
    conf_text: str = CONF,
    jobs: Sequence[PastJob] = JOBS,
    deeds: Sequence[tuple[float, Struct]] = (
        (6, CancelJobs(bytes(16), filter=JobFilter(jobs=["6"]))),
    ),
    told: Sequence[ev.AnyEvent] = (),
    topologies: Sequence[TopologyConf] = (),
) -> Path:
    """Let jobs run on a cluster and write its journal; return the state directory.

    Args:
        deeds: (minute, request) of an administrator.
        told: what accounting told at the beginning.
    """
    conf = parse_slurm_conf(conf_text)
    world = World(start_us=BEGIN_US)
    cluster = Cluster()
    first: list[ev.AnyEvent] = configure(cluster, conf, BEGIN_US, topologies)
    apply_all(cluster, first)
    first += [
        ev.NodeRegistered(BEGIN_US, node.node_id, NodeFacts(), NodeState.IDLE)
        for node in cluster.living_nodes()
    ]
    first += told
    apply_all(cluster, first[1:])
    controller = SimController(world, conf, Planner(), cluster=cluster)

    def run_time_us(job_id: int) -> int:
        job = cluster.jobs[job_id]
        return jobs[int(job.request.comment)][4] * MINUTE_US

    PretendNodes(world, controller.writer, run_time_us, rules=requeue_rules(conf))

    def ask(message: Struct, user: str) -> None:
        is_root = user == "root"
        uid = 0 if is_root else 1000 + ord(user[0])
        caller = Caller(uid, 100, user, "users", is_admin=is_root, is_operator=is_root)
        context = Context(conf, world.now_us, caller)
        rule = allocate_job if isinstance(message, AllocateJob) else RULES[type(message).__name__]
        controller.writer.change(rule, message, context, _Accepted())

    for number, (minute, user, nodes, limit, _, options) in enumerate(jobs):
        more = dict(options)
        hold, components = more.pop("hold", ""), int(more.pop("components", "1"))
        request = JobRequest(
            nodes_min=nodes,
            nodes_max=nodes,
            time_limit_min=limit,
            comment=str(number),
            work_dir="/",
            flags=REQ_HOLD if hold else 0,
            switches=int(more.pop("switches", "0")),
            **more,
        )
        message: SubmitJob | AllocateJob
        if request.origin:
            message = AllocateJob(bytes(16), request=request)
        else:
            message = SubmitJob(
                bytes(16),
                request=request,
                script=b"#!/bin/sh\n",
                components=[request] * (components - 1),
            )
        world.at(BEGIN_US + minute * MINUTE_US, lambda m=message, u=user: ask(m, u))
    for moment, deed in deeds:
        world.at(BEGIN_US + int(moment * MINUTE_US), lambda m=deed: ask(m, "root"))
    begun = {0, *(minute for minute, *_ in jobs), *(int(minute) for minute, _ in deeds)}
    for minute in sorted({begin_min + more for begin_min in begun for more in range(200)}):
        world.at(BEGIN_US + minute * MINUTE_US, controller.tick)
    world.run()
    payloads = [encode_batch(first), *controller.journal.payloads]
    header = SegmentHeader(b"k" * 16, 1, 1, 0)
    pieces, _ = encode_frames(header.journal_id, header.position, 0, payloads)
    (directory / "journal").mkdir(parents=True)
    path = segment_path(directory / "journal", 1, 1)
    path.write_bytes(header.encode() + b"".join(pieces))
    return directory
