"""Host lists: as ``scontrol show hostlist``, ``hostlistsorted`` and ``hostnames`` have them."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.hostlist import (
    MAX_HOSTS,
    SPARE_BRACKETS,
    HostlistError,
    count,
    expand,
    expand_of_user,
    expand_unique,
    fold,
    fold_sorted,
)
from tests.world.operations import lines_run

# text, names, folded, folded after sorting; recorded from Slurm 22.05
RECORDED = [
    ("n1,n1", "n1 n1", "n[1,1]", "n[1,1]"),
    ("n1,gpu1,n2", "n1 gpu1 n2", "n1,gpu1,n2", "gpu1,n[1-2]"),
    ("n9,n10", "n9 n10", "n[9-10]", "n[9-10]"),
    ("n09,n10", "n09 n10", "n[09-10]", "n[09-10]"),
    ("n9,n010", "n9 n010", "n[9,010]", "n[9,010]"),
    ("n1,n01", "n1 n01", "n[1,01]", "n[1,01]"),
    ("n09,n100,n9", "n09 n100 n9", "n[09,100,9]", "n[9,09,100]"),
    ("1,3,4,5", "1 3 4 5", "[1,3-5]", "[1,3-5]"),
    ("n[8-10]", "n8 n9 n10", "n[8-10]", "n[8-10]"),
    ("n[1-010]", "n1 n2 n3 n4 n5 n6 n7 n8 n9 n10", "n[1-10]", "n[1-10]"),
    ("n10,n9,n1", "n10 n9 n1", "n[10,9,1]", "n[1,9-10]"),
    ("n[1-2]x[1-2]", "n1x1 n1x2 n2x1 n2x2", "n1x[1-2],n2x[1-2]", "n1x[1-2],n2x[1-2]"),
    ("b1,a10,a9", "b1 a10 a9", "b1,a[10,9]", "a[9-10],b1"),
    ("x10y2,x9y2", "x10y2 x9y2", "x10y2,x9y2", "x9y2,x10y2"),
    ("a1,a01,a1", "a1 a01 a1", "a[1,01,1]", "a[1,1,01]"),
    ("a b", "a b", "a,b", "a,b"),
    (
        "n[1-3,7],gpu[001-002]-ib,x1",
        "n1 n2 n3 n7 gpu001-ib gpu002-ib x1",
        "n[1-3,7],gpu001-ib,gpu002-ib,x1",
        "gpu001-ib,gpu002-ib,n[1-3,7],x1",
    ),
]


@pytest.mark.parametrize(("text", "names", "folded", "ordered"), RECORDED)
def test_lists_read_and_print_as_slurms(text: str, names: str, folded: str, ordered: str) -> None:
    assert expand(text) == names.split()
    assert fold(expand(text)) == folded
    assert fold_sorted(expand(text)) == ordered


@pytest.mark.parametrize(
    "text",
    ["n[3-1]", "n[a-b]", "n[]", "n[1,,2]", "n[1-", "n]", "n[1,2", "n[1[2]]", "n[-1]", "n[1-2-3]"],
)
def test_a_broken_list_is_refused_by_name(text: str) -> None:
    with pytest.raises(HostlistError) as caught:
        expand(text)
    assert "Invalid hostlist" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["n[1-9999999999]", "n[1-99999]x[1-99999]", f"n[0-{MAX_HOSTS}]", "n[1-99999999999999999999]"],
)
def test_a_huge_list_is_refused_before_it_is_built(text: str) -> None:
    """The sizes multiply beyond memory; that these tests end shows that nothing was built."""
    with pytest.raises(HostlistError):
        expand(text)
    with pytest.raises(HostlistError):
        count(text)


def test_a_list_of_the_largest_cluster_is_accepted() -> None:
    assert count("n[000000-999999]") == 1_000_000
    assert fold(expand("n[1-100000]")) == "n[1-100000]"


def test_uniqueness_keeps_the_first_place() -> None:
    assert expand_unique("n2,n1,n2") == ["n2", "n1"]


NAMES = st.builds(
    lambda prefix, number, width, suffix: f"{prefix}{number:0{width}d}{suffix}",
    st.sampled_from(["n", "gpu", "r1n", "", "a-b"]),
    st.integers(0, 1200),
    st.integers(1, 5),
    st.sampled_from(["", "", "", "-ib"]),
)


@given(st.lists(NAMES, max_size=60))
def test_folding_loses_nothing(names: list[str]) -> None:
    """Order, repeats and zeros all come back."""
    assert expand(fold(names)) == names
    assert count(fold(names)) == len(names)
    assert sorted(expand(fold_sorted(names))) == sorted(names)


@given(st.lists(NAMES, max_size=30))
def test_a_sorted_list_does_not_depend_on_the_order_given(names: list[str]) -> None:
    assert fold_sorted(names) == fold_sorted(list(reversed(names)))


@given(st.text(alphabet="n01-,[]ab ", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        names = expand(text)
    except HostlistError:
        return
    assert len(names) == count(text)


def test_commands_can_afford_it() -> None:
    """It must not draw in `re`, `typing` and their like, which cost milliseconds at every start."""
    source = str(Path(__file__).resolve().parents[2] / "src")
    program = (
        f"import sys; sys.path.insert(0, {source!r}); before = set(sys.modules)\n"
        "import pyslurm_ng.base.hostlist, pyslurm_ng.base.units, pyslurm_ng.conf.quick\n"
        "import pyslurm_ng.base.error_texts\n"
        "print(*sorted(n for n in set(sys.modules) - before if not n.startswith('pyslurm_ng')))"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert set(ran.stdout.split()) <= {"__future__", "errno"}  # errno is part of the interpreter


def test_a_users_list_has_a_bounded_number_of_brackets() -> None:
    """RELIABILITY 46: eighteen thousand brackets took slurmctld a tenth of a second."""
    few = ",".join(f"r{rack}n[1-2]" for rack in range(SPARE_BRACKETS + 4))
    assert len(expand_of_user(few, 4)) == 2 * (SPARE_BRACKETS + 4)
    with pytest.raises(HostlistError, match="more than 1028 brackets"):
        expand_of_user(f"{few},x[1]", 4)
    with pytest.raises(HostlistError, match="more than 65540 hosts"):
        expand_of_user("n[1-65541]", 4)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        (",".join(f"n{n}" for n in range(20_000)), 100),
        ("n[" + ",".join(map(str, range(20_000))) + "]", 400_000),
        (",".join(f"r{n}[1-2]" for n in range(5_000)), 600_000),
        ("a[1-2]" * 16 + ",", 1_000_000),
        ("[" * 60_000, 100),
        ("]" * 60_000, 100),
        ("n[1]," * 100 + "[" * 60_000, 10_000),
        ("," * 130_000, 100),
    ],
    ids=lambda value: str(value)[:8],
)
def test_the_work_grows_with_the_text(text: str, bound: int) -> None:
    """Each name and bracket is looked at a few times, a list without brackets only by C."""

    def read() -> None:
        with suppress(HostlistError):
            expand_of_user(text, 10_000)

    assert lines_run(read) < bound
