"""The profile kernel against its slow twin."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng._select import NEVER, Profile
from tests.oracle.profile import FAR, SlowProfile

KINDS = 2
demands = st.tuples(
    st.lists(st.integers(0, 6), min_size=KINDS, max_size=KINDS),
    st.sampled_from([1, 2, 3, 5, 8, 13, 40, FAR]),
    st.integers(0, 30),
)


@given(
    now_us=st.integers(0, 10),
    amounts=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    releases=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, KINDS - 1), st.integers(1, 3)), max_size=8
    ),
    jobs=st.lists(demands, max_size=25),
)
def test_finds_what_its_twin_finds(
    now_us: int,
    amounts: tuple[int, int],
    releases: list[tuple[int, int, int]],
    jobs: list[tuple[list[int], int, int]],
) -> None:
    """Same starts, and in the end the same amounts at every moment; never less than nothing."""
    profile, twin = Profile(now_us, amounts), SlowProfile(now_us, amounts)
    for time_us, kind, amount in releases:
        profile.release(time_us, kind, amount)
        twin.release(time_us, kind, amount)
    for job_amounts, duration_us, not_before_us in jobs:
        start_us = profile.find((0, 1), tuple(job_amounts), duration_us, not_before_us)
        asked = dict(enumerate(job_amounts))
        assert start_us == twin.find(asked, duration_us, not_before_us) or _is_finer(
            profile, twin, start_us
        )
        if start_us != NEVER:
            profile.take(start_us, duration_us, (0, 1), tuple(job_amounts))
            twin.take(start_us, duration_us, asked)
    for time_us, free in profile.slots():
        assert free == tuple(twin.free(time_us, kind) for kind in range(KINDS))
        assert min(free) >= 0


def _is_finer(profile: Profile, twin: SlowProfile, start_us: int) -> bool:
    """Say whether a start is none of the twin's boundaries: ends of empty holdings are kept."""
    return start_us != NEVER and start_us not in twin.boundaries()


@given(
    most=st.integers(2, 6),
    jobs=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 50)), max_size=40),
)
def test_full_profile_plans_later_never_too_much(most: int, jobs: list[tuple[int, int]]) -> None:
    """With no boundary left, ends are rounded up: amounts stay within what there is."""
    profile, twin = Profile(0, (3,), most), SlowProfile(0, (3,))
    for amount, duration_us in jobs:
        start_us = profile.find((0,), (amount,), duration_us, 0)
        if start_us == NEVER:
            continue
        profile.take(start_us, duration_us, (0,), (amount,))
        twin.take(start_us, duration_us, {0: amount})
    assert len(profile.slots()) <= most
    assert all(twin.free(moment, 0) >= 0 for moment in twin.boundaries())


def test_bad_arguments_are_refused() -> None:
    """The kernel checks what would lead it outside its arrays."""
    profile = Profile(0, (1,))
    with pytest.raises(IndexError):
        profile.find((1,), (1,), 5, 0)
    with pytest.raises(IndexError):
        profile.release(5, -1, 1)
    with pytest.raises(IndexError):
        profile.take(3, 5, (2,), (1,))
    with pytest.raises(ValueError):
        Profile(0, ())


def test_a_marked_moment_may_be_a_start() -> None:
    """Code that plans with other boundaries passes its own."""
    profile = Profile(0, (1,))
    profile.take(0, 10, (0,), (1,))
    assert profile.find((0,), (1,), 5, 12) == NEVER
    profile.mark(12)
    assert profile.find((0,), (1,), 5, 12) == 12


class _Partition:
    def __init__(self, name: str) -> None:
        self.name = name


class _Demand:
    """What `place_next` knows of a demand."""

    def __init__(self, name: str, amount: int, duration_us: int, *, is_plain: bool) -> None:
        self.partition = _Partition(name)
        self.kinds_amounts = ((0,), (amount,))
        self.duration_us = duration_us
        self.is_plain = is_plain
        self.tries_us = 0


class _Job:
    def __init__(self, array_pending: tuple[int, ...], partitions: tuple[str, ...]) -> None:
        self.array_pending = array_pending
        self.het_job_id = 0
        self.partitions = partitions


ENTRIES = st.lists(
    st.builds(
        lambda name, amount, duration_us, is_plain, tasks, names: (
            0,
            _Job(tasks, names),
            _Demand(name, amount, duration_us, is_plain=is_plain),
        ),
        st.sampled_from(["blocked", "blocked", "blocked", "open"]),
        st.integers(1, 4),
        st.integers(1, 30),
        st.sampled_from([True, True, True, False]),
        st.sampled_from([(), (), (), (1,)]),
        st.sampled_from([("a",), ("a",), ("a", "b")]),
    ),
    max_size=12,
)


@given(ENTRIES, st.integers(0, 2), st.integers(20, 200), st.none() | st.binary(min_size=12))
def test_jobs_of_a_stretch_are_placed_as_one_by_one(
    entries: list[tuple[int, _Job, _Demand]], first: int, end_us: int, marks: bytes | None
) -> None:
    """The stretch ends before a job that is not like them.

    Such a job may start now or never, asks for more than room, or is not behind.
    """
    profile, single = Profile(0, (3,)), Profile(0, (3,))
    for either in (profile, single):
        either.take(0, 9, (0,), (2,))
    starts = []
    keeps = None if marks is None else bytes(mark & 1 for mark in marks[: len(entries)])
    for at, (_, job, demand) in enumerate(entries[first:], first):
        kinds, amounts = demand.kinds_amounts
        start_us = single.find(kinds, amounts, demand.duration_us, 0)
        is_simple = demand.is_plain and not job.array_pending and len(job.partitions) == 1
        if not is_simple or demand.partition.name != "blocked":
            break
        if start_us in (NEVER, 0) or start_us >= end_us:
            break
        if keeps is None or keeps[at]:
            single.take(start_us, demand.duration_us, kinds, amounts)
        starts.append(start_us)
    assert profile.place_next(entries, first, {"blocked": None}, end_us, keeps) == starts
    assert profile.slots() == single.slots()
    assert [demand.tries_us for _, _, demand in entries[first:]][: len(starts)] == starts


def test_what_comes_back_at_once_is_what_comes_back_singly() -> None:
    """In order of time; what never comes back changes nothing."""
    ends = [(5, 0, 1), (5, 1, 2), (7, 0, 3), (FAR, 1, 1)]
    together, single = Profile(0, (0, 0)), Profile(0, (0, 0))
    together.release_all(ends)
    for end_us, kind, amount in ends:
        single.release(end_us, kind, amount)
    assert together.slots() == single.slots() == [(0, (0, 0)), (5, (1, 2)), (7, (4, 2))]
