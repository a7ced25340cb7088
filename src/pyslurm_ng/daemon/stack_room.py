"""Keep the interpreter's stack of frames from being mapped and unmapped call by call.

CPython 3.11 and later keep frames in chunks of 16 KiB and give a chunk back as soon as its first
frame is left. A function that happens to be called at the end of a chunk then costs 9 us instead
of 0.04: it took a twentieth of slurmctld's time for a submission, at whichever depth today's code
had put there. A frame of many variables at the bottom asks for a larger chunk; what is left of it
is enough for all that a daemon's loop calls.
"""

from __future__ import annotations

from collections.abc import Callable

_VARIABLES = 4_400
"""8 bytes each: more than half of a chunk of 64 KiB, so that 29 KiB of it are left."""


def with_stack_room(run: Callable[[], int]) -> int:
    """Return what `run` returns; the calls that it makes are above one large frame."""
    names = " = ".join(f"v{number}" for number in range(_VARIABLES))
    made: dict[str, Callable[[Callable[[], int]], int]] = {}
    exec(f"def roomy(run):\n    if run is None:\n        {names} = None\n    return run()", made)
    return made["roomy"](run)
