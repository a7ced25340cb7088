"""BatchStartTimeout: a node that is there and takes no launch is asked, and believed."""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.model.states import JobFlag, JobState
from pyslurm_ng.wire import node_messages as nm
from tests.ctld.nodes.sender_room import SenderRoom


def late_room(directory: Path) -> tuple[SenderRoom, int, str]:
    """Return a room in which a job's launch was sent and not taken, the job and its node."""
    room = SenderRoom(directory)
    for name in ("n1", "n2", "n3", "n4"):
        room.register(name)
    job_id = room.start_job()
    room.sync()
    ((node, _),) = room.orders()
    room.wire.sent.clear()
    room.clock.at_us += room.service.conf.batch_start_timeout * SECOND_US - 1
    room.service.tick()
    assert room.wire.sent == []
    room.clock.at_us += 1
    room.service.tick()
    room.service.tick()  # it is asked once, however often we look
    ((asked, message),) = room.wire.sent
    assert (asked, type(message)) == (node, nm.NodeRegisterAgain)
    return room, job_id, node


def test_a_job_that_its_node_does_not_know_is_launched_anew(tmp_path: Path) -> None:
    """Else it would be shown as running for ever."""
    room, job_id, node = late_room(tmp_path)
    room.register(node)
    job = room.cluster.jobs[job_id]
    assert job.state == JobState.NODE_FAIL and job.flags & JobFlag.REQUEUED
    room.sync()
    orders = [order for peer, order in room.orders() if peer == node]
    assert {type(order) for order in orders} == {nm.TerminateJob}


def test_a_job_that_its_node_is_at_work_on_goes_on(tmp_path: Path) -> None:
    """Its prolog may take longer."""
    room, job_id, node = late_room(tmp_path)
    room.register(node, [nm.RunningJob(job_id, 0, [])])
    assert room.cluster.jobs[job_id].state == JobState.RUNNING


def test_a_node_that_registers_of_its_own_accord_is_told_again(tmp_path: Path) -> None:
    """After a restart of its slurmd, or of slurmctld, an order may not have arrived."""
    room = SenderRoom(tmp_path)
    for name in ("n1", "n2", "n3", "n4"):
        room.register(name)
    job_id = room.start_job()
    room.sync()
    ((node, _),) = room.orders()
    room.clock.at_us += 3600 * SECOND_US
    room.register(node)
    assert room.cluster.jobs[job_id].state == JobState.RUNNING
