"""Every record that legal messages make fits into a message to slurmdbd.

RELIABILITY 50.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.ctld.followers.accounting_records import MOST_BYTES, as_sent
from pyslurm_ng.ctld.rules.submission.submit import digest_of, submit_job
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.ctld.writer import RECORD_BYTES, Writer
from pyslurm_ng.journal.segment import Frame
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire import table
from pyslurm_ng.wire.dbd_messages import MAX_BATCH_BYTES, JournalBatch
from pyslurm_ng.wire.job_messages import (
    MAX_ENVIRONMENT_BYTES,
    MAX_OPTION_BYTES,
    MAX_SCRIPT_BYTES,
    MOST_COMPONENTS,
    SubmitJob,
)
from pyslurm_ng.wire.query_messages import UpdateJob
from tests.model.clusters import submit
from tests.world.callers import ALICE
from tests.world.site import Site


class Kept:
    """A journal that keeps its records; all are durable at once."""

    space_low = False
    is_stalled = False
    is_busy = False

    def __init__(self) -> None:
        self.records: list[bytes] = []

    @property
    def appended(self) -> int:
        return len(self.records)

    def append(self, payload: bytes) -> int:
        self.records.append(payload)
        return len(self.records)


class OptionState:
    """What is answered."""

    def __init__(self) -> None:
        self.replies: list[Struct | bytes] = []

    def reply(self, answer: Struct | bytes) -> None:
        self.replies.append(answer)

    def error(self, code: int, text: str) -> None:
        raise AssertionError((code, text))


def writer_of(scene: Site) -> tuple[Writer, Kept, list[Callable[[], None]]]:
    journal, soon = Kept(), []  # type: ignore[var-annotated]

    def bug(why: str, error: BaseException) -> None:
        raise AssertionError(why) from error

    return Writer(scene.cluster, journal, call_soon=soon.append, on_bug=bug), journal, soon


def test_a_change_of_many_jobs_is_several_records() -> None:
    """One short message changes hundreds of jobs; each record of a change holds a whole request."""
    scene = Site()
    long = JobRequest(argv=("a" * 60_000,))
    jobs = [submit(scene.cluster, long, uid=ALICE.uid) for _ in range(300)]
    writer, journal, soon = writer_of(scene)
    message = UpdateJob(b"r" * 16, {"comment": "c" * 100}, [str(job) for job in jobs])
    said = OptionState()
    writer.change(update_job, message, scene.context(ALICE), said)
    for callback in soon:
        callback()
    assert said.replies == []  # not before the last of them is durable
    writer.on_durable(journal.appended - 1)
    assert said.replies == []
    writer.on_durable(journal.appended)
    assert len(said.replies) == 1
    assert max(map(len, journal.records)) < 2 * RECORD_BYTES
    events = [event for record in journal.records for event in decode_batch(record)]
    assert len(events) == 301
    assert isinstance(events[-1], ev.RequestAnswered)
    assert {scene.cluster.jobs[job].request.comment for job in jobs} == {"c" * 100}


def test_decisions_of_one_turn_do_not_add_up_without_end() -> None:
    """Sixteen scripts of 3 MiB in one turn of the loop were one record of 48 MiB."""
    scene = Site()
    writer, journal, soon = writer_of(scene)
    for number in range(16):
        content = bytes([number]) * (3 << 20)
        writer.record([ev.ScriptStored(scene.now_us, digest_of(content), content)])
    for callback in soon:
        callback()
    assert len(journal.records) == 8
    assert max(map(len, journal.records)) < RECORD_BYTES + (4 << 20)


def test_the_largest_submission_is_sent_to_slurmdbd_in_one_message() -> None:
    """All that a message may hold: script, environment, and options of 128 components."""
    scene = Site("SchedulerParameters=max_script_size=67108864")
    each = MAX_OPTION_BYTES // MOST_COMPONENTS - 2000
    words = ("w" * (each // 4),) * 3
    requests = [JobRequest(argv=words, submit_line="s" * (each // 4)) for _ in range(128)]
    message = SubmitJob(
        bytes(16),
        requests[0],
        b"s" * MAX_SCRIPT_BYTES,
        b"e" * MAX_ENVIRONMENT_BYTES,
        requests[1:],
    )
    assert table.decode_request("SubmitJob", table.encode(message)) == message
    outcome = submit_job(scene.cluster, message, scene.context(ALICE))
    assert not isinstance(outcome, Reject)
    texts = (message.script, message.environment)
    stored = [ev.ScriptStored(scene.now_us, digest_of(text), text) for text in texts]
    payload = encode_batch([*stored, *outcome.events])
    sent = as_sent(Frame(1, 1, 0, payload))
    assert len(sent.payload) <= MOST_BYTES
    kept = decode_batch(sent.payload)
    assert sum(isinstance(event, ev.JobSubmitted) for event in kept) == MOST_COMPONENTS
    batch = table.encode(JournalBatch("c", "j", 0, [sent]))
    assert len(batch) < MAX_BATCH_BYTES
    assert table.decode_request("JournalBatch", batch) is not None
