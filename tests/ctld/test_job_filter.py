"""Filters choose jobs as the manual says."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.ctld.job_filter import agrees, find_jobs, job_id_text
from pyslurm_ng.wire.query_messages import JobFilter
from tests.cli.reference_cluster import NOW_US, queue


@pytest.mark.parametrize(
    ("wanted", "expected"),
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
def test_every_filter_must_agree(wanted: JobFilter, expected: int) -> None:
    """Filters of one kind are alternatives, of several kinds conditions."""
    cluster = queue().cluster
    test = agrees(cluster, wanted, NOW_US)
    assert not isinstance(test, Reject)
    assert sum(test(job) for job in cluster.jobs.values()) == expected


def test_unknown_node_is_refused() -> None:
    """The node is named."""
    refusal = agrees(queue().cluster, JobFilter(nodes="n[4-5]"), NOW_US)
    assert isinstance(refusal, Reject) and refusal.detail == "n5"


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
    parts, unknown = find_jobs(queue().cluster, [text])
    assert [job_id_text(job, tasks) for job, tasks in parts] == expected
    assert unknown == ([] if expected else [text])
