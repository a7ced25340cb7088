"""Whom the site's scripts are not asked for: their requests are refused at once (ADR 0087)."""

from __future__ import annotations

from collections import deque

from pyslurm_ng.ctld.rules.context import Caller

MOST_FAILURES = 3
"""Requests of one user that may end a process of scripts, or outlast its time, in a minute."""
_MINUTE_S = 60.0
MOST_USERS = 3
"""Users whose requests may fail one after the other until the scripts pass for broken."""
PAUSE_S = 10.0
_NOBODY = -1


class Failures:
    """Counts requests that were a script's undoing: those of a user, and those of all users."""

    def __init__(self) -> None:
        self._of_users: dict[int, deque[float]] = {}
        self._in_a_row: set[int] = set()  # users whose requests failed since the last answer
        self._until_s = 0.0
        self._why = ""

    def answered(self) -> None:
        """Note that the scripts have decided about some request: so they are not broken."""
        if self._in_a_row:
            self._in_a_row.clear()
            self._until_s = 0.0

    def failed(self, caller: Caller, why: str, now_s: float) -> None:
        """Note that a request of a user was not decided."""
        self._forget(now_s)
        if not caller.is_operator:  # operators try whether a script is mended
            failures = self._of_users.setdefault(caller.uid, deque(maxlen=MOST_FAILURES))
            failures.append(now_s)
        self._in_a_row.add(caller.uid)
        if len(self._in_a_row) >= MOST_USERS:
            self.broke(why, now_s)

    def broke(self, why: str, now_s: float) -> None:
        """Refuse everybody's requests for a while, but for one that is tried."""
        self._in_a_row.add(_NOBODY)
        self._why, self._until_s = why, now_s + PAUSE_S

    def refusal(self, caller: Caller, now_s: float) -> str:
        """Return why the scripts are not asked about a user's request; empty if they are."""
        failures = self._of_users.get(caller.uid)
        if failures is None or len(failures) < MOST_FAILURES:
            return ""
        left_s = failures[0] + _MINUTE_S - now_s
        if left_s <= 0:
            return ""
        return (
            f"the script did not get over {MOST_FAILURES} requests of uid {caller.uid} in "
            f"a minute; the next one is tried in {_seconds(left_s)}"
        )

    def refusal_of_all(self, now_s: float) -> str:
        """Return why the scripts are asked about one request at a time; empty if about more."""
        if now_s >= self._until_s:
            return ""
        return f"{self._why}; scripts are tried with one request at a time"

    def _forget(self, now_s: float) -> None:
        """Forget users who had no failure for a minute."""
        old = [uid for uid, times in self._of_users.items() if times[-1] + _MINUTE_S < now_s]
        for uid in old:
            del self._of_users[uid]


def _seconds(left_s: float) -> str:
    return f"{int(left_s) + 1} seconds"
