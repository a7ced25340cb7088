"""Amounts under limits as people say them."""

from __future__ import annotations

_NAMES = {"cpu": "CPU", "node": "node", "gres/gpu": "GPU"}


def amount_of(tres: str, count: int) -> str:
    """Return `4 CPUs`, `2048 MiB of memory`, `1 licence matlab`, `2 of gres/gpu:a100`."""
    many = "s" * (count != 1)
    if tres in _NAMES:
        return f"{count} {_NAMES[tres]}{many}"
    if tres == "mem":
        return f"{count} MiB of memory"
    if tres.startswith("license/"):
        return f"{count} licence{many} {tres.removeprefix('license/')}"
    return f"{count} of {tres}"
