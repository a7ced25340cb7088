"""The one law: nothing leaves before the batch it depends on is durable."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.batches import decode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.messages import Done, Pong, encode
from pyslurm_ng.wire.query_messages import Cancelled
from tests.dbd.accounting_room import configured, submitted
from tests.world.writer_ends import Heard
from tests.world.writer_room import WriterRoom

CONF = parse_slurm_conf("ClusterName=t\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\n")
CALLER = Caller(uid=1000, gid=1000, user_name="alice")
CONTEXT = Context(CONF, 5, CALLER)


class Request(msgspec.Struct):
    """Any changing request."""

    name: str
    request_id: bytes = bytes(range(16))


class Room(WriterRoom):
    """A writer whose bugs are kept."""

    def __init__(self) -> None:
        super().__init__(Cluster())
        self.bugs: list[str] = []

    def on_bug(self, text: str, error: BaseException) -> None:
        self.bugs.append(text)

    def ask(self, name: str, request_id: bytes = bytes(range(16))) -> Heard:
        heard = Heard()
        self.writer.change(create_partition, Request(name, request_id), CONTEXT, heard)
        return heard


def create_partition(cluster: Cluster, request: Any, context: Context) -> Decision | Reject:
    """A rule as small as a rule can be: licences stand for any state."""
    if request.name in cluster.licenses:
        return Reject(Errno.ESLURM_INVALID_LICENSES)
    licenses = (*cluster.licenses.items(), (request.name, 1))
    return Decision([ev.LicensesUpdated(time_us=context.now_us, licenses=licenses)])


@pytest.fixture
def room() -> Room:
    return Room()


def test_an_answer_waits_for_the_disk(room: Room) -> None:
    """The event is applied and journaled, but the answer waits until the batch is durable."""
    heard = room.ask("a")
    assert "a" in room.writer.cluster.licenses
    assert (heard.told, room.journal.payloads) == ([], [])
    room.turn()
    assert (heard.told, len(room.journal.payloads)) == ([], 1)
    room.writer.on_durable(1)
    assert heard.told == [Done()]


def test_the_end_of_a_waiting_job_says_its_priority(room: Room) -> None:
    """Accounting has it from there: the job has no start that would say it."""
    room.writer.priority_of = lambda job: 4711
    room.writer.record([configured(5), submitted(5, 1)])
    room.writer.record([ev.JobEnded(6, 1, 4)])
    room.sync()
    ends = [
        event
        for payload in room.journal.payloads
        for event in decode_batch(payload)
        if isinstance(event, ev.JobEnded)
    ]
    assert [(event.job_id, event.priority) for event in ends] == [(1, 4711)]


def test_a_job_without_a_priority_ends_all_the_same(room: Room) -> None:
    """What is raised about one job costs no more than that."""
    spared: list[str] = []
    room.writer.spared = lambda what, error: spared.append(what)
    room.writer.priority_of = lambda job: 1 // 0
    room.writer.record([configured(5), submitted(5, 1), ev.JobEnded(6, 1, 4)])
    assert (room.bugs, spared, room.cluster.jobs[1].state) == ([], ["a priority"], 4)


def test_what_a_request_adds_to_the_journal_is_counted_for_its_user(room: Room) -> None:
    """Not what was refused, and not what is answered a second time."""
    counted: list[tuple[Caller, int]] = []
    room.writer.wrote = lambda caller, size: counted.append((caller, size))
    room.ask("a")
    room.ask("a")
    room.ask("a", b"b" * 16)
    assert [caller for caller, _ in counted] == [CALLER]
    assert counted[0][1] > 0


def test_one_turn_is_one_batch(room: Room) -> None:
    """Requests of one turn share a record, and replaying it gives the same state."""
    for number in range(5):
        room.ask(f"l{number}", bytes([number]) * 16)
    room.turn()
    assert len(room.journal.payloads) == 1
    other = Cluster()
    for event in decode_batch(room.journal.payloads[0]):
        apply(other, event)
    assert other.digest() == room.writer.cluster.digest()


def test_a_query_waits_for_what_it_saw(room: Room) -> None:
    """Rows are read when asked for and sent when durable. Later batches do not matter."""
    room.ask("a")
    heard = Heard()
    room.writer.look(lambda: Pong("n", "primary", "v", len(room.writer.cluster.licenses)), heard)
    room.turn()
    room.ask("b", b"b" * 16)
    room.turn()
    assert heard.told == []
    room.writer.on_durable(1)
    assert [pong.now_us for pong in heard.told] == [1]


def test_an_idle_query_is_answered_at_once(room: Room) -> None:
    """Nothing is waited for when everything seen is durable."""
    heard = Heard()
    room.writer.look(lambda: Done(), heard)
    assert heard.told == [Done()]


def test_a_refusal_waits_for_its_reason(room: Room) -> None:
    """That the name is taken is news, too."""
    room.ask("a")
    heard = room.ask("a", b"other request id")
    assert heard.told == []
    room.turn()
    room.writer.on_durable(1)
    assert heard.told == [(2048, "Invalid license specification")]


def test_answers_leave_in_order_and_only_when_due(room: Room) -> None:
    """A sync releases only answers that waited for it."""
    heard = []
    for number in range(3):
        heard.append(room.ask(f"l{number}", bytes([number]) * 16))
        room.turn()
    room.writer.on_durable(2)
    assert [len(caller.told) for caller in heard] == [1, 1, 0]
    assert room.writer.waiting_count == 1


def test_a_repeated_request_gets_its_first_answer(room: Room) -> None:
    """A command that lost its answer asks again with the same id: one effect, one reply."""
    first = room.ask("a")
    again = room.ask("a")
    assert again.told == []
    room.turn()
    room.writer.on_durable(1)
    assert first.told == [Done()]
    assert again.told == [encode(Done())]
    assert list(room.writer.cluster.licenses) == ["a"]


def test_of_many_errors_only_the_first_are_remembered(room: Room) -> None:
    """A signal to one job and 4 MiB of ids that are none were 4 MiB of journal and memory."""
    errors = [(f"{number}{'x' * 60_000}", 2017, "Invalid job id specified") for number in range(50)]
    outcome = Decision([ev.LicensesUpdated(5, (("a", 1),))], Cancelled(1, errors, ["b" * 5000]))
    first, again = Heard(), Heard()
    request = Request("a", b"r" * 16)
    for heard in (first, again):
        room.writer.change(lambda *_: outcome, request, CONTEXT, heard)
        room.turn()
        room.writer.on_durable(room.journal.appended)
    assert first.last.errors == errors
    remembered = msgspec.msgpack.decode(again.last, type=Cancelled)
    assert (remembered.count, remembered.done) == (1, [])
    assert remembered.errors == [(typed[:64], code, text) for typed, code, text in errors[:16]]
    assert max(map(len, room.journal.payloads)) < 4096


def test_the_first_answer_survives_a_restart(room: Room) -> None:
    """The reply is in the journal with the effect."""
    room.ask("a")
    room.turn()
    restarted = Room()
    for event in decode_batch(room.journal.payloads[0]):
        apply(restarted.writer.cluster, event)
    heard = restarted.ask("a")
    assert heard.told == [encode(Done())]


def test_another_user_with_the_same_request_id_is_another_request(room: Room) -> None:
    """Ids belong to users, so no user sees another's reply."""
    room.ask("a")
    heard = Heard()
    stranger = Context(CONF, 6, Caller(uid=2000, gid=2000, user_name="bob"))
    room.writer.change(create_partition, Request("a"), stranger, heard)
    room.turn()
    room.writer.on_durable(1)
    assert heard.told == [(2048, "Invalid license specification")]


