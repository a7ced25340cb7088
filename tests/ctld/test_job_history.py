"""A job's history out of the journal's files."""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.ctld.job_history import read_history
from pyslurm_ng.ctld.rules import job_end
from pyslurm_ng.ctld.rules.dispatch import dispatch
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.segment import ORIGIN
from pyslurm_ng.journal.writer import JournalWriter
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import REQ_EXCLUSIVE, JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.policy import policy
from pyslurm_ng.sched.snapshot import snapshot
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
        self.batches.append(ev.encode_batch(events))

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
    room.record(job_end.complete(room.cluster, job, JobState.COMPLETED, over_us))
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


def test_without_a_journal_there_is_no_history(tmp_path: Path) -> None:
    assert read_history(tmp_path, 1, {}).lines == []
