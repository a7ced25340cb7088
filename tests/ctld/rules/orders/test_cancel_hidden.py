"""scancel tells a user nothing of jobs that are hidden from that user."""

from __future__ import annotations

import dataclasses

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.wire.query_messages import CancelJobs, Cancelled, JobFilter
from tests.cli.reference_cluster import UIDS, caller, queue

OF_ALICE = "29"
DENIED, UNKNOWN = int(Errno.ESLURM_ACCESS_DENIED), int(Errno.ESLURM_INVALID_JOB_ID)


def errors(job_filter: JobFilter, private: tuple[str, ...], *, closed: bool = False) -> list[int]:
    """Return why bob cannot end what a filter chooses."""
    reference = queue()
    if closed:
        settings = {"allowgroups": "root"}
        for name in reference.cluster.partitions:
            reference.client("root").change("UpdatePartition", {"name": name, "settings": settings})
    conf = dataclasses.replace(reference.conf, private_data=private)
    bob = Context(conf, reference.now_us, caller("bob"))
    outcome = cancel_jobs(reference.cluster, CancelJobs(bytes(16), job_filter, 10), bob)
    assert isinstance(outcome, Decision) and isinstance(outcome.reply, Cancelled), outcome
    return [code for _, code, _ in outcome.reply.errors]


@pytest.mark.parametrize("names", [["a"], ["b"]])
@pytest.mark.parametrize("uids", [[UIDS["alice"]], [4]])
def test_filters_are_no_questions_about_a_hidden_job(names: list[str], uids: list[int]) -> None:
    """An id with a filter has the same answer, whether the job agrees or not."""
    job_filter = JobFilter(jobs=[OF_ALICE], names=names, uids=uids)
    assert errors(job_filter, ("jobs",)) == [UNKNOWN]


def test_an_id_alone_is_answered_as_in_slurm() -> None:
    assert errors(JobFilter(jobs=[OF_ALICE]), ("jobs",)) == [DENIED]
    assert errors(JobFilter(jobs=[OF_ALICE], uids=[UIDS["alice"]]), ()) == [DENIED]


def test_jobs_of_private_partitions_are_not_named() -> None:
    """PrivateData=partitions: not even to those who ask for all of a user's jobs."""
    assert DENIED in errors(JobFilter(uids=[UIDS["alice"]]), ("partitions",))
    assert DENIED not in errors(JobFilter(uids=[UIDS["alice"]]), ("partitions",), closed=True)
