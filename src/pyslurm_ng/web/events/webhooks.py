"""Webhooks: events that a site has sent to addresses of its choice, signed, again until taken.

A hook is a listener of this slurmrestd's own user. What waits for an address is bounded: while it
does not answer, the oldest events are dropped and counted. Where an address leads is the
administrator's choice; redirections are not followed. A receiver is told where events begin, and
where some were missed.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import os
import re
import ssl
import stat
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from pyslurm_ng import __version__
from pyslurm_ng.conf.toml_text import tomllib
from pyslurm_ng.data_parser.records import user_name
from pyslurm_ng.web.events.event_filter import KEYS, BadWord, EventFilter
from pyslurm_ng.web.events.feed import Feed, Line
from pyslurm_ng.web.events.feeds import Feeds
from pyslurm_ng.web.options import BadOptions
from pyslurm_ng.web.requester import LOCAL, Requester
from pyslurm_ng.wire.daemon_link import SlurmError

MOST_HOOKS = 32
MOST_WAITING = 1024
MOST_TRIES = 10
ANSWER_S = 10.0
LEAST_SECRET_BYTES = 16
_OWN_KEYS = ("name", "url", "secret_file")
_MOST_FILE_BYTES = 1 << 20
_MOST_ANSWER_BYTES = 4096
_MOST_HEADS = 8
_PAUSE_S = 1.0
_MOST_PAUSE_S = 300.0
_BEGIN_PAUSE_S = 5.0
_TELL_S = 300.0
"""So often at most the log says that an address takes nothing."""
BEGUN, RESET = "begun", "reset"
"""As in the stream of events: all that follows is sent; events were missed."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})[ \r]")
Say = Callable[[str], None]
Post = Callable[["Webhook", str, bytes, str], Awaitable[str]]


@dataclass(frozen=True)
class Webhook:
    """One address, what it is sent, and the secret that its messages are signed with."""

    name: str
    url: SplitResult
    secret: bytes
    event_filter: EventFilter

    @property
    def path(self) -> str:
        """What is asked for at the address."""
        query = f"?{self.url.query}" if self.url.query else ""
        return f"{self.url.path or '/'}{query}"


