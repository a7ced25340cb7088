"""FollowEvents: who hears what, from where on, and what becomes of slow listeners."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.open_calls import event_feed
from pyslurm_ng.ctld.open_calls.event_feed import (
    LONGEST_US,
    MOST_FILTER_BYTES,
    MOST_OF_ONE,
    EventFeed,
)
from pyslurm_ng.ctld.queries.event_rows import named_jobs
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.event_messages import EventsBegun, EventsOver, FollowEvents
from pyslurm_ng.wire.query_messages import JobFilter
from tests.cli.reference_cluster import caller, queue
from tests.world.writer_ends import Heard
from tests.world.writer_room import WriterRoom


class Listener(Heard):
    """A command that listens; `unsent_bytes` is what it has not read."""

    unsent_bytes = 0
    body_bytes = 200

    @property
    def events(self) -> list[dict[str, Any]]:
        """All that it was told of, in order."""
        told = [msgspec.msgpack.decode(part) for part in self.parts if isinstance(part, bytes)]
        return [event for message in told for event in (*message["jobs"], *message["nodes"])]

    @property
    def words(self) -> list[str]:
        return [f"{event.get('id') or event['nodes']} {event['what']}" for event in self.events]

    def leave(self) -> None:
        self._gone()


class Scene:
    """The reference cluster's controller with listeners."""

    def __init__(self, private: tuple[str, ...] = ()) -> None:
        reference = queue()
        self.conf = replace(reference.conf, private_data=private)
        self.room = WriterRoom(reference.cluster)
        self.feed = EventFeed(self.room.writer, lambda: self.conf, self.room)
        self.room.writer.observe(self.feed.applied, is_brittle=True)
        self.room.writer.follow(self.feed.durable)

    def listen(self, user: str = "alice", until_us: int = 0, **request: Any) -> Listener:
        """Let a user's command listen, until its token ends."""
        listener = Listener(FollowEvents(**request))
        self.feed.handle(listener, structs.replace(caller(user), until_us=until_us))
        return listener

    def happen(self, *events: ev.AnyEvent) -> None:
        """Record events, and let the disk be done."""
        for event in events:
            self.room.writer.record([event])
        self.room.sync()


def update(job_id: int) -> ev.JobUpdated:
    return ev.JobUpdated(1, job_id, {"time_limit_min": 7})


def cancel(job_id: int) -> ev.JobEnded:
    return ev.JobEnded(2, job_id, int(JobState.CANCELLED))


def test_listeners_hear_what_happens_once_it_is_durable() -> None:
    """A listener must not know of a change that a crash undoes."""
    scene = Scene()
    listener = scene.listen()
    scene.room.writer.record([update(24)])
    scene.room.settle()
    assert listener.events == []
    scene.room.sync()
    assert listener.words == ["24 updated"]
    (event,) = listener.events
    assert (event["user"], event["state"], event["sequence"]) == ("carol", JobState.PENDING, 1)


@pytest.mark.parametrize(
    ("request_fields", "words"),
    [
        ({}, ["24 updated", "24 ended"]),
        ({"filter": JobFilter(jobs=["24"])}, ["24 updated", "24 ended"]),
        ({"filter": JobFilter(jobs=["21"])}, []),
        ({"filter": JobFilter(states=[int(JobState.CANCELLED)])}, ["24 ended"]),
        ({"filter": JobFilter(accounts=["nobody"])}, []),
        ({"with_nodes": True}, ["24 updated", "24 ended", "n1 updated", "n2 updated"]),
        ({"with_jobs": False, "with_nodes": True, "nodes": "n[2-3]"}, ["n2 updated"]),
    ],
)
def test_filters(request_fields: dict[str, Any], words: list[str]) -> None:
    """A job counts as it is after the change."""
    scene = Scene()
    listener = scene.listen(**request_fields)
    scene.happen(update(24), cancel(24), ev.NodeUpdated(3, (0, 1), {"comment": "x"}))
    assert sorted(listener.words) == sorted(words)


def test_what_was_missed_is_told_from_a_batch_on() -> None:
    """Who was cut off loses nothing, as long as the events are still kept."""
    scene = Scene()
    scene.listen()
    scene.happen(update(24))
    scene.happen(update(21))
    scene.happen(cancel(24))
    late = scene.listen(after=1)
    assert late.parts[0] == EventsBegun(1, True, "all", "demo")
    assert late.words == ["21 updated", "24 ended"]
    scene.happen(update(21))
    assert late.words[2:] == ["21 updated"]


