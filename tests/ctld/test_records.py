"""Kept records equal fresh ones, whatever happened in between."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.ctld import job_filter
from pyslurm_ng.ctld.queries import jobs
from pyslurm_ng.ctld.queries.jobs import (
    BRIEF_FIELDS,
    DETAIL_FIELDS,
    live_records,
    refresh_live,
    show_jobs,
)
from pyslurm_ng.ctld.queries.nodes import NODE_FIELDS, show_nodes
from pyslurm_ng.ctld.records import RecordCache
from pyslurm_ng.kernels.records import project
from pyslurm_ng.model.states import JobFlag, JobState
from pyslurm_ng.wire.client import SlurmError
from pyslurm_ng.wire.query_messages import JobFilter, Records, ShowJobs, ShowNodes
from tests.cli.reference_cluster import ADMIN, ReferenceCluster, caller, queue
from tests.world.examples import drawn

ALL = ShowJobs(filter=JobFilter(all_states=True))
JOB_IDS = st.sampled_from(["17", "21", "23", "24", "25", "27", "27_3", "27_[5-7]", "29", "30+1"])
STEERING = st.one_of(
    st.tuples(st.just("CancelJobs"), JOB_IDS.map(lambda job: {"filter": {"jobs": [job]}})),
    st.tuples(st.just("HoldJobs"), JOB_IDS.map(lambda job: {"jobs": [job]})),
    st.tuples(st.just("HoldJobs"), JOB_IDS.map(lambda job: {"jobs": [job], "release": True})),
    st.tuples(st.just("RequeueJobs"), JOB_IDS.map(lambda job: {"jobs": [job]})),
    st.tuples(st.just("SuspendJobs"), JOB_IDS.map(lambda job: {"jobs": [job]})),
    st.tuples(st.just("SuspendJobs"), JOB_IDS.map(lambda job: {"jobs": [job], "resume": True})),
    st.tuples(
        st.just("UpdateJob"),
        JOB_IDS.map(lambda job: {"jobs": [job], "settings": {"comment": "c", "timelimit": "3"}}),
    ),
    st.tuples(
        st.just("UpdateNodes"),
        st.tuples(st.sampled_from(["n1", "n[3-4]"]), st.sampled_from(["DOWN", "DRAIN", "RESUME"]))
        .map(lambda pair: {"nodes": pair[0], "settings": {"state": pair[1], "reason": "r"}}),
    ),
    st.tuples(st.just("pass"), st.integers(1, 9)),
)  # fmt: skip


def answer(reference: ReferenceCluster, *, flags: int = 0) -> Records:
    """Return the answer to a question for all jobs."""
    request = ShowJobs(filter=ALL.filter, flags=flags)
    reply = show_jobs(
        reference.cluster, reference.soft, reference.conf, request, ADMIN, reference.now_us
    )
    assert isinstance(reply, Records)
    return reply


def rows(blob: bytes, fields: list[str]) -> dict[int, tuple[Any, ...]]:
    """Return records by their first field or name."""
    return {row[0]: row for row in project(blob, range(len(fields)))}


@settings(max_examples=drawn(60), deadline=None)
@given(st.lists(STEERING, max_size=8))
def test_kept_records_equal_fresh_ones(steps: list[tuple[str, Any]]) -> None:
    """After any steering, in any order, asking between the steps or not."""
    reference = queue()
    client = reference.client("root")
    for number, (kind, fields) in enumerate(steps):
        if kind == "pass":
            assert isinstance(reference.soft.priority, dict)
            reference.soft.priority.update(
                dict.fromkeys(reference.cluster.job_index.pending, fields)
            )
            reference.soft.plan_generation += 1
        else:
            with contextlib.suppress(SlurmError):
                client.change(kind, fields)
        if number % 2:
            live_records(reference.cluster, reference.soft)
            answer(reference, flags=2)
    kept = answer(reference, flags=2).records
    live = b"".join(live_records(reference.cluster, reference.soft).values())
    nodes = ShowNodes()
    context = (reference.cluster, reference.soft, reference.conf, nodes, ADMIN, reference.now_us)
    kept_nodes = show_nodes(*context)
    reference.soft.records = RecordCache()
    fresh_nodes = show_nodes(*context)
    assert isinstance(kept_nodes, Records) and isinstance(fresh_nodes, Records)
    assert kept_nodes.records == fresh_nodes.records
    assert rows(kept, DETAIL_FIELDS) == rows(answer(reference, flags=2).records, DETAIL_FIELDS)
    over = reference.cluster.job_index.ended
    expected = rows(answer(reference).records, BRIEF_FIELDS)
    assert rows(live, BRIEF_FIELDS) == {
        job_id: row for job_id, row in expected.items() if job_id not in over
    }
    assert len(project(fresh_nodes.records, range(len(NODE_FIELDS)))) == 4


def test_many_waiting_jobs_are_packed_again_between_other_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A query in between gets what is there and does not wait."""
    monkeypatch.setattr(jobs, "_MANY_WAITING", 0)
    monkeypatch.setattr(jobs, "_SLICE", 1)
    reference = queue()
    cluster, soft = reference.cluster, reference.soft
    before = dict(live_records(cluster, soft))
    assert isinstance(soft.priority, dict)
    soft.priority.update(dict.fromkeys(cluster.job_index.pending, 77))
    soft.plan_generation += 1
    assert live_records(cluster, soft) == before
    work = refresh_live(cluster, soft)
    next(work)
    first, *others = cluster.job_index.pending
    assert live_records(cluster, soft)[first] != before[first]
    assert all(live_records(cluster, soft)[other] == before[other] for other in others)
    assert [*work] and others
    kept = dict(live_records(cluster, soft))
    soft.records = RecordCache()
    assert kept == live_records(cluster, soft)
    assert [*refresh_live(cluster, soft)] == []


