"""Remembered replies: exact, per user, for a day."""

from __future__ import annotations

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.replies import MOST_OF_USER, Replies

DAY_US = 86_400_000_000
ID = bytes(range(16))


def test_a_reply_is_found_by_its_user_and_id_only() -> None:
    """The same id of another user is another request."""
    replies = Replies()
    replies.add(1000, ID, 5, b"body")
    assert replies.find(1000, ID) == b"body"
    assert replies.find(1001, ID) is None
    assert (1000, ID) in replies
    assert list(replies) == [(1000, ID, 5, b"body")]


def test_replies_survive_a_checkpoint() -> None:
    """A retry after a restart gets its first answer."""
    cluster = Cluster()
    apply(cluster, ev.RequestAnswered(7, 4294967294, ID, b""))
    assert list(Cluster.from_bytes(cluster.to_bytes()).replies) == [(4294967294, ID, 7, b"")]


def test_replies_are_forgotten_after_a_day_oldest_first() -> None:
    """No command tries again for longer, and memory is finite."""
    cluster = Cluster()
    for number in range(3):
        apply(cluster, ev.RequestAnswered(number * DAY_US // 2, 1, bytes([number]) * 16, b"x"))
    assert [at_us for _, _, at_us, _ in cluster.replies] == [DAY_US // 2, DAY_US]


def test_one_users_replies_have_bounded_room() -> None:
    """Signals to a running job, without end, are each remembered; others' replies stay."""
    replies = Replies()
    replies.add(1, ID, 0, b"first")
    size = MOST_OF_USER // 10
    for number in range(30):
        replies.add(2, bytes([number]) * 16, number, bytes(size))
    kept = [request_id[0] for uid, request_id, _, _ in replies if uid == 2]
    assert kept == list(range(21, 30))
    assert replies.find(1, ID) == b"first"
    replies.forget(100)
    assert len(replies) == 0
    replies.add(2, ID, 101, b"next")
    assert replies.find(2, ID) == b"next"
