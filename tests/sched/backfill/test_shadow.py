"""The shadow of a partition: what plain EASY backfilling would have made jobs wait."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from pyslurm_ng.sched.backfill.shadow import Shadow, Twin
from tests.world.examples import drawn

HOUR_US = 3_600_000_000


def twin(job_id: int, cpus: int, submit_h: int, limit_h: int, foreseen_h: int) -> Twin:
    """Return a job; times in hours."""
    return Twin(job_id, cpus, limit_h * HOUR_US, submit_h * HOUR_US, foreseen_h * HOUR_US)


def pass_time(shadow: Shadow, now_h: int, *arrived: Twin, waiting: set[int]) -> None:
    """Let time pass; nothing runs really."""
    shadow.pass_time(now_h * HOUR_US, list(arrived), waiting, set())


def test_the_second_waits_until_the_first_is_foreseen_to_end() -> None:
    """It is asked for later: the end is when it was, not when it is noticed."""
    shadow = Shadow(4)
    pass_time(shadow, 1, twin(1, 4, 1, 9, 3), twin(2, 4, 1, 9, 3), waiting={1, 2})
    pass_time(shadow, 20, waiting={1, 2})
    assert shadow.longest_us == 3 * HOUR_US


def test_a_wait_counts_before_it_is_over() -> None:
    """Two hours of three."""
    shadow = Shadow(4)
    pass_time(shadow, 1, twin(1, 4, 1, 9, 3), twin(2, 4, 1, 9, 3), waiting={1, 2})
    pass_time(shadow, 3, waiting={1, 2})
    assert shadow.longest_us == 2 * HOUR_US


def test_what_is_known_of_a_job_counts_more_than_what_was_foreseen() -> None:
    """The first really ran for one hour, so in the shadow, too, the second waits no longer."""
    shadow = Shadow(4)
    pass_time(shadow, 1, twin(1, 4, 1, 9, 3), twin(2, 4, 1, 9, 3), waiting={1, 2})
    shadow.started(1, 1 * HOUR_US)
    shadow.pass_time(2 * HOUR_US, [], {2}, set())
    pass_time(shadow, 9, waiting={2})
    assert shadow.longest_us == 1 * HOUR_US


def test_a_cancelled_job_leaves() -> None:
    """No job waits behind it."""
    shadow = Shadow(4)
    pass_time(shadow, 1, twin(1, 4, 1, 9, 9), twin(2, 4, 1, 9, 9), waiting={1, 2})
    pass_time(shadow, 2, waiting={1})
    pass_time(shadow, 9, waiting={1})
    assert shadow.longest_us <= 1 * HOUR_US


def test_jobs_pass_the_first_in_the_queue_only_if_they_do_not_delay_it() -> None:
    """One CPU is free for three hours: a job of two hours passes, one of four waits."""
    shadow = Shadow(4)
    pass_time(shadow, 0, twin(1, 3, 0, 3, 3), twin(2, 4, 0, 3, 3), waiting={1, 2})
    pass_time(shadow, 1, twin(3, 1, 1, 4, 4), twin(4, 1, 1, 2, 2), waiting={1, 2, 3, 4})
    pass_time(shadow, 20, waiting={1, 2, 3, 4})
    assert shadow.longest_us == 5 * HOUR_US  # of the job of four hours: until 6 o'clock


def test_an_array_starts_task_by_task() -> None:
    """Three tasks, two of which fit at a time."""
    shadow = Shadow(2)
    array = twin(1, 1, 0, 5, 5)
    array.tasks = 3
    pass_time(shadow, 0, array, waiting={1})
    pass_time(shadow, 20, waiting={1})
    assert shadow.longest_us == 5 * HOUR_US


def test_running_jobs_are_there_when_the_shadow_begins() -> None:
    """The first to come waits for them."""
    shadow = Shadow(4)
    shadow.adopt([twin(1, 4, 0, 6, 2)], 0)
    shadow.pass_time(0, [twin(2, 4, 0, 1, 1)], {2}, {1})
    shadow.pass_time(9 * HOUR_US, [], {2}, set())
    assert 2 * HOUR_US <= shadow.longest_us <= 9 * HOUR_US


Jobs = list[tuple[int, int, int, int]]


def easy_waits(jobs: Jobs, cpus: int) -> list[int]:
    """Return the waits under EASY backfilling, worked out second by second."""
    starts: dict[int, int] = {}
    queue: list[int] = []
    now = 0
    while len(starts) < len(jobs):
        queue += [at for at, job in enumerate(jobs) if job[0] == now]
        running = [at for at, begun in starts.items() if begun + jobs[at][3] > now]
        free = cpus - sum(jobs[at][1] for at in running)
        first = None
        for at in list(queue):
            _, width, limit, _ = jobs[at]
            if first is None and width > free:
                ends = [
                    (max(starts[index] + jobs[index][2], now + 1), jobs[index][1])
                    for index in running
                ]
                ends.sort()
                room, until = free, now
                for end, back in ends:
                    if room >= jobs[at][1] and end > until:
                        break
                    room, until = room + back, end
                first, spare = at, room - width
            elif width <= free and (first is None or now + limit <= until or width <= spare):
                if first is not None and now + limit > until:
                    spare -= width
                starts[at] = now
                running.append(at)
                queue.remove(at)
                free -= width
        now += 1
    return [starts[at] - job[0] for at, job in enumerate(jobs)]


@settings(deadline=None, max_examples=drawn(100))
@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 4), st.integers(1, 9), st.integers(1, 9)),
        min_size=1,
        max_size=12,
    )
)
def test_with_perfect_foresight_it_is_easy_backfilling(drawn: Jobs) -> None:
    """Asked at arrivals only, or every second: the longest wait is that of the simple twin."""
    jobs = sorted((at, cpus, max(limit, run), run) for at, cpus, limit, run in drawn)
    expected = max(easy_waits(jobs, 4))
    end = 30 + sum(job[3] for job in jobs)
    for times in (range(end), sorted({job[0] for job in jobs} | {end})):
        shadow = Shadow(4)
        ids: set[int] = set()
        for now in times:
            arrived = [
                Twin(at, cpus, limit * 1_000_000, now * 1_000_000, run * 1_000_000)
                for at, (submit, cpus, limit, run) in enumerate(jobs)
                if submit == now
            ]
            ids |= {twin.job_id for twin in arrived}
            shadow.pass_time(now * 1_000_000, arrived, ids, set())
        assert shadow.longest_us == expected * 1_000_000


@settings(deadline=None, max_examples=drawn(100))
@given(
    st.lists(
        st.tuples(
            st.integers(0, 20),  # submitted
            st.integers(1, 4),  # CPUs
            st.integers(1, 9),  # limit
            st.integers(1, 9),  # run time
            st.integers(0, 30),  # waits so long, really
            st.integers(1, 9),  # foreseen
        ),
        min_size=1,
        max_size=10,
    )
)
def test_wrong_guesses_do_not_stay(drawn: list[tuple[int, int, int, int, int, int]]) -> None:
    """Jobs may start at other times than foreseen. In the end the plan is EASY backfilling."""
    minute_us = 60_000_000
    jobs = sorted((at, cpus, max(limit, run), run) for at, cpus, limit, run, _, _ in drawn)
    starts = [job[0] + numbers[4] for job, numbers in zip(jobs, drawn, strict=True)]
    ends = [start + job[3] for start, job in zip(starts, jobs, strict=True)]
    shadow = Shadow(4)
    # Guesses are made anew every ten minutes, and at last when all is known.
    for now in [*range(max(ends) + 1), 10_000]:
        now_us = (now + 1) * minute_us  # 0 would mean that a job has not started
        arrived = [
            Twin(index, job[1], job[2] * minute_us, now_us, numbers[5] * minute_us)
            for index, (job, numbers) in enumerate(zip(jobs, drawn, strict=True))
            if job[0] == now
        ]
        begun = [index for index, start in enumerate(starts) if start == now]
        waiting = {index for index, job in enumerate(jobs) if job[0] <= now <= starts[index]}
        running = {index for index, end in enumerate(ends) if starts[index] < now < end}
        shadow.pass_time(now_us, arrived, waiting, running)
        for index in begun:
            shadow.started(index, now_us)
    assert shadow.longest_us == max(easy_waits(jobs, 4)) * minute_us


def test_a_held_job_does_not_stop_the_course() -> None:
    """It began there, but will not run really: it ends as foreseen, and others follow."""
    shadow = Shadow(4)
    pass_time(shadow, 1, twin(1, 4, 1, 9, 3), twin(2, 4, 1, 9, 3), waiting={1, 2})
    pass_time(shadow, 2, waiting={2})
    shadow.started(2, 4 * HOUR_US)
    shadow.pass_time(5 * HOUR_US, [], set(), {2})
    pass_time(shadow, 20, waiting=set())
    assert shadow.longest_us == 3 * HOUR_US
