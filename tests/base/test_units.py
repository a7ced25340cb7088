"""Memory, counts and times in Slurm's spellings."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.base.units import (
    UnitError,
    format_mem_mib,
    format_minutes_short,
    format_seconds,
    format_seconds_short,
    parse_count,
    parse_mem_mib,
    parse_time_limit_min,
    parse_time_limit_s,
)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("4000", 4000),
        ("4G", 4096),
        ("4g", 4096),
        ("1T", 1048576),
        ("1K", 1),
        ("1025K", 2),
        ("1GB", 1024),
        ("1gb", 1024),
        ("128MB", 128),
        ("500kB", 1),
        ("0", 0),
        (" 5", 5),
    ],
)
def test_memory_is_read_in_mib(text: str, mib: int) -> None:
    assert parse_mem_mib(text) == mib


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lots",
        "4X",
        "5 ",
        "1P",
        "1PB",
        "-1",
        "1.5G",
        "G",
        "4B",
        "4GBB",
        "4GiB",
        "4 GB",
        "B",
        "GB",
        "9" * 30,
        "٣",
    ],
)
def test_bad_memory_is_refused(text: str) -> None:
    with pytest.raises(UnitError):
        parse_mem_mib(text)


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (4000, "4000M"),
        (64000, "62.50G"),
        (128000, "125G"),
        (256000, "250G"),
        (1000, "1000M"),
        (1024, "1G"),
        (1048576, "1T"),
        (0, "0M"),
    ],
)
def test_memory_prints_as_in_tres_strings(mib: int, text: str) -> None:
    """Pairs from scontrol's output: a larger unit only where at most halves are lost."""
    assert format_mem_mib(mib) == text


def test_memory_prints_rounded_where_exactness_is_not_asked() -> None:
    assert format_mem_mib(4000, exact=False) == "3.91G"


def test_counts_take_suffixes() -> None:
    assert parse_count("1000k") == 1024000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300),
        ("5:30", 330),
        ("1:02:03", 3723),
        ("2-3", 2 * 86400 + 3 * 3600),
        ("2-3:04", 2 * 86400 + 3 * 3600 + 240),
        ("1-00:00:00", 86400),
        ("0", 0),
        ("90:00", 5400),
        ("UNLIMITED", INFINITE),
        ("infinite", INFINITE),
        ("-1", INFINITE),
        ("1-", 86400),
    ],
)
def test_time_limits_take_slurms_forms(text: str, seconds: int) -> None:
    assert parse_time_limit_s(text) == seconds


def test_limits_in_minutes_round_up() -> None:
    assert parse_time_limit_min("0:01") == 1
    assert parse_time_limit_min("1:00") == 1
    assert parse_time_limit_min("UNLIMITED") == INFINITE


@pytest.mark.parametrize(
    "text", ["", "abc", "1:2:3:4", "-", "1-2-3", ":", "1:", "1.5", "9" * 20, " 5", "5 "]
)
def test_bad_time_limits_are_refused(text: str) -> None:
    with pytest.raises(UnitError):
        parse_time_limit_s(text)


def test_times_print_as_scontrol_and_squeue_print_them() -> None:
    assert format_seconds(39) == "00:00:39"
    assert format_seconds(86400) == "1-00:00:00"
    assert format_seconds(INFINITE) == "UNLIMITED"
    assert format_seconds(-1) == "INVALID"
    assert format_seconds_short(39) == "0:39"
    assert format_seconds_short(3600) == "1:00:00"
    assert format_seconds_short(90061) == "1-01:01:01"
    assert format_minutes_short(30) == "30:00"


@given(st.integers(0, 10**9))
def test_what_is_printed_reads_back(seconds: int) -> None:
    assert parse_time_limit_s(format_seconds(seconds)) == seconds
