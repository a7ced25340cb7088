"""SLUIDs: numbers of job records, and their texts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.sluid import LOW_BITS, record_sluid, sluid_number, sluid_of, sluid_text

TIMES_US = st.integers(0, 2**43)
IDS = st.integers(1, 67043328)


@given(TIMES_US, IDS)
def test_the_text_means_the_number(submit_us: int, job_id: int) -> None:
    """Commands print texts and take them again, in either case of letters."""
    number = sluid_number(submit_us, job_id)
    text = sluid_text(number)
    assert len(text) == 14
    assert sluid_of(text) == sluid_of("s" + text[1:].lower()) == number
    assert number & LOW_BITS == job_id & LOW_BITS  # by which the job is found


@given(TIMES_US, st.sets(IDS, min_size=2, max_size=9))
def test_tasks_of_one_submission_have_numbers_of_their_own(
    submit_us: int, job_ids: set[int]
) -> None:
    """An array's tasks were submitted in one microsecond, however many they are."""
    assert len({sluid_number(submit_us, job_id) for job_id in job_ids}) == len(job_ids)


def test_texts_sort_by_time() -> None:
    texts = [sluid_text(sluid_number(hour * 3_600_000_000, 7)) for hour in range(30)]
    assert texts == sorted(texts)


def test_a_resize_begins_a_record() -> None:
    assert record_sluid(1_000_000, 0, 7) == sluid_number(1_000_000, 7)
    assert record_sluid(1_000_000, 9_000_000, 7) == sluid_number(9_000_000, 7)


@pytest.mark.parametrize(
    "text",
    ["s", "s00HM83DBK7M0", "s00HM83DBK7M011", "x00HM83DBK7M01", "s00HM83DBK7MU1",
     "sZZZZZZZZZZZZZ", "s00HM83DBK7M01_3", "s00HM83DBK7M01+1", "s00HM83DBK7M01.x",
     "s٠0HM83DBK7M01"],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    """A SLUID names one record, so it has neither tasks nor components."""
    with pytest.raises(JobIdError):
        parse_job_id(text)


def test_a_step_may_follow() -> None:
    name = parse_job_id("s00HM83DBK7M01.batch")
    assert (name.job_id, name.sluid) == (0, sluid_of("s00HM83DBK7M01"))
    assert name.step == parse_job_id("1.batch").step