def read_webhooks(path: str) -> list[Webhook]:
    """Return the hooks of a file: `[[webhook]]` with name, url, secret_file and words of a filter.

    Raises:
        BadOptions: it cannot be read, or is wrong; the text names the hook and the key.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_FILE_BYTES + 1)
        if len(content) > _MOST_FILE_BYTES:
            raise BadOptions(f"{path}: at most {_MOST_FILE_BYTES} bytes are allowed")
        tables = tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise BadOptions(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadOptions(f"{path}: {error}") from None
    rows = tables.pop("webhook", [])
    if tables or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadOptions(f"{path}: only tables [[webhook]] are allowed")
    if not 0 < len(rows) <= MOST_HOOKS:
        raise BadOptions(f"{path}: 1 to {MOST_HOOKS} tables [[webhook]] are allowed")
    hooks = [_webhook(f"{path}: webhook {at}", row) for at, row in enumerate(rows, 1)]
    names = [hook.name for hook in hooks]
    if len(set(names)) < len(names):
        raise BadOptions(f"{path}: two webhooks have the same name")
    return hooks


def _webhook(where: str, row: dict[str, Any]) -> Webhook:
    words = {key: value for key, value in row.items() if key not in _OWN_KEYS}
    unknown = next((key for key in words if key not in KEYS), None)
    if unknown is not None:
        allowed = ", ".join((*_OWN_KEYS, *KEYS))
        raise BadOptions(f"{where}: {unknown[:64]}: {allowed} are allowed")
    for key in _OWN_KEYS:
        if not isinstance(row.get(key), str) or not row[key] or len(row[key]) > 2048:
            raise BadOptions(f"{where}: {key} is missing, or no text")
    for key, value in words.items():
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise BadOptions(f"{where}: {key}: a list of texts is expected")
    try:
        event_filter = EventFilter.of(words)
    except BadWord as error:
        raise BadOptions(f"{where}: {error}") from None
    return Webhook(
        row["name"], _url(where, row["url"]), _secret(where, row["secret_file"]), event_filter
    )


def _url(where: str, text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        is_good = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_good = False
    if not is_good or not text.isascii() or not text.isprintable() or " " in text:
        raise BadOptions(f"{where}: url: http://HOST[:PORT]/PATH or https:// is expected")
    if url.username is not None or url.fragment:
        raise BadOptions(f"{where}: url: no user, password or fragment is allowed")
    return url


def _secret(where: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            secret = file.read(4097).strip()
    except OSError as error:
        raise BadOptions(f"{where}: secret_file {path}: {error.strerror}") from None
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise BadOptions(f"{where}: secret_file {path}: others may read or change it; use mode 600")
    if not LEAST_SECRET_BYTES <= len(secret) <= 4096:
        raise BadOptions(f"{where}: secret_file {path}: {LEAST_SECRET_BYTES} to 4096 bytes are "
                         "allowed")  # fmt: skip
    return secret


def signature(secret: bytes, stamp: str, body: bytes) -> str:
    """Return the value of X-Pyslurm-Signature: of the time and the body, so that neither is new."""
    return "sha256=" + hmac.digest(secret, stamp.encode() + b"." + body, "sha256").hex()


async def send(hook: Webhook, event: str, body: bytes, delivery: str) -> str:
    """Send one event; return "" if it was taken, else why not, within `ANSWER_S`."""
    stamp = str(int(time.time()))
    lines = [
        f"POST {hook.path} HTTP/1.1", f"Host: {hook.url.netloc}", "Connection: close",
        f"Content-Length: {len(body)}", "Content-Type: application/json",
        f"User-Agent: pyslurm-ng/{__version__}", f"X-Pyslurm-Delivery: {delivery}",
        f"X-Pyslurm-Event: {event}", f"X-Pyslurm-Timestamp: {stamp}",
        f"X-Pyslurm-Signature: {signature(hook.secret, stamp, body)}", "", "",
    ]  # fmt: skip
    try:
        request = "\r\n".join(lines).encode() + body
        # One limit for all: a receiver that sends a byte now and then answers never.
        status = await asyncio.wait_for(_answer(hook.url, request), ANSWER_S)
    except asyncio.TimeoutError:
        return f"timed out: no answer within {ANSWER_S:g} s"
    except EOFError:
        return "the connection ended before the answer"
    except ConnectionError as error:
        return os.strerror(error.errno) if error.errno else "the connection ended"
    except (OSError, ValueError, asyncio.LimitOverrunError) as error:
        return str(error)[:200] or type(error).__name__
    return "" if 200 <= status < 300 else f"HTTP {status}"


async def _answer(url: SplitResult, request: bytes) -> int:
    """Send a request; return the status of its answer."""
    host, is_secure = url.hostname or "", url.scheme == "https"
    context = _context() if is_secure else None
    port = url.port or (443 if is_secure else 80)
    reader, writer = await asyncio.open_connection(
        host, port, ssl=context, limit=_MOST_ANSWER_BYTES
    )
    try:
        writer.write(request)
        await writer.drain()
        for _ in range(_MOST_HEADS):
            head = await reader.readuntil(b"\r\n\r\n")
            known = _STATUS.match(head)
            if known is None:
                raise ValueError("the answer is no HTTP/1.1")
            if known[1][0] != ord("1"):  # 100 and the like come before the answer
                return int(known[1])
        raise ValueError(f"{_MOST_HEADS} times 100 Continue or the like, and no answer")
    finally:
        writer.transport.abort()


@functools.cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()


@dataclass(eq=False)
class Delivery:
    """What waits for one hook, and its numbers.

    Attributes:
        sent, failed, dropped: events that were taken, given up after many tries, had no room.
    """

    hook: Webhook
    cluster: str
    say: Say
    waiting: deque[Line] = field(default_factory=deque)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0
    failed: int = 0
    dropped: int = 0
    _is_away: bool = False  # and the log says so
    _told_s: float = -_TELL_S

    def add(self, line: Line) -> None:
        """Let an event wait; where there is no room, the oldest goes."""
        if len(self.waiting) >= MOST_WAITING:
            self.waiting.popleft()
            self.dropped += 1
            if self.dropped % MOST_WAITING == 1:
                self.say(f"webhook {self.hook.name}: {self.dropped} events were dropped: the "
                         "address takes none")  # fmt: skip
        self.waiting.append(line)
        self.came.set()

    async def run(self, post: Post = send) -> None:
        """Send what waits, one after the other, for ever."""
        while True:
            while not self.waiting:
                self.came.clear()
                await self.came.wait()
            await self._deliver(self.waiting.popleft(), post)

    async def _deliver(self, line: Line, post: Post) -> None:
        body = msgspec.json.encode({"cluster": self.cluster, "kind": line.kind, **line.record})
        delivery = f"{self.cluster}-{line.sequence}-{hmac.digest(b'id', body, 'sha256').hex()[:16]}"
        pause_s, why = _PAUSE_S, ""
        for tried in range(MOST_TRIES):
            if tried:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)
            why = await post(self.hook, line.kind, body, delivery)
            if not why:
                self.sent += 1
                self._came_back()
                return
            self._went_away(why)
        self.failed += 1
        self.say(f"webhook {self.hook.name}: an event was given up after {MOST_TRIES} tries: {why}")

    def _went_away(self, why: str) -> None:
        now_s = time.monotonic()
        if not self._is_away and now_s - self._told_s >= _TELL_S:
            self._is_away, self._told_s = True, now_s
            self.say(f"webhook {self.hook.name}: {why}; its events wait and are sent again")

    def _came_back(self) -> None:
        if self._is_away:
            self._is_away = False
            self.say(f"webhook {self.hook.name}: takes events again")


class Webhooks:
    """All hooks of a slurmrestd, fed by a subscription of its own user."""

    def __init__(self, hooks: list[Webhook], feeds: Feeds, cluster: str, say: Say) -> None:
        self.deliveries = [Delivery(hook, cluster, say) for hook in hooks]
        self._feeds = feeds
        self._say = say
        self._own = Requester(LOCAL, user_name(os.geteuid()), is_known=True)

    async def run(self) -> None:
        """Listen and send until cancelled."""
        senders = [asyncio.create_task(delivery.run()) for delivery in self.deliveries]
        after, was_told = -1, False
        try:
            while True:
                try:
                    join = partial(self._feeds.join, self._own, after)
                    subscription = await asyncio.to_thread(join)
                    feed = self._feeds.enter(subscription, self._own, asyncio.get_running_loop())
                except Exception as error:  # noqa: BLE001 - it is tried again
                    text = error.text if isinstance(error, SlurmError) else str(error)
                    if not was_told:
                        self._say(f"webhooks: events cannot be had: {text}")
                    was_told = True
                    await asyncio.sleep(_BEGIN_PAUSE_S)
                    continue
                was_told = False
                if feed is not None:
                    if after < 0:
                        after = subscription.sequence
                        self._add(BEGUN, after)
                    elif not subscription.is_whole or feed.floor > after:
                        after = self._missed(feed)
                    after = await self._listen(feed, after)
        finally:
            for sender in senders:
                sender.cancel()

    async def _listen(self, feed: Feed, after: int) -> int:
        """Hand on the events of a feed until it ends; return where to go on."""
        group = feed.listen(EventFilter())
        if group is None:
            await asyncio.sleep(_BEGIN_PAUSE_S)
            return after
        resets = feed.resets
        try:
            while True:
                came = group.came
                if feed.resets > resets:
                    resets = feed.resets
                    after = self._missed(feed)
                for line in _behind(feed, after):
                    for delivery in self.deliveries:
                        if delivery.hook.event_filter.agrees(line.kind, line.record):
                            delivery.add(line)
                after = max(after, feed.newest)
                if feed.ended:
                    return after
                await came.wait()
        finally:
            feed.leave(group)

    def _missed(self, feed: Feed) -> int:
        """Say that events were missed; return behind which batch the next ones are."""
        self._say("webhooks: events were missed, slurmctld no longer knew them")
        self._add(RESET, feed.floor)
        return feed.floor

    def _add(self, event: str, sequence: int) -> None:
        """Tell all receivers, whatever else they want to hear."""
        record = {"sequence": sequence, "time": time.time(), "event": event}
        for delivery in self.deliveries:
            delivery.add(Line(sequence, "stream", record, b""))


def _behind(feed: Feed, after: int) -> list[Line]:
    """Return the events of a feed behind a batch, in order."""
    lines: list[Line] = []
    for line in reversed(feed.lines):
        if line.sequence <= after:
            break
        lines.append(line)
    return lines[::-1]
