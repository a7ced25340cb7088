"""How slurmctld has its memory managed once it has read its state."""

from __future__ import annotations

import ctypes
import gc

_M_MMAP_THRESHOLD = -3  # of mallopt(3)
_LARGE_BYTES = 256 * 1024


def settle() -> None:
    """Look for garbage seldom, and give large pieces of memory back as soon as they are free."""
    gc.collect()
    gc.freeze()
    # Records form no cycles: a look through all finds nothing, and no other thread runs meanwhile.
    # So hardly ever all, and few at a time: with 50,000 new ones it took up to 46 ms.
    gc.set_threshold(1000, 5, 100_000)
    # A pass makes large tables and drops those of the last one. Left to itself the allocator keeps
    # what it gets back in pieces that the next tables do not fit into.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not in every C library
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
