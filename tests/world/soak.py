"""How much a soak test does: a few minutes' worth, or all of it with PYSLURM_FULL_SOAK=1."""

from __future__ import annotations

import os

IS_FULL = bool(os.environ.get("PYSLURM_FULL_SOAK"))


def amount(usual: int, full: int) -> int:
    """Return the usual number, which ends within minutes on two loaded cores, or the full one."""
    return full if IS_FULL else usual
