"""Triggers: what pulls them, when their programs run, and what a restart keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.ctld.programs.triggers import INTERVAL_US, Triggers
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobState, NodeFlag, NodeState
from pyslurm_ng.model.trigger import Trigger
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, submit
from tests.world.passes import run_pass
from tests.world.writer_room import WriterRoom


class Watched(WriterRoom):
    """A controller whose triggers are followed; programs are only noted."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        super().__init__(cluster)
        self.ran: list[str] = []
        self.triggers = Triggers(self.writer, self, self, "/etc/slurm.conf")
        self.writer.observe(self.triggers.applied, is_brittle=True)

    def run(self, argv: Sequence[str], uid: int, gid: int, environment: Mapping[str, str]) -> None:
        """Note what would run."""
        self.ran.append(f"{uid}: {' '.join(argv)}")

    def set(self, *events: str, **fields: Any) -> int:
        """Keep a trigger; return its number."""
        number = self.cluster.last_trigger_id + 1
        plain = {"uid": 7, "gid": 7, "user_name": "ann", "program": "/tell it", **fields}
        self.record(ev.TriggerSet(self.at_us, Trigger(number, events=events, **plain)))
        return number

    def record(self, *events: ev.AnyEvent) -> None:
        self.writer.record(events)
        self.settle()

    def after(self, seconds: int = 15, **link: Any) -> list[str]:
        """Let time pass second by second; return what ran since the last time."""
        for _ in range(seconds):
            self.at_us += SECOND_US
            self.triggers.tick(**{"is_connected": None, "is_full": False, **link})
            self.settle()
            self.writer.on_durable(self.journal.appended)
        ran, self.ran = self.ran, []
        return [line.removeprefix("7: /tell it ") for line in ran]

    def down(self, *node_ids: int) -> None:
        self.record(ev.NodesDown(self.at_us, node_ids, "burnt"))

    def change(self, node_id: int, **fields: object) -> None:
        self.record(ev.NodeUpdated(self.at_us, (node_id,), dict(fields)))

    def job(self, minutes: int = 5) -> Job:
        """Return a job that runs on the first node."""
        request = JobRequest(nodes_min=1, nodes_max=1)
        job_id = submit(self.cluster, request, self.at_us, time_limit_min=minutes)
        run_pass(self.cluster, self.at_us)
        job = self.cluster.jobs[job_id]
        assert job.state == JobState.RUNNING
        return job


def test_nodes_that_go_down_together_are_one_run() -> None:
    """It comes with the end of the interval, as the trigger's owner, and once."""
    room = Watched()
    room.set("down")
    room.down(2)
    assert room.after(5) == []
    room.down(0, 1)
    assert room.after(10) == ["n[1-3]"]
    room.down(3)
    assert room.after(30) == []
    assert not room.cluster.triggers


def test_a_trigger_set_anew_misses_nothing() -> None:
    """What happened before it was set counts, if it was in the same interval."""
    room = Watched()
    room.after(1)
    room.down(0)
    room.after(2)
    room.set("down")
    assert room.after(15) == ["n1"]
    room.set("down")
    assert room.after(30) == []


def test_a_permanent_trigger_runs_for_each_event() -> None:
    """Once each."""
    room = Watched()
    room.set("down", "up", is_permanent=True)
    room.down(0)
    assert room.after(45) == ["n1"]
    room.record(ev.NodesReturned(room.at_us, (0,)))
    assert room.after(45) == ["n1"]
    assert list(room.cluster.triggers) == [1]


def test_only_the_named_nodes() -> None:
    """Others do not run it."""
    room = Watched()
    room.set("down", nodes="n[2-3]")
    room.down(0)
    assert room.after() == []
    room.down(2, 3)
    assert room.after() == ["n3"]


def test_the_offset_is_counted_from_the_event() -> None:
    """A negative one of something that no clock announces is none."""
    room = Watched()
    room.set("down", offset_s=20)
    room.set("down", offset_s=-20, program="/early")
    room.down(0)
    assert room.after(15) == ["7: /early n1"]
    assert room.after(15) == ["n1"]


def test_drained_draining_resumed_failing() -> None:
    """A node with a job drains; it is drained when the job has left it."""
    room = Watched()
    job = room.job()
    node_id = job.nodes[0].node_id
    name = room.cluster.node(node_id).spec.name
    for event in ("draining", "drained", "resume", "fail"):
        room.set(event, program=f"/{event}", is_permanent=True)
    room.change(node_id, flags=int(NodeFlag.DRAIN))
    assert room.after() == [f"7: /draining {name}"]
    end = ev.JobCompleting(room.at_us, job.job_id, JobState.COMPLETED, 0, 0, 90, (node_id,))
    room.record(end)
    assert room.after() == []
    duties = [(node_id, duty_id) for duty_id in room.cluster.duties[node_id]]
    room.record(ev.DutiesDone(room.at_us, tuple(duties)))
    assert room.after() == [f"7: /drained {name}"]
    room.change(node_id, flags=int(NodeFlag.FAIL))
    assert room.after() == [f"7: /resume {name}", f"7: /fail {name}"]
    # A node without jobs is drained at once.
    room.change(node_id, flags=int(NodeFlag.DRAIN))
    assert room.after() == [f"7: /drained {name}"]


