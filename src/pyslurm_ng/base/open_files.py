"""How many files a daemon may have open, and how many of them are for connections."""

from __future__ import annotations

import resource

_WANTED = 65_536


def raise_limit() -> None:
    """Raise the soft limit towards the hard one, as far as a daemon can use it.

    slurmd must not call this: jobs that bring no limits inherit slurmd's.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connections(most: int) -> int:
    """Return how many connections of users a daemon takes: half of its files, at most `most`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(64, min(most, soft // 2))
