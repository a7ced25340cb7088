"""Pages of a long list: for the limit of requests per user, a list is one request.

A command that prints 200,000 jobs asks for fifty pages. If each counted, `rl_enable` would make it
wait for most of them. So a page is free if it goes on where the page before it ended, on the same
connection, and if it is a whole one: with one request that counts a user gets at most one walk
through the list, in as few steps as there can be.
"""

from __future__ import annotations

import msgspec

from pyslurm_ng.base.numbers import MOST_OF_A_PAGE
from pyslurm_ng.wire import table
from pyslurm_ng.wire.query_messages import Records, ShowJobs
from pyslurm_ng.wire.table import MessageError

_MOST_BYTES = 64 << 10
"""A longer request counts: it would have to be decoded before its turn has come."""


class ListPages:
    """Where the list that a connection was answered last goes on."""

    __slots__ = ("_next_job",)

    def __init__(self) -> None:
        self._next_job = 0

    def answered(self, answer: msgspec.Struct) -> None:
        """Remember where the next page begins."""
        if isinstance(answer, Records):
            self._next_job = answer.next_job

    def goes_on(self, kind: str, body: bytes) -> bool:
        """Return whether a request is for the next page; only the first such request is."""
        if not self._next_job or kind != "ShowJobs" or len(body) > _MOST_BYTES:
            return False
        try:
            request = table.decode_request(kind, body)
        except MessageError:
            return False
        next_job = self._next_job
        if (
            not isinstance(request, ShowJobs)
            or request.after_job != next_job
            or request.most != MOST_OF_A_PAGE
        ):
            return False
        self._next_job = 0
        return True
