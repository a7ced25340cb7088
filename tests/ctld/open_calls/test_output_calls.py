"""ReadOutput: who may read what a job has written, and which file that is."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.open_calls import output_calls
from pyslurm_ng.ctld.open_calls.output_calls import OutputCalls, find_written, path_of
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.open_requests import RequestFailed
from pyslurm_ng.wire.output_messages import JobFilePart, OutputPart, ReadJobFile, ReadOutput
from tests.cli.reference_cluster import caller, queue
from tests.world.writer_ends import Heard
from tests.world.writer_room import WriterRoom


class Node:
    """Node daemons, which answer when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Struct, Any]] = []

    def request(self, peer: str, message: Struct, deadline_s: float, done: Any) -> None:
        self.asked.append((peer, message, done))


class Signs:
    """Signs nothing: the credential is the job's id."""

    def of_job(self, cluster: Any, job: Any) -> bytes:
        return str(job.job_id).encode()


class Scene:
    def __init__(self) -> None:
        self.room = WriterRoom(queue().cluster)
        self.node = Node()
        self.calls = OutputCalls(self.room.writer, Signs(), self.node)  # type: ignore[arg-type]

    def ask(self, job: str, user: str, **fields: Any) -> Heard:
        call = Heard(ReadOutput(job, **fields))
        self.calls.handle(call, caller(user))
        self.room.sync()
        return call


def test_the_node_of_the_script_is_asked() -> None:
    """It reads as the job's user; the answer says which file that is."""
    scene = Scene()
    call = scene.ask("21", "alice", offset=5, length=10)
    ((peer, question, done),) = scene.node.asked
    assert peer == "n3" and isinstance(question, ReadJobFile)
    assert (question.credential, question.offset, question.length) == (b"21", 5, 10)
    done(JobFilePart(100, 5, b"0123456789"))
    assert call.last == OutputPart(question.path, "n3", 100, 5, b"0123456789", False)


def test_what_the_node_says_is_passed_on() -> None:
    """With the file's name: users must know which one is not there."""
    scene = Scene()
    call = scene.ask("21", "root")
    scene.node.asked[0][2](RequestFailed(2, "No such file or directory"))
    code, text = call.last
    assert code == 2 and text.endswith(" on n3: No such file or directory")
    assert scene.calls._open.total() == 0


@pytest.mark.parametrize(
    ("job", "user", "code"),
    [
        ("9999", "root", Errno.ESLURM_INVALID_JOB_ID),
        ("nonsense", "root", Errno.ESLURM_INVALID_JOB_ID),
        ("21", "bob", Errno.ESLURM_ACCESS_DENIED),
        ("24", "carol", Errno.ESLURM_JOB_PENDING),
    ],
)
def test_who_may_not(job: str, user: str, code: int) -> None:
    """Output is its owner's; operators may not read it either."""
    job_or_reject = find_written(queue().cluster, ReadOutput(job), caller(user))
    assert isinstance(job_or_reject, Reject) and job_or_reject.code == code


def test_files_that_are_read_at_a_time_are_bounded() -> None:
    """A node that does not answer must not let requests gather."""
    scene = Scene()
    for _ in range(output_calls.MOST_OF_ONE):
        assert scene.ask("21", "alice").last is None
    assert scene.ask("21", "alice").last[0] == Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF
    scene.node.asked[0][2](JobFilePart(0, 0, b""))
    assert scene.ask("21", "alice").last is None


def test_names_are_those_that_the_script_has() -> None:
    """Patterns as on the node; without --error both streams share a file."""
    job = queue().cluster.jobs[21]
    assert job.state == JobState.RUNNING
    output, errors = path_of(job, "out", "n3"), path_of(job, "err", "n3")
    assert output == errors and output.startswith("/") and "%" not in output
