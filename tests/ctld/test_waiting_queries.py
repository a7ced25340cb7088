"""What only looks waits for a slow disk a tenth of a second at most (RELIABILITY 19)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pyslurm_ng.ctld.waiting_queries import STEP_S
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.appliers.control import MOST_IDS_SEEN
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.batches import decode_batch
from pyslurm_ng.model.cluster import Cluster, free_job_id
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire.messages import Pong
from tests.model.clusters import START_US
from tests.world.writer_ends import Heard
from tests.world.writer_room import WriterRoom


class Room(WriterRoom):
    """A writer, a disk that is done when the test says so, and a clock of 50 ms steps."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        super().__init__(cluster, queries_hurry=True)
        self.start_image = self.cluster.to_bytes()

    def call_later(self, delay_s: float, function: Callable[[], None], /) -> None:
        assert delay_s == STEP_S
        super().call_later(delay_s, function)

    def step(self) -> None:
        """Let 50 ms pass."""
        self.settle()
        self.sleep(STEP_S)

    def submit(self) -> int:
        """Record a submission and return its id."""
        job_id = free_job_id(self.cluster)
        self.writer.record(
            [
                ev.JobSubmitted(
                    time_us=START_US, job_id=job_id, request=JobRequest(), uid=1, gid=1,
                    user_name="u", group_name="g", account="a", qos="normal", assoc_id=1,
                    partition="main", time_limit_min=60, script_hash="", eligible_us=START_US,
                )
            ]
        )  # fmt: skip
        return job_id

    def look(self) -> Heard:
        """Ask for the ids of all jobs."""
        heard = Heard()
        self.writer.look(lambda: Pong("h", "p", ",".join(map(str, self.cluster.jobs)), 0), heard)
        return heard

    def crash(self) -> Room:
        """Begin again with what was durable."""
        cluster = Cluster.from_bytes(self.start_image)
        for payload in self.journal.payloads[: self.writer.durable]:
            apply_all(cluster, decode_batch(payload))
        epoch = cluster.epoch + 1
        apply(cluster, ev.EpochStarted(START_US, epoch, "h", "b"))
        return Room(cluster)


def ids_seen(heard: Heard) -> set[int]:
    return {int(text) for answer in heard.told for text in answer.version.split(",") if text}


def slow_room() -> Room:
    """Return a room whose disk is slow and known to be: ids are foreseen."""
    room = Room()
    room.submit()
    room.look()
    room.step()
    room.sync()
    return room


def test_a_query_waits_two_steps_at_most() -> None:
    """squeue is answered within 100 ms, however slow the disk is."""
    room = slow_room()
    room.submit()
    heard = room.look()
    room.step()
    assert not heard.told
    room.step()
    assert ids_seen(heard) == {1, 2}
    room.sync()
    assert len(heard.told) == 1


def test_a_good_disk_answers_before_that() -> None:
    """Nothing changes there: answers show what is durable, and no further event is recorded."""
    room = Room()
    room.submit()
    heard = room.look()
    assert not heard.told
    room.sync()
    assert ids_seen(heard) == {1}
    room.step()
    room.sync()
    assert room.cluster.ids_seen_below == 0
    assert len(room.journal.payloads) == 1


def test_acknowledgements_wait_as_long_as_it_takes() -> None:
    """Only queries are answered early; promises wait for the disk."""
    room = slow_room()
    room.submit()
    promised = Heard()
    room.writer.when_durable(lambda: promised.reply("accepted"))
    for _ in range(50):
        room.step()
    assert not promised.told
    room.sync()
    assert promised.told == ["accepted"]


def test_a_query_waits_its_own_time() -> None:
    """One that comes a moment before the others lose patience has its own two steps."""
    room = slow_room()
    room.submit()
    first = room.look()
    room.step()
    second = room.look()
    room.step()
    assert (len(first.told), len(second.told)) == (1, 0)
    room.step()
    assert len(second.told) == 1


def test_no_id_is_shown_before_that_may_be_seen_is_durable() -> None:
    """The first answer on a slow disk waits for one record, as its ids must not come back."""
    room = Room()
    room.submit()
    heard = room.look()
    for _ in range(20):
        room.step()
    assert not heard.told
    room.sync(1)  # the submission, not yet the record about ids
    assert ids_seen(heard) == {1}
    room.submit()
    heard = room.look()
    for _ in range(20):
        room.step()
    assert not heard.told
    room.sync(2)
    room.step()
    assert ids_seen(heard) == {1, 2}


def test_an_id_that_was_seen_is_never_given_again() -> None:
    """Invariant I2: `scancel 2`, typed after the crash, must not hit another user's job."""
    room = slow_room()
    room.submit()
    heard = room.look()
    room.step()
    room.step()
    assert 2 in ids_seen(heard)
    after = room.crash()
    assert 2 not in after.cluster.jobs
    assert after.submit() > 2
    assert after.cluster.next_job_id <= 2 + MOST_IDS_SEEN + 1


def test_an_end_in_good_order_leaves_no_gap() -> None:
    """Ids go on where they were, as Slurm's do."""
    room = slow_room()
    room.submit()
    room.look()
    room.step()
    room.step()
    room.writer.close()
    room.writer.on_durable(room.journal.appended)
    after = room.crash()
    assert after.submit() == 3


@pytest.mark.parametrize("seed", range(12))
def test_ids_are_never_used_again_after_any_crash(seed: int) -> None:
    """An id that was seen or promised belongs to one job.

    Submissions, queries, syncs and crashes are random.
    """
    chance = random.Random(seed)
    room = Room()
    seen: set[int] = set()
    heard: list[Heard] = []
    for _ in range(120):
        action = chance.random()
        if action < 0.5:
            for _ in range(600 if chance.random() < 0.03 else chance.randint(1, 10)):
                job_id = room.submit()
                assert job_id not in seen
        elif action < 0.7:
            heard.append(room.look())
        elif action < 0.85:
            room.step()
        elif action < 0.98:
            room.settle()
            room.sync(chance.randint(room.writer.durable, room.journal.appended))
        else:
            room = room.crash()
            heard.clear()
        for caller in [caller for caller in heard if caller.told]:
            heard.remove(caller)
            seen |= ids_seen(caller)
    assert seen
