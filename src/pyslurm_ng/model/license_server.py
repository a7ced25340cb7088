"""What is known of licences outside of this cluster, of those that a licence server gives out.

`sacctmgr modify resource ... set lastconsumed=N` tells, usually from a script run by cron, how many
are in use anywhere. Of these the ones that neither this cluster's jobs had then, nor other clusters
may have out of their shares, are missing here until the next word: the deficit.
Source: Slurm's manual of sacctmgr, and its licenses guide.
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
        consumed: in use of the server's `total`.
        share: what this cluster may use of them. used: what its jobs have.
    """
    return max(0, min(share - used, consumed - used - (total - share)))


def is_remote(license_name: str) -> bool:
    """Return whether a licence is another server's: NAME@SERVER, as slurmdbd gives them."""
    return "@" in license_name


def license_counts(text: str) -> list[tuple[str, int]]:
    """Return names and counts of `matlab:2,ansys`; of alternatives joined by | the first."""
    counts = []
    for part in text.partition("|")[0].split(","):
        if part:
            name, _, count = part.replace("=", ":").partition(":")
            counts.append((name, int(count or 1)))
    return counts