def test_idle_for_a_while() -> None:
    """Counted from when the node was last busy; a permanent trigger hears of it once."""
    room = Watched()
    room.set("idle", nodes="n2", offset_s=60, is_permanent=True)
    assert room.after(55) == []
    assert room.after(20) == ["n2"]
    assert room.after(120) == []


def test_the_end_of_a_job() -> None:
    """Cancelled or not; and one of its nodes that goes down is told with the job's number."""
    room = Watched()
    job = room.job()
    node_id = job.nodes[0].node_id
    room.set("fini", job_id=job.job_id)
    room.set("fini", job_id=job.job_id, is_permanent=True, program="/lasts")
    room.set("down", job_id=job.job_id, program="/down")
    assert room.after(30) == []
    room.down(3 - node_id)
    assert room.after() == []
    end = ev.JobCompleting(room.at_us, job.job_id, JobState.NODE_FAIL, 0, 0, 90, ())
    room.record(
        ev.NodesDown(room.at_us, (node_id,), "burnt"),
        end,
        ev.JobEnded(room.at_us, job.job_id, JobState.NODE_FAIL, room.at_us, 0),
    )
    assert room.after(60) == ["1", "7: /lasts 1", "7: /down 1"]
    room.record(ev.JobPurged(room.at_us, (job.job_id,)))
    room.after(15)
    assert not room.cluster.triggers


def test_near_the_time_limit() -> None:
    """A negative offset runs before the limit, if the job still runs then."""
    room = Watched()
    job = room.job(minutes=5)
    room.set("time", job_id=job.job_id, offset_s=-120, is_permanent=True)
    assert room.after(179) == []
    assert room.after(16) == ["1"]
    assert room.after(60) == []
    short = room.job(minutes=2)
    room.set("time", job_id=short.job_id)
    end = ev.JobCompleting(room.at_us, short.job_id, JobState.COMPLETED, 0, 0, 91, ())
    room.record(end, ev.JobEnded(room.at_us, short.job_id, JobState.COMPLETED, room.at_us, 0))
    assert room.after(200) == []


def test_what_the_controller_itself_does() -> None:
    """It starts, is reconfigured, loses slurmdbd and finds it again, has too much for it."""
    room = Watched()
    for event in (
        "primary_slurmctld_resumed_operation",
        "primary_slurmctld_acct_buffer_full",
        "primary_slurmdbd_failure",
        "primary_slurmdbd_resumed_operation",
        "reconfig",
    ):
        room.set(event)
    room.record(ev.EpochStarted(room.at_us, room.cluster.epoch + 1, "ctl"))
    assert room.after(15, is_connected=True) == ["primary_slurmctld_resumed_operation"]
    assert room.after(15, is_connected=False) == ["primary_slurmdbd_failure"]
    assert room.after(15, is_connected=True) == ["primary_slurmdbd_resumed_operation"]
    full = room.after(30, is_connected=True, is_full=True)
    assert full == ["primary_slurmctld_acct_buffer_full"]
    conf = parse_slurm_conf(FOUR_NODES)
    room.record(*configure(room.cluster, conf, room.at_us))
    assert room.after() == ["reconfig"]


def test_a_change_of_a_node_counts_as_a_new_configuration() -> None:
    """The manual says so; one that changes no state does not."""
    room = Watched()
    room.set("reconfig")
    room.change(0, weight=7)
    assert room.after() == []
    room.change(0, state=int(NodeState.DOWN))
    assert room.after() == ["reconfig"]


def test_a_restart_keeps_what_was_seen() -> None:
    """What is not due runs under the next controller; no state of nodes is news to it."""
    room = Watched()
    room.set("down", offset_s=30)
    room.set("down", "drained", nodes="n4", program="/other")
    room.down(0)
    room.change(3, flags=int(NodeFlag.DRAIN))
    room.after(1)
    stored = Cluster.from_bytes(room.cluster.to_bytes())
    room.writer.close()
    later = Watched(stored)
    assert later.after(14) == []
    assert later.after(30) == ["7: /other n4", "n1"]
    later.set("down", "drained", program="/new")
    assert later.after(30) == []


def test_a_run_is_recorded_before_it_begins() -> None:
    """A crash may cost a run; none happens twice."""
    room = Watched(cluster_of())
    room.set("down")
    room.down(0)
    room.at_us = START_US + INTERVAL_US + SECOND_US
    room.triggers.tick(is_connected=None, is_full=False)
    room.settle()
    assert room.ran == [] and not room.cluster.triggers
    room.writer.on_durable(room.journal.appended)
    assert room.ran == ["7: /tell it n1"]


def test_triggers_that_see_the_same_fold_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand triggers of all nodes take little longer than one."""
    folded: list[Sequence[str]] = []
    fold = hostlist.fold_sorted

    def counted(names: Sequence[str]) -> str:
        folded.append(names)
        return fold(names)

    monkeypatch.setattr(hostlist, "fold_sorted", counted)
    room = Watched()
    for number in range(50):
        room.set("down", program=f"/p{number}")
    room.down(0, 1)
    assert len(folded) == 1
    assert len(room.after()) == 50
