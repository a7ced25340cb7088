"""Requests that stay open: steps that wait and run, allocations that come and go."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from pyslurm_ng.ctld.nodes.credentials import Credentials
from pyslurm_ng.ctld.open_calls.allocations import Allocations
from pyslurm_ng.ctld.open_calls.job_watch import JobWatch
from pyslurm_ng.ctld.open_calls.step_calls import StepCalls
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.rules.submission.submit import allocate_job
from pyslurm_ng.ctld.slices import Slices
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobState, NodeFlag, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire.auth_slurm import Key, KeyCredentialSigner
from pyslurm_ng.wire.job_messages import AllocateJob, JobAccepted
from pyslurm_ng.wire.node_messages import decode_credential
from pyslurm_ng.wire.step_messages import (
    AllocationGranted,
    AllocationOver,
    CreateStep,
    StepGranted,
    StepOver,
    StepWaiting,
)
from tests.model.clusters import START_US, conf_of, submit
from tests.world.writer_ends import Heard
from tests.world.writer_room import WriterRoom

SIGNER = KeyCredentialSigner(Key.from_secret(b"k" * 32))
ALICE = Caller(1001, 1001, "user1001", "user1001")


class Room(WriterRoom):
    """A controller's core with a clock and a disk that the test moves."""

    def __init__(self) -> None:
        super().__init__()
        credentials = Credentials(SIGNER, lambda: START_US)
        self.steps = StepCalls(self.writer, credentials, self, self.context, Slices(self.call_soon))
        watch = JobWatch(self.cluster)
        self.allocations = Allocations(self.writer, watch, self, self._decide)
        self.writer.observe(watch.applied)
        self.writer.observe(self.steps.applied)
        self.requests = 0

    def context(self, caller: Caller) -> Context:
        return Context(conf_of(), self.at_us, caller)

    def _decide(self, call: Any, caller: Caller, answer: Any) -> None:
        self.writer.change(allocate_job, call.request, self.context(caller), answer)

    def settle(self) -> None:
        """Run the loop until nothing is due and everything is durable."""
        while self.soon:
            self.turn()
            self.writer.on_durable(self.journal.appended)

    def schedule(self) -> None:
        """One pass."""
        for start in Planner()(snapshot(self.cluster, self.at_us), policy(conf_of())).starts:
            self.writer.record(dispatch(self.cluster, start, self.at_us))
        self.settle()

    def job(self, **request: Any) -> Job:
        """A running job."""
        job_id = submit(self.cluster, JobRequest(**request))
        self.schedule()
        return self.cluster.jobs[job_id]

    def next_id(self) -> bytes:
        self.requests += 1
        return self.requests.to_bytes(16, "big")

    def step(self, job: Job, **fields: Any) -> Heard:
        """Ask for a step."""
        request = {"request_id": self.next_id(), **fields}
        call = Heard(CreateStep(job_id=job.job_id, **request))
        self.steps.handle(call, ALICE)
        self.settle()
        return call

    def allocate(self, *, is_kept: bool = False, **request: Any) -> Heard:
        """Ask for an allocation."""
        message = AllocateJob(self.next_id(), JobRequest(**request), b"", is_kept)
        call = Heard(message)
        self.allocations.handle(call, ALICE)
        self.settle()
        return call

    def end_step(self, call: Heard, status: int = 0) -> None:
        granted = call.parts[-1]
        state = JobState.FAILED if status else JobState.COMPLETED
        self.writer.record(
            [ev.StepEnded(self.at_us, granted.job_id, granted.step_id, state, status)]
        )
        self.settle()


@pytest.fixture(name="room")
def _room() -> Room:
    return Room()


def test_grant_is_signed_for_the_step(room: Room) -> None:
    """The credential has what the grant has."""
    job = room.job(ntasks=2)
    call = room.step(job, ntasks=2, name="hello")
    (granted,) = call.parts
    assert isinstance(granted, StepGranted)
    credential = decode_credential(SIGNER.open_credential(granted.credential))
    assert (credential.job_id, credential.step_id) == (job.job_id, 0)
    assert (credential.step_tasks, credential.step_name) == (((0, 1),), "hello")
    assert list(credential.step_nodes) == granted.nodes


def test_nothing_is_granted_before_it_is_durable(room: Room) -> None:
    """The one law."""
    job = room.job(ntasks=1)
    call = Heard(CreateStep(request_id=room.next_id(), job_id=job.job_id))
    room.steps.handle(call, ALICE)
    room.writer.flush()
    assert call.parts == []
    room.settle()
    room.writer.on_durable(room.journal.appended)
    assert len(call.parts) == 1


def test_retried_request_is_the_same_step(room: Room) -> None:
    """srun lost its connection: it gets the step it had been given."""
    job = room.job(ntasks=1)
    first = room.step(job, request_id=bytes(15) + b"\xff")
    again = room.step(job, request_id=bytes(15) + b"\xff")
    assert again.parts[0].step_id == first.parts[0].step_id == 0
    assert job.next_step_id == 1


