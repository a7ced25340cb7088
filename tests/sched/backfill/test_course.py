"""The kernel of EASY's course beside its twin."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from pyslurm_ng._select import Course, Twin
from tests.oracle import easy_course
from tests.world.examples import drawn

SECOND_US = 1_000_000
SMALL = st.integers(1, 6)
# A job that arrives: CPUs, limit, foreseen, tasks, how long it has waited already.
ARRIVALS = st.tuples(SMALL, st.integers(1, 30), st.integers(1, 30), st.sampled_from([0, 0, 0, 3]),
                     st.integers(0, 5))  # fmt: skip
# What happens: seconds pass, jobs arrive, one of all starts or ends really, one leaves.
STEPS = st.tuples(
    st.integers(0, 20),
    st.lists(ARRIVALS, max_size=4),
    st.sampled_from(["", "starts", "ends", "leaves", "splits"]),
    st.integers(0, 1 << 30),
    st.booleans(),
)

AnyCourse = Course | easy_course.Course
AnyTwin = Twin | easy_course.Twin


def state(course: AnyCourse) -> tuple[object, ...]:
    return (
        course.at_us,
        course.longest_us,
        course.seen,
        [(twin.job_id, twin.submit_us) for twin in course.waiting],
    )


class World:
    """A course and all its jobs, of the kernel or of its twin."""

    def __init__(self, make_course: type[Course | easy_course.Course], cpus: int) -> None:
        self.make_twin: type[AnyTwin] = Twin if make_course is Course else easy_course.Twin
        self.course: AnyCourse = make_course(cpus)
        self.arrivals: list[AnyTwin] = []
        self.others: list[AnyCourse] = []
        self.now_us = SECOND_US

    def step(
        self,
        passed_s: int,
        arrived: list[tuple[int, int, int, int, int]],
        what: str,
        which: int,
        guesses: bool,
    ) -> list[tuple[object, ...]]:
        """Do one step; return what can be seen then."""
        self.now_us += passed_s * SECOND_US
        for cpus, limit_s, foreseen_s, tasks, waited_s in arrived:
            twin = self.make_twin(
                len(self.arrivals),
                cpus,
                limit_s * SECOND_US,
                self.now_us - waited_s * SECOND_US,
                foreseen_s * SECOND_US,
                tasks,
            )
            twin.entered_us = self.now_us
            if tasks:
                twin.ran_us = twin.foreseen_us
            self.arrivals.append(twin)
        if self.arrivals:
            self.happens(what, self.arrivals[which % len(self.arrivals)])
        self.course.go_on(self.arrivals, self.now_us, guesses=guesses)  # type: ignore[arg-type]
        return [state(course) for course in (self.course, *self.others)]

    def happens(self, what: str, twin: AnyTwin) -> None:
        """Let something become of a job, or of the course."""
        if what == "starts" and not twin.tasks:
            twin.started_us = self.now_us
        elif what == "ends" and twin.started_us:
            twin.ran_us = self.now_us - twin.started_us
        elif what == "leaves" and twin.entered_us < self.now_us:
            twin.ran_us = twin.foreseen_us
            self.course.forget({twin.job_id})
        elif what == "splits":
            self.others.append(self.course)
            self.course = self.course.copy()


@settings(deadline=None, max_examples=drawn(300))
@given(
    st.integers(1, 8),
    st.lists(st.tuples(SMALL, st.integers(1, 30), st.integers(1, 30)), max_size=3),
    st.lists(STEPS, min_size=1, max_size=12),
)
def test_the_kernel_agrees_with_its_twin(
    cpus: int,
    running: list[tuple[int, int, int]],
    steps: list[tuple[int, list[tuple[int, int, int, int, int]], str, int, bool]],
) -> None:
    """Whatever arrives, really starts, ends and leaves, with guesses and without."""
    kernel, slow = World(Course, cpus), World(easy_course.Course, cpus)
    for world in (kernel, slow):
        for number, (wide, limit_s, foreseen_s) in enumerate(running, 1):
            twin = world.make_twin(-number, wide, limit_s * SECOND_US, 0, foreseen_s * SECOND_US)
            twin.started_us = world.now_us
            world.course.adopt(twin, world.now_us)  # type: ignore[arg-type]
    for passed_s, arrived, what, which, guesses in steps:
        seen = kernel.step(passed_s, arrived, what, which, guesses)
        assert seen == slow.step(passed_s, arrived, what, which, guesses)


def test_a_queue_that_is_longer_than_those_looked_at() -> None:
    """The last of 1,500 would fit, but is too far behind; where the first ends all go on alike."""
    jobs = [(4, 100, 100, 0, 5), (3, 10, 10, 0, 4), (4, 10, 10, 0, 3)]
    jobs += [(2, 50, 50, 0, 2)] * 1500 + [(1, 5, 5, 0, 1)] * 3
    kernel, slow = World(Course, 4), World(easy_course.Course, 4)
    for passed_s in (0, 50, 60, 7, 3000):
        assert kernel.step(passed_s, jobs, "", 0, True) == slow.step(passed_s, jobs, "", 0, True)
        jobs = []
