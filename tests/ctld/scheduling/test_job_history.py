"""A job's history out of the journal's files."""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.base.dates import format_date
from pyslurm_ng.base.numbers import REQ_CONTIGUOUS, REQ_EXCLUSIVE, REQ_NO_REQUEUE
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.scheduling.job_history import read_history
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.segment import ORIGIN
from pyslurm_ng.journal.writer import JournalWriter
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Dependency, JobRequest
from pyslurm_ng.model.states import JobFlag, JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of, submit

SECOND_US = 1_000_000


class _Room:
    """A cluster whose events are kept as a journal would."""

    def __init__(self) -> None:
        self.cluster: Cluster = cluster_of()
        self.batches: list[bytes] = []
        self.problems: list[str] = []

    def record(self, events: list[ev.AnyEvent]) -> None:
        for event in events:
            apply(self.cluster, event)
        self.batches.append(encode_batch(events))

    def run_pass(self, now_us: int) -> None:
        plan = Planner()(snapshot(self.cluster, now_us), policy(conf_of()))
        for start in plan.starts:
            self.record(dispatch(self.cluster, start, now_us))

    def write(self, directory: Path) -> None:
        done: list[int] = []
        (directory / "journal").mkdir()
        writer = JournalWriter(
            directory / "journal",
            b"j" * 16,
            ORIGIN._replace(epoch=1),
            first_sequence=1,
            on_durable=done.append,
            on_fatal=self.problems.append,
            reserve=Reserve(directory / "reserve", 4096),
        )
        for payload in self.batches:
            writer.append(payload)
        writer.close()


