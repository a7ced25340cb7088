"""Requests that wait for their answer, and clients that hear that the daemon is at work on them.

A client waits MessageTimeout for an answer. On a loaded machine, or behind ten thousand others, an
answer may take longer. So a daemon says every few seconds that it has the request; the client then
goes on waiting (`wire.client`). Older clients take no notice (RELIABILITY 45).
"""

from __future__ import annotations

from time import monotonic

from pyslurm_ng.wire.call import Call

SAID_EACH_S = 3.0
"""Less than a third of the usual MessageTimeout."""
_TOLD_A_TURN = 1_000


class WaitingCalls:
    """Calls that are not answered yet, in the order in which their clients are to be told.

    Calls that stay open are not among them: their clients wait for as long as it takes.
    """

    __slots__ = ("_are_told", "_since_s")

    def __init__(self, *, are_told: bool) -> None:
        """`are_told`: not so by slurmd, whose clients wait for several daemons, each with a time
        of its own."""
        self._are_told = are_told
        self._since_s: dict[Call, float] = {}

    def enter(self, call: Call) -> None:
        """Note a call that waits from now on."""
        if self._are_told and not call.stays_open:
            self._since_s[call] = monotonic()

    def leave(self, call: Call) -> None:
        """Forget a call that was answered, or that nobody waits for."""
        self._since_s.pop(call, None)

    def tell(self) -> None:
        """Tell the clients that have heard nothing for some seconds."""
        waiting, now_s = self._since_s, monotonic()
        for _ in range(_TOLD_A_TURN):
            call = next(iter(waiting), None)
            if call is None or now_s - waiting[call] < SAID_EACH_S:
                return
            del waiting[call]
            waiting[call] = now_s
            call.say_at_work()
