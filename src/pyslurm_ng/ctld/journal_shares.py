"""How fast each user may make the journal grow.

What slurmdbd has not stored yet stays in the journal. A user that changes a long comment again and
again fills the state disk faster than accounting empties it, and then no user can submit. So each
user has a bucket of bytes. A day's work fits; beyond it the user's commands are slowed down: they
wait a second and ask again, and nothing is lost. Administrators and operators have no such limit,
and requests that end something are never kept waiting.

Source: a virtual clock as in the generic cell rate algorithm (ITU-T I.371), as `wire.rate_limit`.
"""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.wire.messages import row

AT_ONCE_BYTES = 256 << 20
"""Of a user that has rested: twenty thousand jobs with a usual environment."""
BYTES_PER_S = 2 << 20
_ENDS = frozenset(("CancelJobs", "CompleteJob", "CompleteStep"))


class JournalShares:
    """Counts what each user's requests add to the journal.

    Args:
        monotonic_s: a clock.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._rested_s: dict[int, float] = {}  # when a user's bucket will be full again

    def refusal(self, kind: str, caller: Caller) -> str:
        """Return why a request has to wait, "" if it may be decided now."""
        if caller.is_operator or kind in _ENDS or row(kind).rate not in ("change", "submit"):
            return ""
        left_s = self._rested_s.get(caller.uid, 0.0) - self._monotonic_s()
        if left_s <= AT_ONCE_BYTES / BYTES_PER_S:
            return ""
        return f"uid {caller.uid} has more than {BYTES_PER_S >> 20} MiB of changes a second"

    def wrote(self, caller: Caller, size: int) -> None:
        """Count what a decision has added, in bytes."""
        if caller.is_operator:
            return
        now_s = self._monotonic_s()
        since_s = max(now_s, self._rested_s.pop(caller.uid, now_s))
        self._rested_s[caller.uid] = since_s + size / BYTES_PER_S
        # The first have been quiet longest: users that have rested need not be known.
        first = next(iter(self._rested_s))
        if self._rested_s[first] <= now_s:
            del self._rested_s[first]
