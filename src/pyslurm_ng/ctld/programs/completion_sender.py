"""Sends documents to a web server, in order, from a thread of its own: jobcomp/elasticsearch."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

WAITING = 10_000
"""Documents that may wait; the oldest are dropped, because a server may be down for days."""
WAITING_BYTES = 64 << 20
PAUSE_S = 30.0
"""Time until a document that was not taken is sent again."""
LIMIT_S = 10.0
_SAID_BYTES = 300
Lost: TypeAlias = Callable[[str], object]


class Log(Protocol):
    """Where failures are told; from any thread."""

    def info(self, text: str) -> None:
        """Every day's news."""

    def error(self, text: str) -> None:
        """Something is wrong."""


class _Document(NamedTuple):
    url: str
    body: bytes
    about: str


class CompletionSender:
    """Documents wait here until the server has taken them; those left at the end are lost."""

    def __init__(self, log: Log, lost: Lost, pause_s: float = PAUSE_S) -> None:
        """Have none yet.

        Args:
            lost: is told of each document that is not sent because too many wait, because the
                server does not take it whatever happens, or because the end came first. From any
                thread.
        """
        self._log = log
        self._lost = lost
        self._pause_s = pause_s
        self._waiting: deque[_Document] = deque()
        self._bytes = 0
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._last_error = ""

    def post(self, url: str, body: bytes, about: str) -> None:
        """Send a document about a job some time soon; the caller never waits."""
        with self._change:
            self._waiting.append(_Document(url, body, about))
            self._bytes += len(body)
            while len(self._waiting) > WAITING or self._bytes > WAITING_BYTES:
                oldest = self._waiting.popleft()
                self._bytes -= len(oldest.body)
                self._lost(f"{oldest.about}: not sent, because too many documents wait")
            self._change.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="documents", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Send nothing more."""
        with self._change:
            self._is_stopping = True
            for document in self._waiting:
                self._lost(f"{document.about}: perhaps not sent before the end")
            self._waiting.clear()
            self._change.notify()

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._is_stopping or self._waiting)
                if self._is_stopping:
                    return
                document = self._waiting[0]
            failure, is_final = send(document.url, document.body)
            with self._change:
                # What was first may have been dropped meanwhile.
                is_there = bool(self._waiting) and self._waiting[0] is document
                if is_there and (is_final or not failure):
                    self._waiting.popleft()
                    self._bytes -= len(document.body)
                    if failure:
                        self._lost(f"{document.about}: not taken: {failure}")
                if not is_final:
                    self._say(failure, self._change)

    def _say(self, failure: str, change: threading.Condition) -> None:
        """Log a failure once, and wait a while after each."""
        if failure and failure != self._last_error:
            self._log.error(f"JobCompLoc: {failure}; {len(self._waiting)} documents wait")
        elif not failure and self._last_error:
            self._log.info("JobCompLoc: documents are taken again")
        self._last_error = failure
        if failure:
            change.wait_for(lambda: self._is_stopping, self._pause_s)


def send(url: str, document: bytes) -> tuple[str, bool]:
    """Send one document; return what went wrong, or "", and whether it will always go wrong."""
    request = urllib.request.Request(
        url, data=document, headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return ("", False) if 200 <= answer.status < 300 else (f"HTTP {answer.status}", False)
    except urllib.error.HTTPError as error:
        said = " ".join(error.read(_SAID_BYTES).decode("utf-8", "replace").split())
        return f"{url}: HTTP {error.code} {error.reason} {said}".rstrip(), error.code == 400
    except (OSError, ValueError) as error:
        return f"{url}: {getattr(error, 'reason', None) or error}", False