def test_what_is_no_longer_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then lists have to be read again."""
    monkeypatch.setattr(event_feed, "MOST_KEPT", 2)
    scene = Scene()
    assert scene.listen(after=77).parts[0].is_whole is False
    for _ in range(4):
        scene.happen(update(24))
    assert [scene.listen(after=at).parts[0].is_whole for at in (0, 1, 2, 3, 4)] == [
        False, False, True, True, True,
    ]  # fmt: skip


def test_nothing_is_kept_while_nobody_listens() -> None:
    """Events cost the controller nothing then, and a listener costs nothing while none happen."""
    scene = Scene()
    scene.happen(update(24))
    listener = scene.listen()
    scene.happen(update(24))
    listener.leave()
    scene.happen(update(24))
    assert len(scene.listen(after=1).events) == 2
    for other in list(scene.feed._groups.values()):
        for call in list(other.listeners):
            call.leave()  # type: ignore[attr-defined]
    scene.room.sleep(event_feed.KEPT_S + 1)
    scene.happen(update(24))
    assert scene.listen(after=1).parts[0].is_whole is False


def test_private_jobs_are_not_told_to_others() -> None:
    """PrivateData holds for events as for lists; so do rights that change."""
    scene = Scene(private=("jobs", "nodes"))
    own, other, root = (scene.listen(user, with_nodes=True) for user in ("carol", "bob", "root"))
    scene.happen(update(24), ev.NodeUpdated(3, (0,), {"comment": "x"}))
    assert (own.words, other.words) == (["24 updated"], [])
    assert root.words == ["24 updated", "n1 updated"]
    assert own.parts[0].audience != other.parts[0].audience


def test_all_ask_again_where_rights_may_have_changed() -> None:
    """What is behind the change is told by the new rights only."""
    scene = Scene()
    listener = scene.listen()
    partition = scene.room.cluster.partitions["main"]
    scene.happen(update(24), ev.PartitionUpdated(3, partition), update(21))
    assert listener.words == ["24 updated"]
    assert listener.last == EventsOver("changed", 0)
    assert scene.listen(after=0).words == ["24 updated", "21 updated"]


def test_a_slow_listener_is_dropped_with_a_word() -> None:
    """What a listener does not read is not kept for it without end."""
    scene = Scene()
    slow, quick = scene.listen(), scene.listen()
    slow.unsent_bytes = event_feed.MOST_UNSENT_BYTES + 1
    scene.happen(update(24))
    scene.happen(update(24))
    assert slow.last == EventsOver("slow", 1)
    assert len(slow.events) == 1 and len(quick.events) == 2


def test_an_old_listener_asks_again() -> None:
    """Its token may have expired; it misses nothing by that."""
    scene = Scene()
    listener = scene.listen()
    scene.room.at_us += LONGEST_US + 1
    scene.happen(update(24))
    assert listener.last == EventsOver("old", 0) and listener.events == []
    assert scene.listen(after=0).words == ["24 updated"]


def test_no_listener_outlives_its_token() -> None:
    """The first event behind the token's end is not told."""
    scene = Scene()
    listener = scene.listen(until_us=scene.room.at_us + 100)
    scene.happen(update(24))
    scene.room.at_us += 200
    scene.happen(update(24))
    assert listener.last == EventsOver("old", 1) and len(listener.events) == 1


def test_listeners_are_bounded() -> None:
    """One user takes no more than a share, and each place is given back."""
    scene = Scene()
    listeners = [scene.listen() for _ in range(MOST_OF_ONE)]
    assert scene.listen().last[0] == Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF
    assert scene.listen("bob").last is None
    listeners[0].leave()
    assert scene.listen().last is None


def test_what_filters_take_is_bounded() -> None:
    """64 listeners of one user with 40,000 words each took 270 MiB of slurmctld.

    RELIABILITY 46.
    """
    scene = Scene()

    def listen(user: str, size: int, **request: Any) -> Listener:
        listener = Listener(FollowEvents(**request))
        listener.body_bytes = size
        scene.feed.handle(listener, caller(user))
        return listener

    first = listen("alice", 200_000)
    assert first.last is None
    assert listen("alice", 200_000).last[0] == Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF
    assert listen("alice", 200).last is None and listen("bob", 200_000).last is None
    first.leave()
    assert listen("alice", 200_000).last is None
    assert listen("alice", 200, nodes="n[1-4]").last is None
    scene.feed._filter_bytes[1] = MOST_FILTER_BYTES
    assert listen("carol", 200).last[0] == Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF


