"""For whom nodes are kept, as ShowNodes tells: owner, label, and what --exclusive=topo empties."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE_MCS, REQ_EXCLUSIVE_TOPO, REQ_EXCLUSIVE_USER
from pyslurm_ng.ctld.queries.nodes import NODE_FIELDS, show_nodes
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.kernels.records import project
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire.query_messages import Records, ShowNodes
from tests.cli.reference_cluster import ADMIN
from tests.model.clusters import START_US, conf_of, submit
from tests.sched.eight_nodes import EIGHT_NODES, cluster_with
from tests.sched.networks import BLOCKS


class Shown:
    """A cluster of two blocks of four nodes, and what is kept of its records."""

    def __init__(self) -> None:
        self.cluster: Cluster = cluster_with(BLOCKS)
        self.soft = Soft(START_US)

    def note(self, events: list[ev.AnyEvent]) -> None:
        apply_all(self.cluster, events)
        self.soft.records.note(self.cluster, events)

    def start(self, **request: Any) -> int:
        job_id = submit(self.cluster, JobRequest(partition="main", **request))
        for start in Planner()(snapshot(self.cluster, START_US), Policy()).starts:
            self.note(list(dispatch(self.cluster, start, START_US)))
        assert self.cluster.jobs[job_id].nodes
        return job_id

    def end(self, job_id: int) -> None:
        job = self.cluster.jobs[job_id]
        clean = frozenset(alloc.node_id for alloc in job.nodes)
        over = job_end.End(JobState.COMPLETED, exit_code=0)
        done = job_end.complete(self.cluster, job, over, START_US, clean_nodes=clean)
        self.note(list(done))

    def nodes(self) -> list[dict[str, Any]]:
        reply = show_nodes(
            self.cluster, self.soft, conf_of(EIGHT_NODES), ShowNodes(), ADMIN, START_US
        )
        assert isinstance(reply, Records)
        rows = project(reply.records, range(len(NODE_FIELDS)))
        return [dict(zip(NODE_FIELDS, row, strict=True)) for row in rows]

    def blocked(self) -> list[str]:
        return [row["name"] for row in self.nodes() if row["is_blocked"]]


def test_a_node_that_a_user_alone_may_have_tells_its_owner() -> None:
    shown = Shown()
    assert {row["owner_uid"] for row in shown.nodes()} == {-1}
    job_id = shown.start(nodes_min=1, flags=REQ_EXCLUSIVE_USER)
    assert sorted(row["owner_uid"] for row in shown.nodes()) == [-1] * 7 + [1001]
    shown.end(job_id)
    assert {row["owner_uid"] for row in shown.nodes()} == {-1}


def test_a_node_for_jobs_of_one_label_tells_it() -> None:
    shown = Shown()
    shown.start(nodes_min=1, flags=REQ_EXCLUSIVE_MCS, mcs_label="secret")
    assert sorted(row["mcs_label"] for row in shown.nodes()) == [""] * 7 + ["secret"]


def test_the_rest_of_a_block_that_a_job_has_alone_is_blocked() -> None:
    shown = Shown()
    assert shown.blocked() == []
    topo = shown.start(nodes_min=2, nodes_max=2, ntasks=2, flags=REQ_EXCLUSIVE_TOPO)
    own = {shown.cluster.node(alloc.node_id).spec.name for alloc in shown.cluster.jobs[topo].nodes}
    blocked = shown.blocked()
    assert len(own) == len(blocked) == 2
    assert own | {*blocked} in ({"n1", "n2", "n3", "n4"}, {"n5", "n6", "n7", "n8"})
    shown.soft = Soft(START_US)
    assert shown.blocked() == blocked
    shown.end(topo)
    assert shown.blocked() == []