def test_a_refused_request_leaves_nothing(room: Room) -> None:
    """No event, no remembered reply, no batch."""
    room.ask("a")
    room.turn()
    room.ask("a", b"b" * 16)
    room.turn()
    assert len(room.journal.payloads) == 1
    assert len(room.writer.cluster.replies) == 1


def test_an_event_that_does_not_fit_stops_the_controller(room: Room) -> None:
    """A broken invariant is a bug: memory is ahead of the disk, so nothing may leave."""
    with pytest.raises(AssertionError):
        room.writer.record([ev.EpochStarted(time_us=1, epoch=0, host="h")])
    assert "EpochStarted" in room.bugs[0]
    room.turn()
    assert room.journal.payloads == []


def test_observers_see_events_at_once_and_followers_durability(room: Room) -> None:
    """Views are made new before the next query of the same turn; followers after the disk.

    What was answered is no view's business: each submission has such an event.
    """
    seen: list[int] = []
    durable: list[int] = []
    room.writer.observe(lambda events: seen.append(len(events)))
    room.writer.follow(durable.append)
    room.ask("a")
    assert (seen, durable) == ([1], [])
    room.turn()
    room.writer.on_durable(1)
    room.writer.on_durable(1)
    assert durable == [1]


def test_a_nearly_full_disk_is_a_reason_to_refuse(room: Room) -> None:
    """Submissions are refused with the cause before the reserve is touched."""
    assert room.writer.refusal_now() is None
    room.journal.space_low = True
    refusal = room.writer.refusal_now()
    assert refusal is not None
    assert "No space left" in refusal.detail


def test_after_the_end_nothing_is_decided_or_promised(room: Room) -> None:
    """What came before still gets its answer; what comes later gets none and asks elsewhere."""
    before = room.ask("a")
    room.writer.close()
    late = room.ask("b", b"b" * 16)
    room.turn()
    room.writer.on_durable(1)
    assert before.told == [Done()]
    assert late.told == []
    assert list(room.writer.cluster.licenses) == ["a"]
