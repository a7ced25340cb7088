"""The vocabulary: Slurm's numbers stand once, in `base/numbers.py` and `base/error_numbers.py`."""

from __future__ import annotations

from itertools import combinations

import pytest

from pyslurm_ng.base import numbers

GROUPS = ("JOB_FLAG_", "NODE_FLAG_", "REQ_", "MAIL_", "SHOW_", "CANCEL_", "END_")


def group(prefix: str) -> dict[str, int]:
    return {name: value for name, value in vars(numbers).items() if name.startswith(prefix)}


@pytest.mark.parametrize("prefix", GROUPS)
def test_bits_of_a_group_are_single_and_distinct(prefix: str) -> None:
    """Two options on one bit would switch each other on."""
    bits = group(prefix)
    assert len(bits) > 2
    assert all(bit.bit_count() == 1 for bit in bits.values())
    assert [(a, b) for a, b in combinations(bits, 2) if bits[a] == bits[b]] == []


def test_the_numbers_are_those_users_know() -> None:
    """What scripts, journals and Slurm's own tools hold; none of them may ever change."""
    assert (numbers.NO_VAL16, numbers.NO_VAL, numbers.INFINITE) == (65534, 4294967294, 4294967295)
    assert (numbers.STEP_BATCH, numbers.STEP_EXTERN) == (4294967291, 4294967292)
    assert (numbers.JOB_COMPLETED, numbers.JOB_OUT_OF_MEMORY) == (3, 11)
    assert (numbers.JOB_FLAG_REQUEUED, numbers.JOB_FLAG_COMPLETING) == (1024, 32768)
    assert (numbers.NODE_IDLE, numbers.NODE_FLAG_DRAIN) == (2, 512)
    assert (numbers.MINUTE_US, numbers.DAY_US) == (60_000_000, 86_400_000_000)