@pytest.mark.parametrize(
    "request_",
    [
        ShowJobs(filter=JobFilter(states=[0, 1, 2], state_flags=int(JobFlag.COMPLETING))),
        ALL,
        ShowJobs(filter=JobFilter(all_states=True), flags=2),
        ShowJobs(filter=JobFilter(states=[0], uids=[1001, 1002])),
        ShowJobs(filter=JobFilter(jobs=["21", "27", "29", "27_3"]), flags=2),
        ShowJobs(filter=JobFilter(jobs=[str(number) for number in range(1, 40)])),
        ShowJobs(filter=JobFilter(all_states=True), flags=2, most=9),
    ],
)
def test_packing_in_advance_changes_no_answer(
    monkeypatch: pytest.MonkeyPatch, request_: ShowJobs
) -> None:
    """Nor does an event between two slices."""
    monkeypatch.setattr(jobs, "_MANY_WAITING", 0)
    monkeypatch.setattr(jobs, "_SLICE", 1)
    monkeypatch.setattr(jobs, "_DETAILED_SLICE", 1)
    reference = queue()
    terms = (reference.cluster, reference.soft, reference.conf, request_)
    work = jobs.packing(*terms, ADMIN)
    assert work is not None
    next(work)
    reference.client("root").change("HoldJobs", {"jobs": ["21"]})
    assert len([*work]) > 1
    packed = show_jobs(*terms, ADMIN, reference.now_us)
    reference.soft.records = RecordCache()
    fresh = show_jobs(*terms, ADMIN, reference.now_us)
    assert isinstance(packed, Records) and isinstance(fresh, Records)
    fields = DETAIL_FIELDS if request_.flags & 2 else BRIEF_FIELDS
    assert rows(packed.records, fields) == rows(fresh.records, fields)


def test_narrow_questions_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if there are many other jobs."""
    monkeypatch.setattr(jobs, "_MANY_WAITING", 10)
    reference = queue()
    terms = (reference.cluster, reference.soft, reference.conf)
    for narrow in (JobFilter(jobs=["21"]), JobFilter(uids=[4711])):
        assert jobs.packing(*terms, ShowJobs(filter=narrow), ADMIN) is None


@settings(max_examples=drawn(60), deadline=None)
@given(
    st.lists(STEERING, max_size=4),
    st.sets(st.sampled_from(list(JobState)), max_size=3),
    st.lists(st.sampled_from([1001, 1002, 4711]), max_size=2, unique=True),
)
def test_indexes_leave_no_job_out(
    steps: list[tuple[str, Any]], states: set[JobState], uids: list[int]
) -> None:
    """Only jobs that can be of the wanted states and users are looked at: all of these."""
    reference = queue()
    client = reference.client("root")
    for kind, fields in steps:
        if kind != "pass":
            with contextlib.suppress(SlurmError):
                client.change(kind, fields)
    criteria = JobFilter(states=[int(state) for state in states], uids=uids)
    terms = (reference.cluster, reference.soft, reference.conf)
    shown = show_jobs(*terms, ShowJobs(filter=criteria), ADMIN, reference.now_us)
    assert isinstance(shown, Records)
    agrees = job_filter.agrees(reference.cluster, criteria, reference.now_us)
    assert not isinstance(agrees, Reject)
    expected = {job.job_id for job in reference.cluster.jobs.values() if agrees(job)}
    assert set(rows(shown.records, BRIEF_FIELDS)) == expected


def test_few_running_jobs_are_listed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`squeue -t R` waits for no slices, whatever the number of jobs that wait."""
    reference = queue()
    monkeypatch.setattr(jobs, "_MANY_WAITING", len(reference.cluster.job_index.active))
    assert len(reference.cluster.jobs) > jobs._MANY_WAITING
    terms = (reference.cluster, reference.soft, reference.conf)
    running = JobFilter(states=[int(JobState.RUNNING)])
    assert jobs.packing(*terms, ShowJobs(filter=running), ADMIN) is None
    theirs = JobFilter(states=[int(JobState.RUNNING)], uids=[1001, 1002])
    assert jobs.packing(*terms, ShowJobs(filter=theirs), ADMIN) is None