def test_a_start_names_who_left_its_nodes_and_when(tmp_path: Path) -> None:
    room = _Room()
    first = submit(room.cluster, JobRequest(node_list="n4", flags=REQ_EXCLUSIVE))
    room.run_pass(START_US)
    second = submit(room.cluster, JobRequest(node_list="n4", flags=REQ_EXCLUSIVE))
    room.record([ev.JobEligible(START_US, second)])
    job = room.cluster.jobs[first]
    over_us = START_US + 90 * SECOND_US
    room.record(job_end.complete(room.cluster, job, job_end.End(JobState.COMPLETED), over_us))
    duties = [duty for of_node in room.cluster.duties.values() for duty in of_node.values()]
    room.record([ev.DutiesDone(over_us, tuple((duty.node_id, duty.duty_id) for duty in duties))])
    room.record(job_end.finish(room.cluster, job, JobState.COMPLETED, 0, job.flags, over_us))
    room.run_pass(over_us + SECOND_US // 2)
    room.write(tmp_path)
    names = {node.node_id: node.spec.name for node in room.cluster.living_nodes()}
    history = read_history(tmp_path / "journal", second, names)
    assert [time_us for time_us, _ in history.lines] == [START_US, over_us + SECOND_US // 2]
    assert history.lines[-1][1] == (
        f"started on n4 of main, next in the order of priority; "
        f"job {first} was the last to leave them, 0.5 s before"
    )
    assert history.begin_us == START_US


def test_a_start_on_some_of_the_nodes_of_a_job_that_still_ends_names_it(tmp_path: Path) -> None:
    """Each node counts from when it was clean, not from the end of the job on its last one."""
    room = _Room()
    first = submit(room.cluster, JobRequest(nodes_min=2, nodes_max=2, flags=REQ_EXCLUSIVE))
    room.run_pass(START_US)
    job = room.cluster.jobs[first]
    node_id = job.nodes[0].node_id
    name = room.cluster.node(node_id).spec.name
    over_us = START_US + 90 * SECOND_US
    room.record(job_end.complete(room.cluster, job, job_end.End(JobState.PREEMPTED), over_us))
    duties = room.cluster.duties[node_id]
    room.record([ev.DutiesDone(over_us, tuple((node_id, duty_id) for duty_id in duties))])
    second = submit(room.cluster, JobRequest(node_list=name, flags=REQ_EXCLUSIVE))
    room.run_pass(over_us + SECOND_US // 2)
    room.write(tmp_path)
    names = {node.node_id: node.spec.name for node in room.cluster.living_nodes()}
    line = read_history(tmp_path / "journal", second, names).lines[-1][1]
    assert line.endswith(f"job {first} was the last to leave them, 0.5 s before")


def test_a_start_on_cores_of_a_suspended_job_names_it(tmp_path: Path) -> None:
    room = _Room()
    first = submit(room.cluster, JobRequest(node_list="n4", flags=REQ_EXCLUSIVE))
    room.run_pass(START_US)
    over_us = START_US + 90 * SECOND_US
    room.record([ev.JobSuspended(over_us, first, room.cluster.next_duty_id)])
    second = submit(room.cluster, JobRequest(node_list="n4"))
    room.run_pass(over_us + SECOND_US)
    room.write(tmp_path)
    names = {node.node_id: node.spec.name for node in room.cluster.living_nodes()}
    line = read_history(tmp_path / "journal", second, names).lines[-1][1]
    assert line.endswith(f"job {first} was the last to stop there, suspended 1.0 s before")


def test_without_a_journal_there_is_no_history(tmp_path: Path) -> None:
    assert read_history(tmp_path, 1, {}).lines == []


def test_what_happened_is_told_in_words_of_users(tmp_path: Path) -> None:
    """A change with its values, for whom it had to leave, what became of its dependencies."""
    room = _Room()
    job_id = submit(room.cluster, JobRequest(nodes_min=4, nodes_max=4, node_list="n4"))
    request = JobRequest(nodes_min=1, nodes_max=1)
    room.batches.append(encode_batch([
        _submitted(job_id, JobRequest(nodes_min=4, nodes_max=4, node_list="n4")),
        ev.DependencyChanged(START_US, job_id, (Dependency("afterok", 9, state=2),),
                             never_satisfied=True),
        ev.DependencyChanged(START_US, job_id, ()),
        ev.JobUpdated(START_US, job_id, {"time_limit_min": 15, "eligible_us": 3}, request),
        ev.JobUpdated(START_US, job_id, {"suspended_by": 7}),
        ev.JobUpdated(START_US, job_id, {"preempt_us": START_US}),
        ev.JobUpdated(START_US, 77, {"claim_victims": [job_id]}),
        ev.JobCompleting(START_US, job_id, JobState.CANCELLED, 0, 0, 1, (),
                         flags=int(JobFlag.REQUEUED)),
        ev.JobRequeued(START_US, job_id, 1, 0, 0),
    ]))  # fmt: skip
    room.write(tmp_path)
    history = read_history(tmp_path / "journal", job_id, {})
    assert [text for _, text in history.lines] == [
        "submitted",
        "one of its dependencies can never be met",
        "its last dependency was met",
        "changed: time limit in minutes 15, nodes min 1, nodes max 1, node list none",
        "has to make room for job 77",
        "ended, to be put back into the queue",
        "put back into the queue",
    ]


def _submitted(job_id: int, request: JobRequest) -> ev.JobSubmitted:
    return ev.JobSubmitted(
        START_US, job_id, request, 1000, 1000, "alice", "alice", "", "", 0, "main", 60, "", ""
    )


def test_changes_are_told_with_their_units(tmp_path: Path) -> None:
    room = _Room()
    job_id = submit(room.cluster, JobRequest(nodes_min=1))
    room.batches.append(encode_batch([
        _submitted(job_id, JobRequest(nodes_min=1)),
        ev.JobUpdated(START_US, job_id, {}, JobRequest(
            nodes_min=1, begin_us=START_US, switches=1, switches_wait_s=300,
            flags=REQ_NO_REQUEUE | REQ_CONTIGUOUS, mem_per_cpu_mib=50, time_min_min=90,
        )),
    ]))  # fmt: skip
    room.write(tmp_path)
    lines = read_history(tmp_path / "journal", job_id, {}).lines
    assert lines[-1][1] == (
        f"changed: no requeue on, contiguous on, memory per CPU 50 MiB, switches 1, "
        f"switches wait 300 s, least time limit 1:30:00, "
        f"begin time {format_date(START_US // SECOND_US)}"
    )


def test_a_job_that_was_changed_often_has_a_bounded_history(tmp_path: Path) -> None:
    """Its answer would be a hundred megabytes that the loop looks through. RELIABILITY 46."""
    room = _Room()
    job_id = submit(room.cluster, JobRequest())
    for number in range(2500):
        request = JobRequest(comment=f"{number}" + "x" * 5_000)
        room.record([ev.JobUpdated(START_US + number, job_id, {}, request)])
    room.write(tmp_path)
    history = read_history(tmp_path / "journal", job_id, {})
    assert 500 <= len(history.lines) <= 1000
    assert sum(len(text) for _, text in history.lines) < 600_000
    assert history.lines[-1][0] == START_US + 2499
    assert history.begin_us == history.lines[0][0] > START_US
