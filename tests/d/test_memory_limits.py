"""Limits of memory by cgroup.conf, beside what slurmstepd 22.05 logged for the same keys."""

from __future__ import annotations

import pytest

from pyslurm_ng.conf.cgroup_conf import parse_cgroup_conf
from pyslurm_ng.d.spec.memory_limits import memory_limits

_NODE_MIB = 24105
_BOTH = "ConstrainRAMSpace=yes\nConstrainSwapSpace=yes\n"


@pytest.mark.parametrize(
    ("lines", "ram_and_both"),
    [
        (
            _BOTH + "MaxRAMPercent=10\nMaxSwapPercent=5.5\nAllowedSwapSpace=50",
            {20: (30, 40), 1000: (1000, 1500), 8000: (2410, 3735)},
        ),
        (_BOTH + "MaxRAMPercent=10\nAllowedSwapSpace=50", {8000: (2410, 6410)}),
        (
            _BOTH + "AllowedRAMSpace=80",
            {20: (30, 30), 1000: (800, 800), 8000: (6400, 6400)},
        ),
        (
            "ConstrainSwapSpace=yes\nAllowedRAMSpace=80\nAllowedSwapSpace=50",
            {20: (40, 40), 1000: (1500, 1500), 8000: (12000, 12000)},
        ),
        (
            "ConstrainSwapSpace=yes\nMaxRAMPercent=10\nMaxSwapPercent=10\nAllowedSwapSpace=50",
            {8000: (4820, 4820)},
        ),
        (
            "ConstrainRAMSpace=yes\nAllowedRAMSpace=120.5",
            {20: (30, None), 1000: (1205, None), 8192: (9871, None)},
        ),
        ("ConstrainRAMSpace=yes\nMaxRAMPercent=50.5", {0: (12173, None)}),
        (_BOTH + "MaxRAMPercent=50\nMaxSwapPercent=25", {0: (12052, 18078)}),
    ],
)
def test_limits(lines: str, ram_and_both: dict[int, tuple[int, int | None]]) -> None:
    """By allocation: RAM, and RAM with swap; a fraction of a MiB of each percentage is cut."""
    conf = parse_cgroup_conf(lines)
    for alloc_mib, (ram, both) in ram_and_both.items():
        limits = memory_limits(conf, alloc_mib, _NODE_MIB)
        assert limits["mem_mib"] == ram
        assert limits.get("swap_mib") == (None if both is None else both - ram)
