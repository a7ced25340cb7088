"""GET /events: what happens to jobs and nodes, as server-sent events."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pyslurm_ng.web.app import Service
from pyslurm_ng.web.bodies import MOST_QUERY_BYTES
from pyslurm_ng.web.events.event_filter import MOST_NODES_OF_LISTENER, BadWord, EventFilter
from pyslurm_ng.web.events.feed import Dropped, Feed, Group
from pyslurm_ng.web.events.feeds import Feeds
from pyslurm_ng.web.page.session import visitor_of
from pyslurm_ng.web.refusal import BAD_REQUEST, TOO_MANY, Refusal, refusal_of
from pyslurm_ng.web.requester import Requester
from pyslurm_ng.web.rooms import Holding, holding_of
from pyslurm_ng.wire.daemon_link import SlurmError

HEARTBEAT_S = 25.0
"""So often a listener to whom nothing happens is sent an empty line: proxies end silent ones."""
LONGEST_S = 3600.0
"""After this time a listener has to show its token again."""
MOST_WORDS = 65536
WORDS_OF_ONE = 8192
"""Of the filters of listeners: each is kept, a name of a node in some hundred bytes."""
_MOST_SEQUENCE = 2**62
_TRIES = 3
_RETRY_MS = 1000
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


class Listeners:
    """The listeners of this slurmrestd; of one requester at most half of all.

    Args:
        most: how many there may be.
    """

    def __init__(self, service: Service, feeds: Feeds, most: int) -> None:
        self._service = service
        self._feeds = feeds
        self._most = most
        self._of: Counter[bytes] = Counter()
        self._words: Counter[bytes] = Counter()  # of their filters

    async def serve(self, request: Request) -> Response:
        """Answer with events until one side ends it."""
        service = self._service
        requester = (await visitor_of(service, request)).requester
        event_filter = _wanted(request)
        after = _after(request)
        if self._of.total() >= self._most or self._of[requester.share] >= max(1, self._most // 2):
            raise Refusal(TOO_MANY, "too many listen to events", source="slurmrestd")
        own, in_all = self._words[requester.share], self._words.total()
        more = event_filter.word_count
        if own + more > WORDS_OF_ONE or in_all + more > MOST_WORDS:
            text = "filters of those who listen have too many words together"
            raise Refusal(TOO_MANY, text, source="slurmrestd")
        holding = holding_of(request)
        feed, sequence = await self._join(holding, requester, after)
        holding.leave()  # listeners have bounds of their own
        lines = self._lines(requester, feed, event_filter, after, sequence)
        return StreamingResponse(lines, 200, _HEADERS, "text/event-stream")

    async def _join(self, holding: Holding, requester: Requester, after: int) -> tuple[Feed, int]:
        """Return the feed that a requester may hear, and where it is now.

        Raises:
            Refusal: slurmctld refuses, or is away.
        """
        loop = asyncio.get_running_loop()
        join = partial(self._feeds.join, requester, after)
        for _ in range(_TRIES):
            try:
                subscription = await holding.in_thread(join)
            except SlurmError as error:
                raise refusal_of(error, "Unable to listen to events", "slurmrestd") from None
            feed = self._feeds.enter(subscription, requester, loop)
            if feed is not None:
                return feed, subscription.sequence
        raise Refusal(TOO_MANY, "events begin anew: ask again", source="slurmrestd")

    async def _lines(
        self, requester: Requester, feed: Feed, event_filter: EventFilter, after: int, sequence: int
    ) -> AsyncIterator[bytes]:
        """Yield what a listener is sent."""
        group = feed.listen(event_filter)
        if group is None:
            yield _event("again", sequence, why="too many different filters")
            return
        self._of[requester.share] += 1
        self._words[requester.share] += event_filter.word_count
        try:
            until_s = requester.until_s
            async for piece in _pieces(feed, group, after, sequence, until_s):
                yield piece
        finally:
            feed.leave(group)
            self._of[requester.share] -= 1
            self._words[requester.share] -= event_filter.word_count
            if not self._of[requester.share]:
                del self._of[requester.share], self._words[requester.share]


async def _pieces(
    feed: Feed, group: Group, after: int, sequence: int, token_until_s: float
) -> AsyncIterator[bytes]:
    number, resets = group.end, feed.resets
    is_whole = after < 0 or feed.floor <= after <= max(feed.newest, sequence)
    first = after if is_whole and after >= 0 else sequence
    missed = feed.missed(first, group.event_filter) if is_whole else b""
    # Spread, so that all who are cut off at the same time do not come back at the same time.
    retry_ms = _RETRY_MS + secrets.randbelow(4 * _RETRY_MS)
    yield b"retry: %d\n\n" % retry_ms + _event("begun" if is_whole else "reset", first)
    if missed:
        yield missed
    until_s = time.monotonic() + min(LONGEST_S, token_until_s - time.time())
    while True:
        left_s = until_s - time.monotonic()
        if feed.resets != resets:
            number, resets = group.end, feed.resets
            yield _event("reset", feed.newest)
        if left_s <= 0:  # also one who always finds something to read
            yield _event("again", feed.newest, why="show your token again")
            return
        try:
            piece = group.piece(number)
        except Dropped:
            yield _event("dropped", feed.newest, why="events were not read in time")
            return
        if piece:
            number += 1
            yield piece
        elif feed.ended:
            yield _event("again", feed.newest, why=feed.ended)
            return
        else:
            try:
                await asyncio.wait_for(group.came.wait(), min(HEARTBEAT_S, left_s))
            except asyncio.TimeoutError:
                yield b":\n\n"


def _event(name: str, sequence: int, **more: str) -> bytes:
    """Return an event about the stream itself."""
    data = msgspec.json.encode({"sequence": sequence, **more})
    # Who was dropped goes on with what it has read last.
    own = b"" if name == "dropped" else b"id: %d\n" % sequence
    return b"%sevent: %s\ndata: %s\n\n" % (own, name.encode(), data)


def _wanted(request: Request) -> EventFilter:
    if len(request.scope["query_string"]) > MOST_QUERY_BYTES:
        raise Refusal(414, f"a query has at most {MOST_QUERY_BYTES} bytes", source="slurmrestd")
    words: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        if name != "after":
            words.setdefault(name, []).append(value)
    try:
        return EventFilter.of(words, MOST_NODES_OF_LISTENER)
    except BadWord as error:
        raise Refusal(BAD_REQUEST, str(error), source="#/query/") from None


def _after(request: Request) -> int:
    """Return the batch behind which a listener goes on; -1 for now."""
    text = request.headers.get("last-event-id", "") or request.query_params.get("after", "")
    if not text:
        return -1
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= _MOST_SEQUENCE):
        raise Refusal(
            BAD_REQUEST, "after (Last-Event-ID): the id of an event is expected", source="#/query/"
        )
    return int(text)


def routes(service: Service, feeds: Feeds, most_connections: int) -> list[Route]:
    """Return the route of events; listeners take three quarters of all connections at most."""
    listeners = Listeners(service, feeds, max(1, most_connections * 3 // 4))

    async def events(request: Request) -> Response:
        return await listeners.serve(request)

    return [Route("/events", events, methods=["GET"])]
