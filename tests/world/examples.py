"""How many examples tests draw: some in `make test`, many more in `make soak-random`."""

from __future__ import annotations

import os

DRAWS_ALL = bool(os.environ.get("PYSLURM_RANDOM_EXAMPLES"))
_SHARE = 5
_LEAST = 8


def drawn(many: int) -> int:
    """Return how many of so many examples this run draws."""
    return many if DRAWS_ALL else min(many, max(_LEAST, many // _SHARE))
