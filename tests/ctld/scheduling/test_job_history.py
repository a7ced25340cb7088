"""A job's history out of the journal's files."""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.base.dates import format_date
from pyslurm_ng.base.numbers import REQ_CONTIGUOUS, REQ_EXCLUSIVE, REQ_NO_REQUEUE
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.scheduling.job_history import read_history
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.job import Dependency, JobRequest
from pyslurm_ng.model.states import JobFlag, JobState
from tests.journal.journal_room import Room
from tests.model.clusters import START_US
from tests.world.site import Site

SECOND_US = 1_000_000


class HistorySite(Site):
    """A site whose events are kept for a journal."""

    def __init__(self) -> None:
        super().__init__()
        self.payloads: list[bytes] = []
        self.follow(lambda events: self.payloads.append(encode_batch(list(events))))

    def run_pass_at(self, now_us: int) -> None:
        """Let time pass until then, and run a pass."""
        self.now_us = now_us
        self.run_pass()

    def write(self, directory: Path) -> Path:
        """Write the journal; return its folder."""
        state = Room(directory)
        state.write(self.payloads)
        return state.layout.journal


def test_a_start_names_the_job_that_left_its_nodes_and_when(tmp_path: Path) -> None:
    site = HistorySite()
    first = site.accept(node_list="n4", flags=REQ_EXCLUSIVE).job_id
    site.run_pass_at(START_US)
    second = site.accept(node_list="n4", flags=REQ_EXCLUSIVE).job_id
    site.apply([ev.JobEligible(START_US, second)])
    job = site.cluster.jobs[first]
    over_us = START_US + 90 * SECOND_US
    site.apply(job_end.complete(site.cluster, job, job_end.End(JobState.COMPLETED), over_us))
    duties = [duty for of_node in site.cluster.duties.values() for duty in of_node.values()]
    site.apply([ev.DutiesDone(over_us, tuple((duty.node_id, duty.duty_id) for duty in duties))])
    site.apply(job_end.finish(site.cluster, job, JobState.COMPLETED, 0, job.flags, over_us))
    site.run_pass_at(over_us + SECOND_US // 2)
    journal = site.write(tmp_path)
    names = {node.node_id: node.spec.name for node in site.cluster.living_nodes()}
    history = read_history(journal, second, names)
    assert [time_us for time_us, _ in history.lines] == [START_US, over_us + SECOND_US // 2]
    assert history.lines[-1][1] == (
        f"started on n4 of main, next in the order of priority; "
        f"job {first} was the last to leave them, 0.5 s before"
    )
    assert history.begin_us == START_US


def test_a_start_on_some_of_the_nodes_of_a_job_that_still_ends_names_it(tmp_path: Path) -> None:
    """Each node counts from when it was clean, not from the end of the job on its last one."""
    site = HistorySite()
    first = site.accept(nodes_min=2, nodes_max=2, flags=REQ_EXCLUSIVE).job_id
    site.run_pass_at(START_US)
    job = site.cluster.jobs[first]
    node_id = job.nodes[0].node_id
    name = site.cluster.node(node_id).spec.name
    over_us = START_US + 90 * SECOND_US
    site.apply(job_end.complete(site.cluster, job, job_end.End(JobState.PREEMPTED), over_us))
    duties = site.cluster.duties[node_id]
    site.apply([ev.DutiesDone(over_us, tuple((node_id, duty_id) for duty_id in duties))])
    second = site.accept(node_list=name, flags=REQ_EXCLUSIVE).job_id
    site.run_pass_at(over_us + SECOND_US // 2)
    journal = site.write(tmp_path)
    names = {node.node_id: node.spec.name for node in site.cluster.living_nodes()}
    line = read_history(journal, second, names).lines[-1][1]
    assert line.endswith(f"job {first} was the last to leave them, 0.5 s before")


def test_a_start_on_cores_of_a_suspended_job_names_it(tmp_path: Path) -> None:
    site = HistorySite()
    first = site.accept(node_list="n4", flags=REQ_EXCLUSIVE).job_id
    site.run_pass_at(START_US)
    over_us = START_US + 90 * SECOND_US
    site.apply([ev.JobSuspended(over_us, first, site.cluster.next_duty_id)])
    second = site.accept(node_list="n4").job_id
    site.run_pass_at(over_us + SECOND_US)
    journal = site.write(tmp_path)
    names = {node.node_id: node.spec.name for node in site.cluster.living_nodes()}
    line = read_history(journal, second, names).lines[-1][1]
    assert line.endswith(f"job {first} was the last to stop there, suspended 1.0 s before")


def test_without_a_journal_there_is_no_history(tmp_path: Path) -> None:
    assert read_history(tmp_path, 1, {}).lines == []


def test_history_has_words_that_users_know(tmp_path: Path) -> None:
    """Changes have their values. Other lines name a preemptor and the ends of dependencies."""
    site = HistorySite()
    job_id = site.accept(nodes_min=4, nodes_max=4, node_list="n4").job_id
    request = JobRequest(nodes_min=1, nodes_max=1)
    site.payloads.append(encode_batch([
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
    journal = site.write(tmp_path)
    history = read_history(journal, job_id, {})
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


def test_changes_have_their_units(tmp_path: Path) -> None:
    site = HistorySite()
    job_id = site.accept(nodes_min=1).job_id
    site.payloads.append(encode_batch([
        _submitted(job_id, JobRequest(nodes_min=1)),
        ev.JobUpdated(START_US, job_id, {}, JobRequest(
            nodes_min=1, begin_us=START_US, switches=1, switches_wait_s=300,
            flags=REQ_NO_REQUEUE | REQ_CONTIGUOUS, mem_per_cpu_mib=50, time_min_min=90,
        )),
    ]))  # fmt: skip
    journal = site.write(tmp_path)
    lines = read_history(journal, job_id, {}).lines
    assert lines[-1][1] == (
        f"changed: no requeue on, contiguous on, memory per CPU 50 MiB, switches 1, "
        f"switches wait 300 s, least time limit 1:30:00, "
        f"begin time {format_date(START_US // SECOND_US)}"
    )


def test_a_job_that_was_changed_often_has_a_bounded_history(tmp_path: Path) -> None:
    """Its answer would be a hundred megabytes that the loop looks through. RELIABILITY 46."""
    site = HistorySite()
    job_id = site.accept().job_id
    for number in range(2500):
        request = JobRequest(comment=f"{number}" + "x" * 5_000)
        site.apply([ev.JobUpdated(START_US + number, job_id, {}, request)])
    journal = site.write(tmp_path)
    history = read_history(journal, job_id, {})
    assert 500 <= len(history.lines) <= 1000
    assert sum(len(text) for _, text in history.lines) < 600_000
    assert history.lines[-1][0] == START_US + 2499
    assert history.begin_us == history.lines[0][0] > START_US
