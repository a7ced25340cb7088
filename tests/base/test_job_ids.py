"""Job and step ids as users type them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id, split_job_ids, step_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("27", (27, (), -1, -1)),
        ("27_3", (27, ((3, 3, 1),), -1, -1)),
        ("27_[1-9:2,12]", (27, ((1, 9, 2), (12, 12, 1)), -1, -1)),
        ("27_[1-9%2]", (27, ((1, 9, 1),), -1, -1)),
        ("27_*", (27, (), -1, -1)),
        ("30+1", (30, (), 1, -1)),
        ("21.0", (21, (), -1, 0)),
        ("21.batch", (21, (), -1, 4294967291)),
        ("27_3.extern", (27, ((3, 3, 1),), -1, 4294967292)),
    ],
)
def test_every_form_of_an_id_is_read(text: str, expected: tuple[object, ...]) -> None:
    """Every form of the manual."""
    name = parse_job_id(text)
    assert (name.job_id, name.tasks, name.het_offset, name.step) == expected


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "abc", "1x", "1_", "1_[3-1]", "1_[a]", "1+", "1.x", "99999999999", "²"]
)
def test_other_words_are_refused(text: str) -> None:
    """No other word is read as an id."""
    with pytest.raises(JobIdError):
        parse_job_id(text)


@given(st.text(max_size=12))
def test_any_text_is_an_id_or_refused(text: str) -> None:
    """Nothing else is raised."""
    with contextlib.suppress(JobIdError):
        assert parse_job_id(text).job_id > 0


def test_commas_inside_brackets_do_not_part() -> None:
    """A list of arrays with lists of tasks."""
    assert split_job_ids("1,2_[3,5], 4") == ["1", "2_[3,5]", "4"]


@pytest.mark.parametrize(
    ("step_id", "text"), [(0, "0"), (4294967291, "batch"), (4294967293, "TBD")]
)
def test_step_names(step_id: int, text: str) -> None:
    """Fixed ids have names."""
    assert step_text(step_id) == text