@pytest.mark.parametrize("most", [1, 2, 7, 4096])
@pytest.mark.parametrize("gap", [0, 1000])
@pytest.mark.parametrize(
    "job_filter",
    [
        JobFilter(all_states=True),
        JobFilter(states=[0]),
        JobFilter(all_states=True, uids=[1001, 1002, 1001]),
    ],
)
def test_pages_are_the_whole_list(
    job_filter: JobFilter, gap: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job once, by its id, wherever ids are missing."""
    monkeypatch.setattr(jobs, "_LONGEST_GAP", gap)
    reference = queue()
    terms = (reference.cluster, reference.soft, reference.conf)
    whole = show_jobs(*terms, ShowJobs(filter=job_filter), ADMIN, reference.now_us)
    assert isinstance(whole, Records) and whole.next_job == 0
    ids: list[int] = []
    after = 0
    while True:
        request = ShowJobs(filter=job_filter, most=most, after_job=after)
        page = show_jobs(*terms, request, ADMIN, reference.now_us)
        assert isinstance(page, Records)
        listed = rows(page.records, BRIEF_FIELDS)
        assert len(listed) <= most
        assert listed.items() <= rows(whole.records, BRIEF_FIELDS).items()
        ids += listed
        after = page.next_job
        if not after:
            break
    assert ids == sorted(rows(whole.records, BRIEF_FIELDS))


def test_a_page_of_named_jobs_is_all_of_them() -> None:
    reference = queue()
    terms = (reference.cluster, reference.soft, reference.conf)
    request = ShowJobs(filter=JobFilter(jobs=["21", "29"], all_states=True), most=1)
    reply = show_jobs(*terms, request, ADMIN, reference.now_us)
    assert isinstance(reply, Records)
    assert set(rows(reply.records, BRIEF_FIELDS)) >= {21, 29} and reply.next_job == 0


@pytest.mark.parametrize("most", [1, 2, 4096])
@pytest.mark.parametrize("gap", [0, 1000])
@pytest.mark.parametrize("uids", [[], [1001, 1002, 1003]])
def test_pages_tell_nothing_of_hidden_jobs(
    uids: list[int], gap: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PrivateData=jobs: where the next page begins is the id of a job that the caller may see."""
    monkeypatch.setattr(jobs, "_LONGEST_GAP", gap)
    reference = queue()
    conf = dataclasses.replace(reference.conf, private_data=("jobs",))
    terms = (reference.cluster, reference.soft, conf)
    told: list[int] = []
    ids: list[int] = []
    after = 0
    while not told or after:
        request = ShowJobs(JobFilter(all_states=True, uids=uids), most=most, after_job=after)
        page = show_jobs(*terms, request, caller("bob"), reference.now_us)
        assert isinstance(page, Records)
        ids += rows(page.records, BRIEF_FIELDS)
        after = page.next_job
        told.append(after)
    assert ids == [23, 25]
    assert set(told) <= {0, 23, 25}


def private(reference: ReferenceCluster, user: str) -> set[int]:
    """Return the jobs a user sees under PrivateData=jobs."""
    conf = dataclasses.replace(reference.conf, private_data=("jobs",))
    reply = show_jobs(reference.cluster, reference.soft, conf, ALL, caller(user), reference.now_us)
    assert isinstance(reply, Records)
    return {row[0] for row in project(reply.records, [0])}


def test_private_jobs_are_shown_to_their_owner_and_operators() -> None:
    """PrivateData=jobs."""
    assert private(queue(), "bob") == {23, 25}
    assert len(private(queue(), "root")) == 14


def test_hidden_partitions_need_all() -> None:
    """A job in a hidden partition is listed with --all, and for operators."""
    reference = queue()
    reference.client("root").change(
        "UpdatePartition", {"name": "gpu", "settings": {"hidden": "YES"}}
    )
    client = reference.client("alice")
    filter_fields = {"all_states": True}
    for flags, expected in ((0, 13), (1, 14)):
        reply = client.call("ShowJobs", {"filter": filter_fields, "flags": flags})
        assert len(project(reply["records"], [0])) == expected


def test_no_limit_reads_as_infinite() -> None:
    """The mark for no limit is the same number on the wire as in the model."""
    reference = queue()
    reference.client("root").change(
        "UpdateJob", {"jobs": ["29"], "settings": {"timelimit": "UNLIMITED"}}
    )
    row = rows(answer(reference).records, BRIEF_FIELDS)[29]
    assert row[BRIEF_FIELDS.index("time_limit_min")] == INFINITE
