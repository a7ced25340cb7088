"""Links that log one visitor in, once. The owner of a token makes a link; the first visit uses it.

`pyslurm-ng up` and `status` print such a link, so that a token need not be copied into a browser.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyslurm_ng.web.refusal import TOO_MANY, Refusal

LINK_S = 600.0
MOST_LINKS = 256
MOST_OF_ONE = 16
_CODE_BYTES = 24


@dataclass(frozen=True)
class _Link:
    token: str
    share: bytes
    until: float


class LoginLinks:
    """Codes of links that have not been opened; they are gone with this process."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._links: dict[str, _Link] = {}

    def make(self, token: str, share: bytes) -> str:
        """Return a code for a token that a daemon believes; a user's oldest make room.

        Raises:
            Refusal: others have all links.
        """
        self._forget_old()
        own = [code for code, link in self._links.items() if link.share == share]
        if len(own) >= MOST_OF_ONE:
            del self._links[own[0]]
        elif len(self._links) >= MOST_LINKS:
            raise Refusal(TOO_MANY, "too many links wait to be opened", source="slurmrestd")
        code = secrets.token_urlsafe(_CODE_BYTES)
        self._links[code] = _Link(token, share, self._now() + LINK_S)
        return code

    def user_of(self, code: str) -> str:
        """Return whom a code logs in; "" if there is none."""
        self._forget_old()
        link = self._links.get(code)
        return "" if link is None else link.share.decode("utf-8", "replace")

    def take(self, code: str) -> str:
        """Return the token of a code, once; "" if there is none."""
        self._forget_old()
        link = self._links.pop(code, None)
        return "" if link is None else link.token

    def _forget_old(self) -> None:
        now = self._now()
        for code in [code for code, link in self._links.items() if link.until < now]:
            del self._links[code]
