"""Slurm's limit of requests per user: a bucket of tokens for each uid (SlurmctldParameters=rl_*).

A request takes a token. Every period some are put back, up to the bucket's size. Who finds none
is told to back off (`BACKOFF`); its commands wait a second and ask again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class RateLimitWords:
    """The words of SlurmctldParameters with their defaults; periods are seconds."""

    rl_bucket_size: int = 30
    rl_log_freq: int = 0
    rl_refill_period: int = 1
    rl_refill_rate: int = 2
    rl_table_size: int = 8_192


def rate_limit_words(slurmctld_parameters: Iterable[str]) -> RateLimitWords | None:
    """Return the limit that SlurmctldParameters ask for; None without `rl_enable`.

    The words have been checked when slurm.conf was.
    """
    given = dict(word.strip().lower().partition("=")[::2] for word in slurmctld_parameters)
    if "rl_enable" not in given:
        return None
    known = {field.name for field in fields(RateLimitWords)}
    return RateLimitWords(**{name: int(given[name]) for name in known & given.keys()})


class _Bucket:
    __slots__ = ("filled_period", "logged_s", "tokens", "unlogged")

    def __init__(self, tokens: int, period: int) -> None:
        self.tokens = tokens
        self.filled_period = period
        self.logged_s = -1e18
        self.unlogged = 0


class RateLimit:
    """The buckets of one controller.

    Args:
        words: from `rate_limit_words`; None limits nobody.
        monotonic_s: a clock.
        say: logs a line about a user who was told to back off.

    Attributes:
        refused: requests told to back off, by uid, since the last `reset`; of `rl_table_size`
            users at most.
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
        self._buckets: OrderedDict[int, _Bucket] = OrderedDict()

    def may_ask(self, uid: int, kind: str) -> bool:
        """Take a token; return whether there was one."""
        words = self.words
        if words is None:
            return True
        now_s = self._monotonic_s()
        period = int(now_s // words.rl_refill_period)
        bucket = self._buckets.get(uid)
        if bucket is None:
            if len(self._buckets) >= words.rl_table_size:
                # Whoever has not asked for longest: his bucket is the likeliest to be full again.
                self._buckets.popitem(last=False)
            bucket = self._buckets[uid] = _Bucket(words.rl_bucket_size, period)
        else:
            self._buckets.move_to_end(uid)
            gained = (period - bucket.filled_period) * words.rl_refill_rate
            bucket.tokens = min(words.rl_bucket_size, bucket.tokens + gained)
            bucket.filled_period = period
        if bucket.tokens > 0:
            bucket.tokens -= 1
            return True
        if uid in self.refused or len(self.refused) < words.rl_table_size:
            self.refused[uid] = self.refused.get(uid, 0) + 1
        if now_s - bucket.logged_s < words.rl_log_freq:
            bucket.unlogged += 1
        else:
            self._log(uid, kind, bucket, now_s)
        return False

    def _log(self, uid: int, kind: str, bucket: _Bucket, now_s: float) -> None:
        more = f" ({bucket.unlogged} more since the last line)" if bucket.unlogged else ""
        bucket.logged_s, bucket.unlogged = now_s, 0
        self._say(f"RPC rate limit exceeded by uid {uid} with {kind}, telling to back off{more}")

    def reset(self) -> None:
        """Begin counting anew; `sdiag --reset`."""
        self.refused.clear()