def test_what_is_judged_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of 3,000 jobs of a user with 64 filters kept all others waiting for half a second.

    RELIABILITY 46.
    """
    monkeypatch.setattr(event_feed, "LOOKS_AT_ONCE", 4)
    monkeypatch.setattr(event_feed, "GROUPS_OF_ONE", 2)
    scene = Scene()
    jobs = [24, 25, 26]
    first = scene.listen(filter=JobFilter(jobs=["24", "25", "26"]))
    second = scene.listen(filter=JobFilter(jobs=["24", "25"]))
    assert scene.listen(filter=JobFilter(jobs=["26"])).last[0] == (
        Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF
    )
    room = scene.room
    for job in jobs * 2:
        room.writer.record([update(job)])
        room.settle()  # each is a batch
    room.writer.on_durable(room.journal.appended)
    heard = len(first.events)
    assert 0 < heard < 6
    late = scene.listen("bob")  # it begins where the others are, and misses nothing
    last = first.events[-1]["sequence"]
    again = scene.listen(filter=JobFilter(jobs=["24", "25", "26"]), after=last)
    room.settle()
    assert len(first.events) == 6 and len(second.events) == 4
    assert first.events[heard:] == late.events == again.events
    sequences = [event["sequence"] for event in first.events]
    assert sequences == sorted(sequences)


@pytest.mark.parametrize(
    ("request_fields", "code"),
    [
        ({"filter": JobFilter(jobs=["nonsense"])}, Errno.ESLURM_INVALID_JOB_ID),
        ({"nodes": "n[9"}, Errno.ESLURM_INVALID_NODE_NAME),
        ({"nodes": "elsewhere"}, Errno.ESLURM_INVALID_NODE_NAME),
    ],
)
def test_bad_filters_are_refused(request_fields: dict[str, Any], code: int) -> None:
    """With Slurm's number."""
    listener = Scene().listen(**request_fields)
    assert listener.last[0] == code


@pytest.mark.parametrize(
    ("jobs", "is_refused"),
    [
        ([f"30_[{','.join(map(str, range(0, 8_000, 2)))}]"], False),
        ([f"30_[{','.join(map(str, range(n, n + 10_000, 2)))}]" for n in (0, 50_000)], True),
        ([f"30_[{','.join(['0-9:2'] * 51)}]", f"31_[{','.join(['0-9:2'] * 50)}]"], True),
    ],
)
def test_filters_of_many_tasks_are_refused(jobs: list[str], is_refused: bool) -> None:
    """Forty listeners with 90,000 ranges each took 400 MiB, and each event of a task 0.3 s."""
    listener = Scene().listen(filter=JobFilter(jobs=jobs))
    assert (listener.last is not None) == is_refused
    if is_refused:
        assert listener.last[0] == Errno.ESLURM_NOT_SUPPORTED


def test_tasks_that_a_filter_names() -> None:
    """Single ones, ranges that touch each other, and steps."""
    test = named_jobs(["30_[7,1-3,4-5,10-20:5]", "30_30", "31", "40_1"])
    assert not isinstance(test, Reject)

    def heard(array_job_id: int, task_id: int) -> bool:
        job = copy(queue().cluster.jobs[24])
        job.job_id, job.array_job_id, job.array_task_id = 99, array_job_id, task_id
        return test(job)

    tasks = [task for task in range(40) if heard(30, task)]
    assert tasks == [1, 2, 3, 4, 5, 7, 10, 15, 20, 30]
    assert heard(31, 9) and heard(40, 1) and not heard(40, 2)


def test_events_do_not_hold_texts_of_jobs() -> None:
    """2,500 changes of a comment by one user took 780 MiB of slurmctld while somebody listened."""
    scene = Scene()
    scene.listen()
    scene.happen(ev.JobUpdated(1, 24, {"comment": "x" * 9_999}))
    (kept,) = scene.feed._kept
    assert kept.job is not None and kept.job is not scene.room.writer.cluster.jobs[24]
    size = len(msgspec.msgpack.encode([kept.told, kept.job]))
    assert len(scene.room.writer.cluster.jobs[24].comment) == 9_999 and size < 2_500


def test_a_listener_with_the_same_words_costs_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand listeners take a thousand writes, and each event is judged and packed once."""
    scene = Scene()
    listeners = [scene.listen("root") for _ in range(100)]
    packed: list[Any] = []
    usual = event_feed.encode
    monkeypatch.setattr(event_feed, "encode", lambda told: packed.append(told) or usual(told))
    scene.happen(update(24))
    assert len(packed) == 1
    assert all(listener.words == ["24 updated"] for listener in listeners)
