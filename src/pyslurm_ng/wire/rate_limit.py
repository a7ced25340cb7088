"""Slurm's limit of requests per user: a bucket of tokens for each uid (SlurmctldParameters=rl_*).

Every user may make `rl_bucket_size` requests at once, and `rl_refill_rate` more in each
`rl_refill_period`. Requests beyond that are told to back off (`BACKOFF`); the command waits a
second and asks again.

Source: a virtual clock as in the generic cell rate algorithm (ITU-T I.371), in whole tokens.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class RateLimitWords:
    """The words of SlurmctldParameters with their defaults; times are in seconds."""

    rl_bucket_size: int = 30
    rl_log_freq: int = 0
    rl_refill_period: int = 1
    rl_refill_rate: int = 2
    rl_table_size: int = 8_192


def rate_limit_words(slurmctld_parameters: Iterable[str]) -> RateLimitWords | None:
    """Return the limit that SlurmctldParameters ask for; None without `rl_enable`.

    The words have been checked when slurm.conf was.
    """
    words = dict(word.strip().lower().partition("=")[::2] for word in slurmctld_parameters)
    if "rl_enable" not in words:
        return None
    known = {field.name for field in fields(RateLimitWords)}
    return RateLimitWords(**{name: int(words[name]) for name in known & words.keys()})


class RateLimit:
    """Counts the requests of each user against one stream of tokens.

    The stream has issued the same number of tokens to every user at any time. A user's mark is the
    newest token of the stream that the user has spent. It is never further behind the stream than
    a bucket holds, so one number is all that is kept of a user.

    Args:
        words: from `rate_limit_words`; None: there is no limit.
        monotonic_s: a clock.
        say: logs a line about a user that was told to back off.

    Attributes:
        refused: requests told to back off, by uid, since the last `reset`.
    """

    def __init__(
        self,
        words: RateLimitWords | None,
        monotonic_s: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self.words = words
        self.refused: dict[int, int] = {}
        self._monotonic_s = monotonic_s
        self._say = say
        self._marks: OrderedDict[int, int] = OrderedDict()
        self._silent_until_s = 0.0
        self._untold = 0

    def may_ask(self, uid: int, kind: str) -> bool:
        """Return whether a request may be answered now, and count it."""
        words = self.words
        if words is None:
            return True
        now_s = self._monotonic_s()
        issued = int(now_s / words.rl_refill_period) * words.rl_refill_rate
        full = issued - words.rl_bucket_size
        mark = max(full, self._marks.pop(uid, full))
        if mark < issued:
            self._keep_mark(uid, mark + 1, words.rl_table_size)
            return True
        self._keep_mark(uid, mark, words.rl_table_size)
        if uid in self.refused or len(self.refused) < words.rl_table_size:
            self.refused[uid] = self.refused.get(uid, 0) + 1
        self._tell(uid, kind, now_s)
        return False

    def _keep_mark(self, uid: int, mark: int, most: int) -> None:
        """Keep the mark of the user that asked last; the mark that is unused longest makes room."""
        if len(self._marks) >= most:
            self._marks.popitem(last=False)
        self._marks[uid] = mark

    def _tell(self, uid: int, kind: str, now_s: float) -> None:
        if self.words is None or now_s < self._silent_until_s:
            self._untold += 1
            return
        more = f" ({self._untold} more since the last line)" if self._untold else ""
        self._silent_until_s, self._untold = now_s + self.words.rl_log_freq, 0
        self._say(f"uid {uid} is over its limit of requests (rl_enable) with {kind}{more}")

    def reset(self) -> None:
        """Set all counts to zero; `sdiag --reset`."""
        self.refused.clear()
