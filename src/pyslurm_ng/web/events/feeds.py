"""Subscriptions at slurmctld, one for each audience, carried by a requester's own credential.

slurmrestd has no rights of its own. A listener's credential opens a subscription, by which
slurmctld says what it may hear. If there is a feed of the same audience already, the subscription
is let go and the listener joins that feed; otherwise it becomes the feed. So ten thousand listeners
to whom all is open take one subscription, and each was let in by slurmctld.
"""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from pyslurm_ng.base.error_numbers import is_unreachable
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SHOW_ALL
from pyslurm_ng.web.daemons import DaemonClient, Daemons
from pyslurm_ng.web.events.feed import Feed
from pyslurm_ng.web.refusal import TOO_MANY, Refusal
from pyslurm_ng.web.requester import Requester
from pyslurm_ng.wire.daemon_link import SlurmError

MOST_FEEDS = 128
ANSWER_S = 10.0
_LOOK_MS = 1000
_UNHEARD_S = 60.0
"""How long a feed goes on that nobody listens to: who was cut off comes back soon."""
_PAUSE_S = 1.0
_MOST_PAUSE_S = 15.0
_REQUEST = {"with_jobs": True, "with_nodes": True, "flags": SHOW_ALL}


class Subscription:
    """One FollowEvents at slurmctld that has begun; its methods block."""

    def __init__(self, client: DaemonClient, after: int) -> None:
        """Subscribe.

        Raises:
            SlurmError: it is refused.
        """
        self._client = client
        self._sequence = client.begin("FollowEvents", {**_REQUEST, "after": after})
        begun = self._next()
        self.audience: str = begun["audience"]
        self.sequence: int = begun["sequence"]
        self.is_whole: bool = begun["is_whole"]
        self.is_closed = False

    def _next(self) -> dict[str, Any]:
        while True:
            sequence, reply, _ = self._client.receive(ANSWER_S)
            if sequence == self._sequence:
                return reply

    def wait(self) -> dict[str, Any] | None:
        """Return the next message, or None when none has come for a second.

        Raises:
            SlurmError: the subscription has ended.
        """
        descriptor = self._client.fileno()
        if descriptor >= 0:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(_LOOK_MS):
                return None
        return self._next()

    def close(self) -> None:
        """Let go."""
        self.is_closed = True
        self._client.close()


class Feeds:
    """The feeds of this slurmrestd, by audience."""

    def __init__(self, daemons: Daemons, faults: Faults) -> None:
        self._daemons = daemons
        self._faults = faults
        self._feeds: dict[str, Feed] = {}
        self.is_closed = False

    def join(self, requester: Requester, after: int) -> Subscription:
        """Ask slurmctld what a requester may hear; blocks.

        The subscription is closed already where there is a feed that its listener can join.

        Raises:
            SlurmError: it is refused.
        """
        subscription = self.subscribe(requester, after)
        if self._living(subscription.audience) is not None:
            subscription.close()
        return subscription

    def enter(
        self, subscription: Subscription, requester: Requester, loop: asyncio.AbstractEventLoop
    ) -> Feed | None:
        """Return the feed for a subscription, made if need be; on the loop.

        None comes back where the feed that it was closed for has ended: join again.

        Raises:
            Refusal: there are too many feeds.
        """
        feed = self._living(subscription.audience)
        if feed is not None:
            subscription.close()
            return feed
        if subscription.is_closed:
            return None
        if len(self._feeds) >= MOST_FEEDS:
            subscription.close()
            raise Refusal(TOO_MANY, "too many users listen to events", source="slurmrestd")
        first = subscription.sequence
        feed = self._feeds[subscription.audience] = Feed(subscription.audience, first, first)
        carrier = _Carrier(feed, subscription, self, requester, loop)
        threading.Thread(target=carrier.run, name="events", daemon=True).start()
        return feed

    def _living(self, audience: str) -> Feed | None:
        feed = self._feeds.get(audience)
        return feed if feed is not None and not feed.ended else None

    def subscribe(self, requester: Requester, after: int) -> Subscription:
        """Return a new subscription; blocks.

        Raises:
            SlurmError: it is refused, or slurmctld is away.
        """
        client = self._daemons.client(requester)
        try:
            return Subscription(client, after)
        except BaseException:
            client.close()
            raise

    def forget(self, feed: Feed, why: str) -> None:
        """End a feed; on the loop."""
        feed.end(why)
        if self._feeds.get(feed.audience) is feed:
            del self._feeds[feed.audience]

    def close(self) -> None:
        """Let all listeners go: slurmrestd ends; on the loop."""
        self.is_closed = True
        for feed in list(self._feeds.values()):
            self.forget(feed, "slurmrestd ends")

    def fault(self, error: BaseException) -> None:
        """Count what cost a feed."""
        self._faults.note("events", "a feed of events has ended", error)

    @property
    def counts(self) -> tuple[int, int]:
        """How many feeds there are, and how many listen to them."""
        feeds = list(self._feeds.values())
        return len(feeds), sum(feed.listeners for feed in feeds)


class _Carrier:
    """A thread that reads one subscription and hands its events to the loop."""

    def __init__(
        self,
        feed: Feed,
        subscription: Subscription,
        feeds: Feeds,
        requester: Requester,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._feed = feed
        self._subscription: Subscription | None = subscription
        self._feeds = feeds
        self._requester = requester
        self._loop = loop
        self._heard_s = time.monotonic()
        self._after = subscription.sequence

    def run(self) -> None:
        """Read until nobody listens, or slurmctld refuses."""
        why = "again"
        try:
            while self._is_wanted():
                self._step()
        except SlurmError:
            pass  # the credential has expired, or its user may not listen any more
        except Exception as error:  # noqa: BLE001 - it costs this feed only
            self._feeds.fault(error)
        finally:
            if self._subscription is not None:
                self._subscription.close()
            self._on_loop(self._feeds.forget, self._feed, why)

    def _is_wanted(self) -> bool:
        if self._feeds.is_closed:
            return False
        now = time.monotonic()
        if self._feed.listeners:
            self._heard_s = now
        return now - self._heard_s < _UNHEARD_S

    def _step(self) -> None:
        """Take the next message; come back where the connection was lost.

        Raises:
            SlurmError: slurmctld refuses.
        """
        try:
            assert self._subscription is not None
            told = self._subscription.wait()
        except SlurmError as error:
            if not is_unreachable(error.code):
                raise
            self._come_back()
            return
        if told is None:
            return
        if "why" not in told:
            self._after = max(self._after, told["sequence"])
            self._on_loop(self._feed.tell, told)
        elif told["why"] == "changed":
            raise SlurmError(0, "rights may have changed: each listener asks again")
        else:
            self._after = told["sequence"]
            self._come_back()

    def _come_back(self) -> None:
        """Subscribe again from where this was; wait for slurmctld where it is away."""
        assert self._subscription is not None
        self._subscription.close()
        pause_s = _PAUSE_S
        while self._is_wanted():
            try:
                self._subscription = self._feeds.subscribe(self._requester, self._after)
            except SlurmError as error:
                if not is_unreachable(error.code):
                    raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)
                continue
            if self._subscription.audience != self._feed.audience:
                raise SlurmError(0, "its user may hear something else now")
            if not self._subscription.is_whole:
                self._after = self._subscription.sequence
                self._on_loop(self._feed.begin_again, self._after)
            return

    def _on_loop(self, function: Callable[..., None], *values: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *values)
        except RuntimeError:
            return  # the loop has ended
