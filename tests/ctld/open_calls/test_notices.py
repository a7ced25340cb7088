"""`scontrol notify`: who may tell whom what, and which way a line goes."""

from __future__ import annotations

import pytest
from msgspec import Struct

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.open_calls.notices import Notices, find_recipient
from pyslurm_ng.d.core.actions import Command
from pyslurm_ng.d.core.node_core import NodeCore
from pyslurm_ng.d.core.orders import obey
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.wire.node_messages import NodeOrders, TellJob
from pyslurm_ng.wire.query_messages import NotifyJob
from tests.cli.reference_cluster import caller, queue
from tests.world.writer_ends import Heard
from tests.world.writer_room import WriterRoom


class Edge:
    """Commands that wait, and the way to nodes."""

    def __init__(self, waiting: set[int]) -> None:
        self.waiting = waiting
        self.shown: list[tuple[int, str]] = []
        self.told: list[tuple[str, Struct]] = []

    def notify(self, job_id: int, text: str) -> bool:
        self.shown.append((job_id, text))
        return job_id in self.waiting

    def tell(self, name: str, message: Struct) -> None:
        self.told.append((name, message))


def notify(job: str, user: str, waiting: set[int]) -> tuple[Heard, Edge]:
    """Let a user send a line to a job of the reference cluster."""
    room = WriterRoom(queue().cluster)
    call, edge = Heard(NotifyJob(job, "look here")), Edge(waiting)
    Notices(room.writer, edge, edge).handle(call, caller(user))
    room.sync()
    return call, edge


def test_a_scripts_line_goes_to_its_first_node() -> None:
    """The supervisor there writes it into the script's stderr."""
    call, edge = notify("21", "alice", set())
    ((name, message),) = edge.told
    assert isinstance(message, NodeOrders)
    assert message.orders == [TellJob(0, 21, 0, "look here")]
    assert name == "n3" and len(call.told) == 1


def test_a_waiting_command_gets_the_line_directly() -> None:
    """salloc and srun hold a connection, so no node is asked."""
    call, edge = notify("21", "root", {21})
    assert edge.shown == [(21, "look here")] and not edge.told
    assert len(call.told) == 1


@pytest.mark.parametrize(
    ("job", "user", "code"),
    [
        ("9999", "root", Errno.ESLURM_INVALID_JOB_ID),
        ("21", "bob", Errno.ESLURM_ACCESS_DENIED),
        ("24", "carol", Errno.ESLURM_DISABLED),
        ("nonsense", "root", Errno.ESLURM_INVALID_JOB_ID),
    ],
)
def test_notices_that_cannot_be_delivered(job: str, user: str, code: int) -> None:
    """A script that has not begun has no stderr, and users may not write to jobs of others."""
    recipient = find_recipient(queue().cluster, NotifyJob(job, "x"), caller(user))
    assert isinstance(recipient, Reject) and recipient.code == code


def test_the_node_passes_it_to_the_scripts_supervisor_only() -> None:
    """Steps write to srun, whose user does not look into the script's file."""
    core = NodeCore(has_prolog=False, has_epilog=False, kill_wait_s=30)
    cluster = queue().cluster
    job = cluster.jobs[21]
    from pyslurm_ng.d.core.node_core import JobHere

    core.jobs[21] = JobHere(21, job.attempt, None, steps={STEP_BATCH: 0, 0: 0})
    told = obey(core, TellJob(0, 21, job.attempt, "look here"), None)
    assert told == [Command(21, job.attempt, STEP_BATCH, {"do": "say", "text": "look here"})]
    assert not core.reports
    assert obey(core, TellJob(0, 21, job.attempt + 1, "late"), None) == []
