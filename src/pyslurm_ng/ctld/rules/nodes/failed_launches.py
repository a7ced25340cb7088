"""A node on which nothing can be launched is drained, before it has delayed the whole queue.

Each launch that fails holds or delays its job, and leaves the node idle for the next one. So a
node that failed to launch several jobs in a row, and launched none between them, gets no other
jobs.
Where only the node can be at fault (its spool, its key), jobs of one user suffice: a site may have
no other. Otherwise they must be jobs of several users: one user's requests may be impossible on
every node, and no user may drain nodes.
"""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import NO_UID
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import NodeFlag

IN_A_ROW = 5
REASON = f"{IN_A_ROW} failed launches in a row"
_FAULTS_OF_NODES = frozenset(
    (Errno.ESLURMD_CREATE_BATCH_DIR_ERROR, Errno.ESLURMD_CREDENTIAL_REVOKED)
)


def failed(cluster: Cluster, node_id: int, job: Job, code: int, now_us: int) -> list[ev.AnyEvent]:
    """Return what follows for the node on which a job could not be launched.

    `code` is the node's answer; a fault of the node is not counted for a user.
    """
    node = cluster.node(node_id)
    if node.flags & NodeFlag.DRAIN:
        return []  # the administrator that drained it looks at it
    others = [failed for failed in node.failed_launches if failed[0] != job.job_id]
    uid = NO_UID if code in _FAULTS_OF_NODES else job.uid
    row = (*others, (job.job_id, uid))[-IN_A_ROW:]
    fields: dict[str, object] = {"failed_launches": row}
    users = {uid for _, uid in row} - {NO_UID}
    if len(row) == IN_A_ROW and len(users) != 1:
        fields = {
            "failed_launches": (),
            "flags": int(node.flags | NodeFlag.DRAIN),
            "reason": REASON,
            "reason_us": now_us,
            "reason_uid": 0,
        }
    return [ev.NodeUpdated(now_us, (node_id,), fields)]


def launched(cluster: Cluster, node_id: int, now_us: int) -> list[ev.AnyEvent]:
    """Return what follows for a node that has launched a job; nothing for nearly all."""
    if not cluster.node(node_id).failed_launches:
        return []
    return [ev.NodeUpdated(now_us, (node_id,), {"failed_launches": ()})]
