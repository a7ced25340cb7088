"""Filters choose jobs as the manual says."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import MOST_IDS
from pyslurm_ng.base.sluid import sluid_number, sluid_text
from pyslurm_ng.ctld.job_filter import SCATTERED, TOO_MANY, JobFinder, Part, agrees, job_id_text
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.wire.query_messages import CancelJobs, HoldJobs, JobFilter
from tests.cli.reference_cluster import NOW_US, queue
from tests.model.clusters import FOUR_NODES, START_US, conf_of
from tests.world.callers import ROOT
from tests.world.operations import lines_run
from tests.world.site import Site


def named(cluster: Cluster, texts: list[str]) -> tuple[list[Part], list[str]]:
    """Return what the ids name, and those that name nothing; they must not be too many."""
    jobs = JobFinder(cluster).several(texts)
    assert not isinstance(jobs, Reject)
    return jobs


@pytest.mark.parametrize(
    ("job_filter", "expected"),
    [
        (JobFilter(), 14),
        (JobFilter(uids=[1002]), 2),
        (JobFilter(not_uids=[1001]), 6),
        (JobFilter(accounts=["Chem"]), 5),
        (JobFilter(names=["sim", "het"]), 3),
        (JobFilter(partitions=["gpu"]), 1),
        (JobFilter(qos=["high", "low"]), 2),
        (JobFilter(nodes="n[3-4]"), 2),
        (JobFilter(states=[1]), 3),
        (JobFilter(states=[1], all_states=True), 14),
        (JobFilter(states=[1], uids=[1001], nodes="n1"), 1),
        (JobFilter(running_over_s=38), 3),
        (JobFilter(running_over_s=39), 0),
        (JobFilter(running_under_s=100), 3),
        (JobFilter(reservations=["r"]), 0),
        (JobFilter(licenses=["matlab"]), 0),
        (JobFilter(wckeys=["x"]), 0),
    ],
)
def test_every_filter_must_agree(job_filter: JobFilter, expected: int) -> None:
    """Filters of one kind are alternatives, of several kinds conditions."""
    cluster = queue().cluster
    test = agrees(cluster, job_filter, NOW_US)
    assert not isinstance(test, Reject)
    assert sum(test(job) for job in cluster.jobs.values()) == expected


def test_a_sluid_names_one_record() -> None:
    """A task of an array by its own, the tasks that wait by that of their record."""
    cluster = queue().cluster
    for job in cluster.jobs.values():
        text = sluid_text(job.sluid)
        assert [(part.job_id, tasks) for part, tasks in named(cluster, [text])[0]] == [
            (job.job_id, ())
        ]
    assert named(cluster, ["s00HM83DBK7M01"]) == ([], ["s00HM83DBK7M01"])


def test_a_sluid_is_found_after_ids_began_anew() -> None:
    """Ids beyond the next one belong to older jobs."""
    cluster = queue().cluster
    cluster.next_job_id = 2
    job = max(cluster.jobs.values(), key=lambda job: job.job_id)
    assert JobFinder(cluster).named(sluid_text(job.sluid)) == [(job, ())]


def test_many_unknown_sluids_are_too_many() -> None:
    """RELIABILITY 46: each of them looks at many ids that are not in use."""
    cluster = queue().cluster
    texts = [sluid_text(sluid_number(1, job_id)) for job_id in range(1, 4096)]
    assert JobFinder(cluster).several(texts) is TOO_MANY


def test_unknown_node_is_refused() -> None:
    """The node is named."""
    refusal = agrees(queue().cluster, JobFilter(nodes="n[4-5]"), NOW_US)
    assert isinstance(refusal, Reject) and refusal.detail == "n5"


@pytest.mark.parametrize(("nodes", "expected"), [("n9", 0), ("n[4", 0), ("n9,n[3-4]", 2)])
def test_unknown_node_has_no_jobs_to_cancel(nodes: str, expected: int) -> None:
    """As with Slurm 22.05, scancel ends the jobs of the nodes there are."""
    cluster = queue().cluster
    context = Context(conf_of(FOUR_NODES), NOW_US, ROOT)
    decision = cancel_jobs(cluster, CancelJobs(bytes(16), JobFilter(nodes=nodes)), context)
    assert not isinstance(decision, Reject) and decision.reply.count == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("21", ["21"]),
        ("27", ["27_[0-9%2]"]),
        ("27_3", ["27_[3]"]),
        ("27_[2-4,9]", ["27_[2-4,9]"]),
        ("27_[8-20]", ["27_[8-9]"]),
        ("30", ["30+0", "30+1"]),
        ("30+1", ["30+1"]),
        ("31", ["30+1"]),
        ("99", []),
        ("27_10", []),
        ("x", []),
    ],
)
def test_ids_as_typed(text: str, expected: list[str]) -> None:
    """Arrays, their tasks and het components."""
    parts, unknown = named(queue().cluster, [text])
    assert [job_id_text(job, tasks) for job, tasks in parts] == expected
    assert unknown == ([] if expected else [text])


def with_arrays(tasks: int, started: int) -> Cluster:
    """Return a cluster with two arrays, of which so many tasks are records of their own."""
    room = Site(f"MaxArraySize={tasks + 1}\nMaxJobCount={4 * tasks}")
    for head in [room.job(array=f"0-{tasks - 1}:1") for _ in range(2)]:
        splits = [
            ev.ArrayTaskSplit(room.now_us, head.job_id, 3 * n, 2 * n + 9 + head.job_id)
            for n in range(started)
        ]
        apply_all(room.cluster, list(splits))
    return room.cluster


def test_tasks_that_run_and_that_wait_are_found_by_brackets() -> None:
    """Each record once, in order of its index, the rest of the array last."""
    cluster = with_arrays(100, 10)
    parts, unknown = named(cluster, ["1_[0-5,2-7:2]", "1_[3]", "1_0", "2_[1-2]", "1_[200]"])
    texts = [job_id_text(job, tasks) for job, tasks in parts]
    assert texts == ["1_0", "1_3", "1_6", "1_[1-2,4-5]", "2_[1-2]"]
    assert unknown == ["1_[200]"]
    everything, _ = named(cluster, ["2"])
    assert len(everything) == 11


MANY = MOST_IDS


@pytest.mark.parametrize(
    "texts",
    [
        ["1"] * MANY,
        ["1_[0-99]"] * MANY,
        [f"1_[{n % 7}-99:2]" for n in range(MANY)],
        [f"1_[{n % 50},{50 + n % 50}]" for n in range(MANY)],
        ["1_[" + ",".join(map(str, range(n % 3, 99, 2))) + "]" for n in range(MANY)],
        [f"{1 + n % 2}_{n % 100}" for n in range(MANY)],
        [f"{n}_[0-98:2]" for n in range(MANY)],
        [str(n) for n in range(MANY)],
        ["5+0"] * MANY,
    ],
    ids=lambda texts: texts[0][:12],
)
def test_the_work_for_ids_is_bounded(texts: list[str]) -> None:
    """RELIABILITY 46: ids with brackets, as many as a request may name; repeated ones."""
    cluster = with_arrays(100, 33)
    assert lines_run(JobFinder(cluster).several, texts) < 90 * MANY


def test_ids_that_name_too_much_are_refused() -> None:
    """As a whole, and in words: nothing is listed or changed that was not looked at."""
    cluster = with_arrays(1_000, 300)
    assert JobFinder(cluster).several([f"1_[0-{n}]" for n in range(MANY)]) == TOO_MANY
    # A change is told to go on with the rest.
    context = Context(conf_of(FOUR_NODES), START_US, ROOT)
    hold = HoldJobs(bytes(16), ["1_[0-999]"] * MANY)
    decision = hold_jobs(cluster, hold, context)
    assert not isinstance(decision, Reject) and decision.reply.is_partial
    cancel = CancelJobs(bytes(16), JobFilter(jobs=["1_[0-999]"] * MANY))
    cancelled = cancel_jobs(cluster, cancel, context)
    assert not isinstance(cancelled, Reject) and cancelled.reply.is_partial
    # What a command names that names each task once is never too much.
    parts, _ = named(cluster, [f"{array}_{task}" for array in (1, 2) for task in range(1_000)])
    assert len(parts) == 602


def test_all_tasks_of_one_array_are_found_in_one_look() -> None:
    """With as many ids as a request may name. Ids of no job are reported."""
    cluster = with_arrays(MANY, 0)
    every = [f"1_{task}" for task in range(MANY)]
    parts, unknown = named(cluster, every)
    assert [job_id_text(job, tasks) for job, tasks in parts] == ["1_[0-4095]"]
    assert unknown == []
    overlapping = [f"1_[{n % 900}-{999 + n // 900}]" for n in range(MANY)]
    for texts in (every, overlapping, ["1_[0-999]"] * MANY):
        assert lines_run(JobFinder(cluster).several, texts) < 70 * MANY
    parts, unknown = named(cluster, ["1_7", "9", "1_[3-5]", "1_[5000-5009:3]", "2_9", "1_5000"])
    assert [job_id_text(job, tasks) for job, tasks in parts] == ["1_[3-5,7]", "2_[9]"]
    assert unknown == ["1_[5000-5009:3]", "1_5000", "9"]


def test_the_mark_of_a_default_wckey_need_not_be_named() -> None:
    """`scancel --wckey=lab` reaches jobs that have lab by default, shown as `*lab`."""
    cluster = queue().cluster
    job = next(iter(cluster.jobs.values()))
    for own, named_key, is_meant in (
        ("*lab", "lab", True), ("*lab", "*lab", True), ("lab", "lab", True),
        ("lab", "*lab", False), ("*", "lab", False), ("", "lab", False),
    ):  # fmt: skip
        job.request = changed_request(job.request, wckey=own)
        test = agrees(cluster, JobFilter(wckeys=[named_key]), NOW_US)
        assert not isinstance(test, Reject)
        assert test(job) == is_meant


@pytest.mark.parametrize(
    ("names", "is_refused"),
    [
        (["1_[0-99998:2]"], False),
        (["1_[0-40000:7]"], False),
        (["1_[0-99999:7]"], True),
        (["1_[0-40000:7]", "1_[40003-80000:7]"], True),
    ],
)
def test_an_array_is_not_scattered_over_many_ranges(names: list[str], is_refused: bool) -> None:
    """RELIABILITY 46: half a million ranges cost seconds whenever anything read the record."""
    cluster = with_arrays(100_000, 1)
    context = Context(conf_of(FOUR_NODES), START_US, ROOT)
    decisions = [
        hold_jobs(cluster, HoldJobs(bytes(16), names), context),
        cancel_jobs(cluster, CancelJobs(bytes(16), JobFilter(jobs=names)), context),
    ]
    assert [decision == SCATTERED for decision in decisions] == [is_refused] * 2
    assert [isinstance(decision, Reject) for decision in decisions] == [is_refused] * 2
    # A listing changes nothing.
    assert not isinstance(JobFinder(cluster).several(names), Reject)
