"""The order in which the processes of a run take the files of tests."""

from __future__ import annotations

from pathlib import Path

from tests.world.sharing_out import LONGEST, WAITING, next_unit

ROOT = Path(__file__).resolve().parents[2]
COMPUTED, SHORT, LONG = "tests/base/test_x.py", "tests/daemons/test_x.py", LONGEST[0]


def test_names_are_those_of_files() -> None:
    for name in (*LONGEST, *WAITING):
        assert (ROOT / name).exists(), name


def test_a_process_takes_its_own_kind_first_and_the_longest_of_it() -> None:
    queue = [SHORT, COMPUTED, LONG]
    assert next_unit(queue, computes=True) == COMPUTED
    assert next_unit(queue, computes=False) == LONG
    assert next_unit([SHORT], computes=True) == SHORT
    assert next_unit([COMPUTED], computes=False) == COMPUTED
