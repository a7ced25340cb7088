"""BatchStartTimeout: scripts that a node which is there has not taken.

An order to launch is repeated until its node answers. A node that answers heartbeats, and still has
not taken a launch by then, is asked to register: what it lists it is at work on, however slowly. A
job that it does not list is missing there, and is launched anew, on other nodes perhaps.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import Duty, DutyKind
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.states import NodeFlag, NodeState


def waiting_nodes(cluster: Cluster, conf: SlurmConf, now_us: int) -> Iterator[Node]:
    """Yield the nodes in service that owe a launch for too long."""
    before_us = _before_us(conf, now_us)
    for node_id, of_node in cluster.duties.items():
        # The first duty is the oldest, so nearly all nodes cost one look.
        oldest = next(iter(of_node.values()), None)
        if oldest is None or oldest.created_us > before_us:
            continue
        node = cluster.nodes[node_id]
        if node is None or node.state != NodeState.IDLE or node.flags & NodeFlag.NOT_RESPONDING:
            continue
        is_fresh = node.registered_us > before_us  # it has been told again
        if not is_fresh and any(_is_late(duty, before_us) for duty in of_node.values()):
            yield node


def missing_jobs(cluster: Cluster, node_id: int, conf: SlurmConf, now_us: int) -> list[Job]:
    """Return the jobs whose launch a node owes for too long."""
    before_us = _before_us(conf, now_us)
    duties = cluster.duties.get(node_id, {}).values()
    jobs = [cluster.jobs[duty.job_id] for duty in duties if _is_late(duty, before_us)]
    return [job for job in jobs if not is_completing(job)]


def _before_us(conf: SlurmConf, now_us: int) -> int:
    return now_us - conf.batch_start_timeout * SECOND_US


def _is_late(duty: Duty, before_us: int) -> bool:
    return duty.kind == DutyKind.LAUNCH and duty.created_us <= before_us
