"""A list that is asked for page by page is one request of `rl_enable`, and no way around it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyslurm_ng.base.numbers import MOST_OF_A_PAGE
from pyslurm_ng.wire import table
from pyslurm_ng.wire.client import Client
from pyslurm_ng.wire.query_messages import Records, ShowJobs
from pyslurm_ng.wire.rate_limit import RateLimit, RateLimitWords
from pyslurm_ng.wire.stream import Call
from tests.wire.wire_room import Room, handle

PAGES = 6
WHOLE = MOST_OF_A_PAGE


def answer_with_page(call: Call) -> None:
    """Answer as a controller with PAGES pages of jobs."""
    if not isinstance(call.request, ShowJobs):
        handle(call)
        return
    after = call.request.after_job + call.request.most
    is_last = after > PAGES * WHOLE or not call.request.most
    call.prepared(Records(0, [], b"", next_job=0 if is_last else after))()


@pytest.fixture
def limited(room: Room, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Room, Client]]:
    """Give a user who may ask twice, ever, and what the user's command is told."""
    import pyslurm_ng.wire.client as client_module

    def wait() -> None:
        raise TimeoutError

    monkeypatch.setattr(client_module, "_back_off", wait)
    room.server.handler = answer_with_page
    room.server.roles.privileged = frozenset((600,))
    words = RateLimitWords(rl_bucket_size=2, rl_refill_rate=0)
    room.server.rate_limit = RateLimit(words, lambda: 0.0, lambda _: None)
    client = room.client()
    yield room, client
    client.close()


def page(client: Client, after: int, most: int = WHOLE, **more: object) -> int:
    reply = client.call("ShowJobs", {"after_job": after, "most": most, **more})
    return int(reply["next_job"])


def test_a_list_counts_once(limited: tuple[Room, Client]) -> None:
    """squeue --json of a long queue is not made to wait between its pages."""
    _, client = limited
    after = page(client, 0, most=300)
    walked = 0
    while after:
        after = page(client, after)
        walked += 1
    assert walked == PAGES
    assert page(client, 0)


@pytest.mark.parametrize(
    ("after", "most"),
    [(2 * WHOLE, WHOLE), (0, WHOLE), (WHOLE, 1), (WHOLE, 0), (WHOLE - 1, WHOLE)],
    ids=["beyond", "from the beginning", "small", "of all", "before"],
)
def test_anything_but_the_next_whole_page_counts(
    limited: tuple[Room, Client], after: int, most: int
) -> None:
    """Small steps, or the same page again and again, would be requests without a limit."""
    _, client = limited
    assert page(client, 0) == WHOLE
    page(client, after, most)
    with pytest.raises(TimeoutError):
        page(client, 0)


def test_a_page_is_free_once_and_on_its_connection(limited: tuple[Room, Client]) -> None:
    """Another connection, and another request for the same page, pay."""
    room, client = limited
    assert page(client, 0) == WHOLE
    assert page(client, WHOLE) == 2 * WHOLE
    page(client, WHOLE)
    other = room.client()
    with pytest.raises(TimeoutError):
        page(other, 2 * WHOLE)
    other.close()


def test_a_request_that_cannot_be_decoded_counts(limited: tuple[Room, Client]) -> None:
    """It is refused as ever, and its user has one request less."""
    room, client = limited
    page(client, 0)
    connection = next(iter(room.server.connections))
    assert not connection.pages.goes_on("ShowJobs", b"\xc1")
    assert not connection.pages.goes_on("ShowJobs", b"\x81\xa4most\xcd\x10\x01")
    assert not connection.pages.goes_on("Ping", b"\x80")
    body = table.encode(ShowJobs(after_job=WHOLE, most=WHOLE))
    assert not connection.pages.goes_on("ShowJobs", body + bytes(64 << 10))
    assert connection.pages.goes_on("ShowJobs", body)
    assert not connection.pages.goes_on("ShowJobs", body)
