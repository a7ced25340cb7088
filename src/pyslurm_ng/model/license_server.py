"""What is known of the use of a licence server's licences outside of this cluster.

`sacctmgr modify resource ... set lastconsumed=N` reports, usually from a script that cron runs, how
many are in use anywhere. Some of these were not held by this cluster's jobs and do not fit into
other clusters' shares. They are missing here until the next report: the deficit. Source: Slurm's
manual of sacctmgr, and its licenses guide.
"""

from __future__ import annotations

from msgspec import Struct


class ServerUse(Struct, array_like=True, frozen=True, gc=False):
    """How many of one licence, NAME@SERVER, were in use at a moment, and how many too many."""

    name: str
    consumed: int
    deficit: int
    updated_us: int


def deficit(consumed: int, total: int, share: int, used: int) -> int:
    """Return how many licences are missing for this cluster's jobs.

    Args:
        consumed: how many of the server's `total` are in use.
        share: how many this cluster may use.
        used: how many its jobs hold.
    """
    return max(0, min(share - used, consumed - used - (total - share)))


def is_remote(license_name: str) -> bool:
    """Return whether a licence is another server's: NAME@SERVER, as slurmdbd gives them."""
    return "@" in license_name


def license_counts(text: str) -> list[tuple[str, int]]:
    """Return names and counts of `matlab:2,ansys`; of alternatives joined by | only the first."""
    counts = []
    for part in text.partition("|")[0].split(","):
        if part:
            name, _, count = part.replace("=", ":").partition(":")
            counts.append((name, int(count or 1)))
    return counts