def test_waiting_step_starts_as_soon_as_it_can(room: Room) -> None:
    """The command hears that it waits only if that lasts, and then gets the grant at once."""
    job = room.job(ntasks=1)
    first = room.step(job)
    second = room.step(job)
    assert second.parts == []
    room.sleep(0.3)
    assert isinstance(second.parts[0], StepWaiting)
    assert second.parts[0].text == "Requested nodes are busy"
    room.end_step(first)
    assert isinstance(second.parts[1], StepGranted)
    assert first.last == StepOver(job.job_id, 0, JobState.COMPLETED, 0, JobState.RUNNING)


def test_steps_in_sequence_never_say_busy(room: Room) -> None:
    """The node's report of the first's end comes a little after srun has left."""
    job = room.job(ntasks=1)
    first = room.step(job)
    second = room.step(job)
    room.sleep(0.1)
    room.end_step(first)
    room.sleep(1.0)
    assert [type(part) for part in second.parts] == [StepGranted]


def test_waiting_steps_start_in_order(room: Room) -> None:
    """First come, first served, and none is forgotten."""
    job = room.job(ntasks=1)
    calls = [room.step(job) for _ in range(4)]
    for position, call in enumerate(calls):
        assert isinstance(call.parts[-1], StepGranted)
        assert all(not later.parts for later in calls[position + 1 :])
        room.end_step(call)
    assert room.steps.waiting_count == 0


def test_waiting_steps_are_tried_in_slices(room: Room) -> None:
    """4,000 requests, no two the same: each change of the job held the controller for a second."""
    job = room.job(ntasks=1)
    first = room.step(job)
    waiting = [room.step(job, tres_bind=f"b{number}") for number in range(100)]
    tried = 0

    def count(caller: Caller) -> Context:
        nonlocal tried
        tried += 1
        return Context(conf_of(), room.at_us, caller)

    room.steps._context = count
    granted = first.parts[0]
    room.writer.record(
        [ev.StepEnded(room.at_us, granted.job_id, granted.step_id, JobState.COMPLETED, 0)]
    )
    of_turns = []
    while room.soon:
        before = tried
        room.turn()
        of_turns.append(tried - before)
    assert (sum(of_turns) >= 100, max(of_turns) < 20) == (True, True)
    room.writer.on_durable(room.journal.appended)
    assert [bool(call.parts) for call in waiting] == [True] + [False] * 99


def test_a_long_waiting_step_is_kept_short(room: Room) -> None:
    """Each of 60,000 names was an object of its own, of which the user was charged 3 bytes."""
    job = room.job(ntasks=1)
    room.step(job)
    name = room.cluster.node(job.nodes[0].node_id).spec.name
    call = room.step(job, ntasks=1, task_nodes=[name] * 60_000)
    assert call.request.task_nodes == [name]
    assert room.steps.waiting_count == 1


def test_waiting_step_learns_of_its_jobs_end(room: Room) -> None:
    """It is refused then."""
    job = room.job(ntasks=1)
    room.step(job)
    waiting = room.step(job)
    room.writer.record(
        job_end.complete(room.cluster, job, job_end.End(JobState.CANCELLED), room.at_us)
    )
    room.settle()
    assert waiting.last[0] == 2021


def test_no_wait_is_refused_at_once(room: Room) -> None:
    """--immediate."""
    job = room.job(ntasks=1)
    room.step(job)
    assert room.step(job, no_wait=True).last[0] == 2016


def test_waiting_srun_that_leaves_is_forgotten(room: Room) -> None:
    """Its step is never made."""
    job = room.job(ntasks=1)
    first = room.step(job)
    room.step(job).leave()
    room.end_step(first)
    assert (room.steps.waiting_count, job.next_step_id) == (0, 1)


def test_step_of_a_vanished_srun_is_ended(room: Room) -> None:
    """Its nodes are told to kill it. A step that no node knows is dropped after a while."""
    job = room.job(ntasks=1)
    call = room.step(job)
    call.leave()
    room.sleep(1.0)
    assert not room.cluster.duties.get(job.nodes[0].node_id, {}) or call.last is None
    room.sleep(5.0)
    signals = [duty.signal for of_node in room.cluster.duties.values() for duty in of_node.values()]
    assert 9 in signals
    room.sleep(31.0)
    assert call.parts[0].step_id not in job.steps


def test_a_command_hears_of_every_stage(room: Room) -> None:
    """The number, the resources, the end."""
    call = room.allocate(ntasks=2, name="interactive")
    assert call.parts == [JobAccepted(1)]
    room.schedule()
    granted = call.parts[1]
    assert isinstance(granted, AllocationGranted)
    assert (granted.nodes, granted.cpus_per_node, granted.ntasks) == ("n3", "2", 2)
    job = room.cluster.jobs[1]
    room.writer.record(
        job_end.complete(
            room.cluster, job, job_end.End(JobState.TIMEOUT, reason=Reason.TimeLimit), room.at_us
        )
    )
    room.settle()
    assert call.last == AllocationOver(1, JobState.TIMEOUT, 0, Reason.TimeLimit)


