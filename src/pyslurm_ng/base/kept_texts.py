"""Caches of what follows from users' texts: most are short, and a few long ones are enough.

A cache that is bounded only by its number of entries holds as many of the longest texts that a
message may have, and what was made of them, long after the jobs that had them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

SHORT = 128
"""Characters of a text that counts as short."""
_FEWER = 64
"""One entry in so many may be of a longer text."""

Returned = TypeVar("Returned")


def text_cache(most: int) -> Callable[[Callable[..., Returned]], Callable[..., Returned]]:
    """Return a decorator like `lru_cache(most)`, for functions whose last argument is a text.

    `cache_clear` forgets all, as there.
    """

    def decorate(function: Callable[..., Returned]) -> Callable[..., Returned]:
        of_short = lru_cache(most)(function)
        of_long = lru_cache(max(1, most // _FEWER))(function)

        @wraps(function)
        def cached(*arguments: Any) -> Returned:
            return (of_short if len(arguments[-1]) <= SHORT else of_long)(*arguments)

        def cache_clear() -> None:
            of_short.cache_clear()
            of_long.cache_clear()

        cached.cache_clear = cache_clear  # type: ignore[attr-defined]
        return cached

    return decorate
