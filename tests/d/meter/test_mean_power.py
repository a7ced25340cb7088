"""The mean power of a node whose counters begin at different times."""

from __future__ import annotations

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.d.meter.__main__ import MeanPower, until_now


def test_counters_begin_at_different_times_and_values() -> None:
    """A GPU's counter has run since the driver was loaded: what it had then is no power of now."""
    mean = MeanPower()
    assert mean.milliwatts({"ipmi": [0, 200_000]}, SECOND_US) == 200_000
    gpu = 10**15
    assert (
        mean.milliwatts({"ipmi": [200_000_000, 300_000], "gpu0": [gpu, 50_000]}, 2 * SECOND_US)
        == 250_000
    )
    later = {"ipmi": [600_000_000, 1], "gpu0": [gpu + 60_000_000, 1]}
    assert mean.milliwatts(later, 3 * SECOND_US) == 300_000 + 60_000


def test_a_counter_that_began_again_is_no_negative_power() -> None:
    mean = MeanPower()
    mean.milliwatts({"rapl": [10**12, 5]}, SECOND_US)
    assert mean.milliwatts({"rapl": [7, 4_000]}, 9 * SECOND_US) == 4_000


def test_power_goes_on_between_two_looks() -> None:
    """200 W for 10 s since the BMC was asked; a BMC that is silent for long adds no more."""
    assert until_now([5, 200_000], 10 * SECOND_US) == (2_000_000_005, 200_000)
    assert until_now([0, 1_000], 3600 * SECOND_US) == (60_000_000, 1_000)
    assert until_now([7, 1_000], -5) == (7, 1_000)
