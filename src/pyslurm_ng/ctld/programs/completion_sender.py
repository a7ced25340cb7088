"""Sends documents to a web server, in order, from a thread of its own: jobcomp/elasticsearch."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections import deque
from typing import Protocol

WAITING = 10_000
"""Documents that may wait; the oldest are dropped, because a server may be down for days."""
WAITING_BYTES = 64 << 20
PAUSE_S = 30.0
"""Time until a document that was not taken is sent again."""
LIMIT_S = 10.0


class Log(Protocol):
    """Where failures are told; from any thread."""

    def info(self, text: str) -> None:
        """Every day's news."""

    def error(self, text: str) -> None:
        """Something is wrong."""


class CompletionSender:
    """Documents wait here until the server has taken them; those left at the end are lost.

    Attributes:
        dropped: how many were not sent because too many waited, or because the server does not
            take them whatever happens.
    """

    def __init__(self, log: Log, pause_s: float = PAUSE_S) -> None:
        self.dropped = 0
        self._log = log
        self._pause_s = pause_s
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._bytes = 0
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._last_error = ""

    def post(self, url: str, document: bytes) -> None:
        """Send a document some time soon; the caller never waits."""
        with self._change:
            self._waiting.append((url, document))
            self._bytes += len(document)
            while len(self._waiting) > WAITING or self._bytes > WAITING_BYTES:
                self._bytes -= len(self._waiting.popleft()[1])
                self.dropped += 1
            self._change.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="documents", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Send nothing more."""
        with self._change:
            self._is_stopping = True
            self._change.notify()

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._is_stopping or self._waiting)
                if self._is_stopping:
                    return
                url, document = self._waiting[0]
            failure, is_final = send(url, document)
            with self._change:
                if not failure or is_final:
                    # What was first may have been dropped meanwhile.
                    if self._waiting and self._waiting[0][1] is document:
                        self._waiting.popleft()
                        self._bytes -= len(document)
                    self.dropped += bool(failure)
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
        return f"{url}: HTTP {error.code} {error.reason}", error.code == 400
    except (OSError, ValueError) as error:
        return f"{url}: {getattr(error, 'reason', None) or error}", False