def test_refused_allocation(room: Room) -> None:
    """An unknown partition."""
    assert room.allocate(partition="nope").last[0] == 2000


@pytest.mark.parametrize("is_running", [False, True])
def test_job_of_a_vanished_command_ends(room: Room, is_running: bool) -> None:
    """salloc was killed: its job does not stay behind, waiting or running."""
    call = room.allocate(ntasks=1)
    if is_running:
        room.schedule()
    call.leave()
    room.sleep(5.0)
    job = room.cluster.jobs[1]
    assert job.state in (JobState.PENDING, JobState.RUNNING)
    room.sleep(6.0)
    assert job.state == JobState.CANCELLED


def test_inactive_limit(room: Room) -> None:
    """The site may want commands to have more time to come back, and sees why a job ended."""
    room.allocations.inactive_limit_s = 60
    call = room.allocate(ntasks=1)
    room.schedule()
    call.leave()
    room.sleep(59.0)
    job = room.cluster.jobs[1]
    assert job.state == JobState.RUNNING
    room.sleep(2.0)
    assert (job.state, job.reason) == (JobState.TIMEOUT, Reason.InactiveLimit)


def test_inactive_limit_is_for_jobs_that_run(room: Room) -> None:
    """A waiting job whose command is gone is cancelled soon."""
    room.allocations.inactive_limit_s = 60
    room.allocate(ntasks=1).leave()
    room.sleep(11.0)
    assert room.cluster.jobs[1].state == JobState.CANCELLED


def test_command_that_comes_back_keeps_its_job(room: Room) -> None:
    """The same request id, and the job is attached again."""
    call = room.allocate(ntasks=1)
    asked = AllocateJob(room.requests.to_bytes(16, "big"), JobRequest(ntasks=1))
    room.schedule()
    call.leave()
    back = Heard(asked)
    room.allocations.handle(back, ALICE)
    room.settle()
    room.sleep(30.0)
    assert [type(part) for part in back.parts] == [JobAccepted, AllocationGranted]
    assert room.cluster.jobs[1].state == JobState.RUNNING


def test_kept_allocation_outlives_its_command(room: Room) -> None:
    """salloc --no-shell."""
    call = room.allocate(ntasks=1, is_kept=True)
    room.schedule()
    call.leave()
    room.sleep(30.0)
    assert room.cluster.jobs[1].state == JobState.RUNNING


def test_notices_reach_the_command(room: Room) -> None:
    """scontrol notify."""
    call = room.allocate(ntasks=1)
    assert room.allocations.notify(1, "hello")
    assert call.parts[-1].text == "hello"
    assert not room.allocations.notify(2, "nobody")


def test_jobs_without_their_command_are_cancelled_after_a_restart(room: Room) -> None:
    """A command that does not come back within a minute is gone."""
    job_id = submit(room.cluster, JobRequest(ntasks=1))
    room.cluster.jobs[job_id].script_hash = ""
    batch_id = submit(room.cluster, JobRequest(ntasks=1))
    later = [function for _, function in room.later]
    room.at_us += 61_000_000
    for function in later:
        partial(function)()
    room.settle()
    assert room.cluster.jobs[job_id].state == JobState.CANCELLED
    assert room.cluster.jobs[batch_id].state == JobState.PENDING


@pytest.mark.parametrize(
    ("change", "request_fields", "note"),
    [
        ({"state": "DOWN"}, {}, "Partition in DOWN state"),
        ({}, {"priority": 0}, "Job is in held state, pending scheduler release"),
        (
            {}, {"node_list": "n1", "nodes_min": 1},
            "Required node not available (down, drained or reserved)",
        ),
        ({}, {"node_list": "n2", "nodes_min": 1}, ""),
        (
            {"max_time_min": 60}, {"time_limit_min": 90},
            "Requested partition configuration not available now",
        ),
        ({"max_time_min": 60}, {"time_limit_min": 60}, ""),
    ],
)  # fmt: skip
def test_commands_are_told_what_stands_in_the_way(
    room: Room, change: dict[str, Any], request_fields: dict[str, Any], note: str
) -> None:
    """More than other jobs does: it will wait until somebody changes that."""
    cluster = room.cluster
    partition = cluster.default_partition()
    assert partition is not None
    changed = msgspec.structs.replace(partition, **change)
    drained = cluster.node_index.by_name["n1"]
    room.writer.record(
        [
            ev.PartitionUpdated(room.at_us, changed),
            ev.NodeUpdated(room.at_us, (drained,), {"flags": int(NodeFlag.DRAIN)}),
        ]
    )
    room.settle()
    call = room.allocate(**request_fields)
    assert call.parts[0].notes == ([note] if note else [])
