"""What a daemon sets for its own process: open files, the interpreter's stack, memory."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import resource
import signal
from collections.abc import Callable, Iterator

_OPEN_FILES = 65_536
_IGNORED = (signal.SIGUSR1, signal.SIGTSTP, signal.SIGXCPU, signal.SIGQUIT, signal.SIGALRM)
_VARIABLES = 4_400
"""Of 8 bytes each: more than half of a chunk of 64 KiB, so 29 KiB of the chunk stay free."""
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of mallopt(3)
_LARGE_BYTES = 256 * 1024


def raise_open_files() -> None:
    """Raise the soft limit of open files to _OPEN_FILES, or to the hard limit if that is lower.

    slurmd must not call this: jobs without limits of their own inherit those of slurmd.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def ignore_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Let slurmctld and slurmdbd go on at signals that Slurm's manual says they ignore.

    Handlers do it, since programs of a site would begin with signals that are ignored.
    """
    for number in _IGNORED:
        loop.add_signal_handler(number, _go_on)


def _go_on() -> None:
    """Do nothing."""


def part_of_files(most: int, divisor: int) -> int:
    """Return how many open files one purpose may take: a part of the limit, at most `most`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(16, min(most, soft // divisor))


def with_stack_room(run: Callable[[], int]) -> int:
    """Call `run` from a function with a large frame, and return the result.

    CPython 3.11 and later keep frames in chunks of 16 KiB, and unmap a chunk as soon as its first
    frame ends. If a loop calls a function whose frame is the first of a chunk, each call costs 9 us
    instead of 0.04 us. That was a twentieth of slurmctld's time for a submission, and which
    function it is changes with the code. A first frame with many variables makes CPython map a
    larger chunk, and what is free in it is enough for all that a daemon's loop calls.
    """
    names = " = ".join(f"v{number}" for number in range(_VARIABLES))
    namespace: dict[str, Callable[[Callable[[], int]], int]] = {}
    exec(
        f"def roomy(run):\n    if run is None:\n        {names} = None\n    return run()", namespace
    )
    return namespace["roomy"](run)


def settle_memory() -> None:
    """Collect garbage seldom, and give large pieces of memory back as soon as they are free.

    slurmctld calls this when it has read its state.
    """
    gc.collect()
    gc.freeze()
    # Records form no cycles, so a collection finds nothing, and no other thread runs meanwhile. So
    # all objects are looked at very seldom, and few at a time: 50,000 new ones took up to 46 ms.
    gc.set_threshold(1000, 5, 100_000)
    # A pass makes large tables and drops those of the last pass. Without this setting the allocator
    # keeps the memory of the old ones in pieces that are too small for the next.
    _call_allocator("mallopt", _M_MMAP_THRESHOLD, _LARGE_BYTES)


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Make objects that are all needed until the end, and that form no cycles.

    A collection would look through them and find nothing, again and again. Other threads' cycles
    wait, too, so what is made here has to have a bound.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def share_memory(arenas: int) -> None:
    """Let threads take memory from a few arenas, and give large pieces back at once.

    By default the C library has eight arenas for each core, and each keeps what its threads once
    needed at most. Call it before any thread is started.
    """
    _call_allocator("mallopt", _M_ARENA_MAX, arenas)
    _call_allocator("mallopt", _M_MMAP_THRESHOLD, _LARGE_BYTES)


def return_memory() -> None:
    """Give the system the memory that is free; takes milliseconds, during which others go on."""
    _call_allocator("malloc_trim", 0)


def _call_allocator(name: str, *values: int) -> None:
    function = getattr(ctypes.CDLL(None), name, None)  # not in every C library
    if function is not None:
        function(*values)
