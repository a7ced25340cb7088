"""Which documented options a command knows but refuses by name, read from its own tables."""

from __future__ import annotations

import importlib


def refused_options(command: str) -> set[str]:
    """Return long names; a command without such a table refuses none."""
    try:
        module = importlib.import_module(f"pyslurm_ng.cli.{command}")
    except ModuleNotFoundError:
        return set()
    return set(getattr(module, "REFUSED", ()))
