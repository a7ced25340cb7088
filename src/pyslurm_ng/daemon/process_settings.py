"""What a daemon sets for its own process: open files, the interpreter's stack, memory."""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Callable

_OPEN_FILES = 65_536
_VARIABLES = 4_400
"""8 bytes each: more than half of a chunk of 64 KiB, so that 29 KiB of it are left."""
_M_MMAP_THRESHOLD = -3  # of mallopt(3)
_LARGE_BYTES = 256 * 1024


def raise_open_files() -> None:
    """Raise the soft limit of open files towards the hard one, as far as a daemon can use it.

    slurmd must not call this: jobs that bring no limits inherit slurmd's.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def part_of_files(most: int, divisor: int) -> int:
    """Return how many open files one purpose may take: this part of the limit, at most `most`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(16, min(most, soft // divisor))


def with_stack_room(run: Callable[[], int]) -> int:
    """Return what `run` returns; the calls that it makes are above one large frame.

    It keeps the interpreter's stack of frames from being mapped and unmapped call by call. CPython
    3.11 and later keep frames in chunks of 16 KiB and give a chunk back as soon as its first frame
    is left. A function that happens to be called at the end of a chunk then costs 9 us instead of
    0.04: it took a twentieth of slurmctld's time for a submission, at whichever depth today's code
    had put there. A frame of many variables at the bottom asks for a larger chunk; what is left of
    it is enough for all that a daemon's loop calls.
    """
    names = " = ".join(f"v{number}" for number in range(_VARIABLES))
    made: dict[str, Callable[[Callable[[], int]], int]] = {}
    exec(f"def roomy(run):\n    if run is None:\n        {names} = None\n    return run()", made)
    return made["roomy"](run)


def settle_memory() -> None:
    """Look for garbage seldom, and give large pieces of memory back as soon as they are free.

    For slurmctld, once it has read its state.
    """
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
