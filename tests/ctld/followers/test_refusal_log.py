"""slurmctld.log: which jobs were refused, and who tried what they may not do."""

from __future__ import annotations

from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.followers.refusal_log import RefusalLog
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire.job_messages import SubmitJob
from pyslurm_ng.wire.query_messages import DeletePartition
from tests.world.callers import ALICE, BOB
from tests.world.logs import LineLog
from tests.world.site import Site

REQUEST = DeletePartition(bytes(16), "main")
DENIED = Reject(Errno.ESLURM_USER_ID_MISSING)


def test_denials_are_errors_of_the_log() -> None:
    """As Slurm logs them. Other refusals are between the user and the command."""
    site, lines = Site(), LineLog(mark="error: ")
    log = RefusalLog(lines)
    log.refused(REQUEST, site.context(ALICE), Reject(Errno.ESLURM_INVALID_PARTITION_NAME))
    assert lines.lines == []
    log.refused(REQUEST, site.context(ALICE), DENIED)
    assert lines.lines == [
        f"error: Security violation, DeletePartition RPC from uid={ALICE.uid}",
    ]


def test_a_refused_job_has_a_line() -> None:
    """An administrator who is asked why finds it."""
    site, lines = Site(), LineLog(mark="error: ")
    job = SubmitJob(bytes(16), JobRequest(), b"#!/bin/sh\n")
    refusal = Reject(Errno.ESLURM_INVALID_PARTITION_NAME, "nosuch\nline")
    RefusalLog(lines).refused(job, site.context(ALICE), refusal)
    assert lines.lines == [
        f"submit: User=alice({ALICE.uid}) refused: nosuch?line: Invalid partition name specified",
    ]


def test_a_user_has_one_line_a_second() -> None:
    """A user who asks without pause must not fill the file system of the log."""
    site, lines = Site(), LineLog()
    log, now = RefusalLog(lines), site.context(ALICE)
    for _ in range(100):
        log.refused(REQUEST, now, DENIED)
    log.refused(REQUEST, site.context(BOB), DENIED)
    log.refused(REQUEST, replace(now, now_us=now.now_us + SECOND_US), DENIED)
    assert [line.rpartition("=")[2] for line in lines.lines] == [
        str(uid) for uid in (ALICE.uid, BOB.uid, ALICE.uid)
    ]
