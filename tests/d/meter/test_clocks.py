"""Which clocks --gpu-freq means on recorded GPUs, and how they are set."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.d.meter.clocks import nearest_mhz, reset_clocks, set_clocks
from pyslurm_ng.d.spec.step_clocks import words_of
from tests.world.recorded_gpus.host import RecordedHost, binding

STEPS = [1980, 1965, 1200, 705, 345]


@pytest.mark.parametrize(
    ("word", "mhz"),
    [("low", 345), ("medium", 1200), ("high", 1980), ("highm1", 1965), ("1190", 1200),
     ("1", 345), ("999999", 1980)],
)  # fmt: skip
def test_words_mean_clocks_that_the_gpu_has(word: str, mhz: int) -> None:
    """A number means the nearest clock."""
    assert nearest_mhz(word, STEPS) == mhz
    assert nearest_mhz(word, []) == 0


def test_both_clocks_are_locked_and_let_go(tmp_path: Path) -> None:
    host = RecordedHost(tmp_path, "h100x8")
    api = binding(host)
    assert set_clocks(api, 3, "highm1", "low") == (1965, 1593)
    reset_clocks(api, 3)
    assert host.calls() == [
        "memory 3 1593-1593",
        "gpu 3 1965-1965",
        "gpu 3 reset",
        "memory 3 reset",
    ]


def test_a_gpu_with_one_memory_clock_refuses_another(tmp_path: Path) -> None:
    """The user is told; letting go works all the same."""
    host = RecordedHost(tmp_path, "a100x4")
    api = binding(host)
    with pytest.raises(api.NVMLError, match="Not Supported"):
        set_clocks(api, 0, "high", "low")
    reset_clocks(api, 0)
    assert host.calls() == ["gpu 0 reset"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu:high", ("high", "", False)),
        ("gpu:medium,memory=low,verbose", ("medium", "low", True)),
        ("gpu:memory=1593", ("", "1593", False)),
        ("low", ("low", "", False)),
        ("gpu:fast", None),
        ("gpu:cpu=low", None),
        ("gpu:99999999", None),
        ("", None),
    ],
)
def test_words_of_the_option(text: str, words: tuple[str, str, bool] | None) -> None:
    """They come in a variable of the user's, so the node reads them strictly."""
    assert words_of(text) == words
