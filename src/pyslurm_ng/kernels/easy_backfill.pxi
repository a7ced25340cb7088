# EASY backfilling in one partition, as one number of CPUs: when jobs begin and end.

cdef enum:
    COURSE_DEPTH = 1000  # jobs that a course tries after the first that does not fit
    OUTLOOK_DEPTH = 200  # the same for an outlook
    OUTLOOK_LONGEST = 1000  # jobs of the queue whose starts are computed

cdef int64_t LEAST_RUN_US = 1_000_000
cdef int64_t LONGEST_RUN_US = 3_155_760_000_000_000  # a hundred years: a thousand runs fit in


cdef struct End:
    # CPUs that come back at a time.
    int64_t at_us
    int64_t cpus


cdef inline bint ends_before(const End *one, const End *other) noexcept nogil:
    return one.at_us < other.at_us or (one.at_us == other.at_us and one.cpus < other.cpus)


cdef void sink(End *ends, Py_ssize_t place, Py_ssize_t count) noexcept nogil:
    """Move an end down to its place in a heap, the first end first."""
    cdef End moved = ends[place]
    cdef Py_ssize_t below
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and ends_before(ends + below + 1, ends + below):
            below += 1
        if not ends_before(ends + below, &moved):
            break
        ends[place] = ends[below]
        place = below
    ends[place] = moved


cdef int64_t room_for(End *ends, Py_ssize_t count, int64_t cpus, int64_t at_us,
                      int64_t *free_cpus) noexcept nogil:
    """Return when ends have given back so many CPUs, and count the free CPUs; reorders the ends.

    All jobs that end at that time count.
    """
    cdef Py_ssize_t place
    cdef int64_t until_us = at_us
    for place in range(count // 2 - 1, -1, -1):
        sink(ends, place, count)
    while count:
        if free_cpus[0] >= cpus and ends[0].at_us > until_us:
            break
        free_cpus[0] += ends[0].cpus
        until_us = ends[0].at_us
        count -= 1
        ends[0] = ends[count]
        sink(ends, 0, count)
    return until_us


cdef class Twin:
    """A job in a course.

    An array is one twin that starts as often as it has `tasks`. The real runs of its tasks are not
    followed: each runs as long as was expected.

    submit_us: since when it waits. tasks: 0: not an array. entered_us: when it was first seen.
    started_us: when it really started; 0: not yet. ran_us: how long it runs, once that is known.
    """

    cdef public int64_t job_id, cpus, limit_us, submit_us, foreseen_us, tasks
    cdef public int64_t entered_us, started_us, ran_us

    def __init__(self, int64_t job_id, int64_t cpus, int64_t limit_us, int64_t submit_us,
                 int64_t foreseen_us, int64_t tasks=0):
        self.job_id = job_id
        self.cpus = cpus
        self.limit_us = limit_us
        self.submit_us = submit_us
        self.foreseen_us = foreseen_us
        self.tasks = tasks
        self.entered_us = self.started_us = 0
        self.ran_us = -1


cdef struct Begun:
    # A job that runs in a course: when it began and when it ends; -1: not known.
    int64_t since_us
    int64_t end_us


cdef class Course:
    """The jobs that have begun and ended until `at_us`.

    Jobs wait in order of submission and start as in EASY: one after another as long as they fit,
    then later jobs that by their limits do not delay the first that does not fit.

    longest_us: the longest wait so far, including jobs that still wait. seen: how many of those
        that
    arrive have entered.
    """

    cdef public int64_t at_us, longest_us
    cdef public Py_ssize_t seen
    cdef readonly list waiting  # in order of submission
    cdef int64_t _free
    cdef list _runners  # and beside each when it began
    cdef Begun *_begun
    cdef Py_ssize_t _room
    cdef dict _tasks  # by job: tasks of arrays that have begun

    def __init__(self, int64_t cpus, int64_t longest_us=0):
        self.longest_us = longest_us
        self.at_us = 0
        self.seen = 0
        self.waiting, self._runners, self._tasks = [], [], {}
        self._free = cpus

    def __dealloc__(self):
        free(self._begun)

    cdef int _reserve(self, Py_ssize_t count) except -1:
        """Make room for so many running jobs."""
        cdef Begun *grown
        if count > self._room:
            count += count // 2 + 16
            grown = <Begun *>realloc(self._begun, count * sizeof(Begun))
            if grown == NULL:
                raise MemoryError
            self._begun, self._room = grown, count
        return 0

    def copy(self):
        """Return a copy that may go on differently."""
        cdef Course other = Course(self._free, self.longest_us)
        other.at_us, other.seen = self.at_us, self.seen
        other.waiting, other._runners = self.waiting[:], self._runners[:]
        other._tasks = self._tasks.copy()
        other._reserve(len(self._runners))
        if self._runners:
            memcpy(other._begun, self._begun, len(self._runners) * sizeof(Begun))
        return other

    def adopt(self, Twin twin not None, int64_t now_us):
        """Begin with a job that runs already."""
        self._run(twin, now_us)

    def forget(self, gone):
        """Remove jobs that no longer wait, by their ids."""
        self.waiting = [twin for twin in self.waiting if (<Twin>twin).job_id not in gone]

    def go_on(self, list arrivals, int64_t now_us, *, bint guesses):
        """Let time pass until now; without `guesses` only as far as the ends are known.

        With `guesses` a job without a known end ends when expected. Otherwise nothing is known from
        the moment on when it could have ended.

        Args:
            arrivals: all jobs that arrive, by time; the first `seen` of them have entered already.
        """
        cdef int64_t certain_us = self._foresee(0, now_us, FAR, guesses), at_us
        cdef Py_ssize_t known, moments = 0
        while True:
            at_us = self._next_end()
            if self.seen < len(arrivals):
                at_us = min(at_us, (<Twin?>arrivals[self.seen]).entered_us)
            at_us = max(at_us, self.at_us)
            if at_us > now_us or at_us >= certain_us:
                break
            self.at_us = at_us
            self._end()
            self._enter(arrivals)
            known = len(self._runners)
            self._start()
            certain_us = self._foresee(known, now_us, certain_us, guesses)
            moments += 1
            if moments % 16 == 0:
                with nogil:
                    pass  # other threads get the interpreter now, not after all months
        if guesses:
            self.at_us = max(self.at_us, now_us)
            if self.waiting:
                self._note_wait(<Twin>self.waiting[0])

    cdef int64_t _foresee(self, Py_ssize_t first, int64_t now_us, int64_t certain_us,
                          bint guesses) noexcept:
        """Compute when jobs end, and return until when that is certain.

        Args:
            first: the first job that is not computed yet.
        """
        cdef Py_ssize_t place
        cdef int64_t least_us
        cdef Twin twin
        cdef Begun *begun
        for place in range(first, len(self._runners)):
            twin, begun = <Twin>self._runners[place], self._begun + place
            if twin.ran_us >= 0:
                begun.end_us = begun.since_us + twin.ran_us
                continue
            # The earliest end of a job that is not known to have ended.
            least_us = begun.since_us + LEAST_RUN_US
            if twin.started_us:
                least_us += now_us - twin.started_us
            if guesses:
                begun.end_us = max(begun.since_us + twin.foreseen_us, least_us)
            else:
                begun.end_us = -1
                certain_us = min(certain_us, least_us)
        return certain_us

    cdef int64_t _next_end(self) noexcept:
        """Return the next known end."""
        cdef int64_t at_us = FAR
        cdef Py_ssize_t place
        for place in range(len(self._runners)):
            if 0 <= self._begun[place].end_us < at_us:
                at_us = self._begun[place].end_us
        return at_us

    cdef int _end(self) except -1:
        """Take back the CPUs of jobs that end at this moment."""
        cdef Py_ssize_t place, kept = 0
        cdef Twin twin
        for place in range(len(self._runners)):
            twin = <Twin>self._runners[place]
            if 0 <= self._begun[place].end_us <= self.at_us:
                self._free += twin.cpus
                continue
            if kept < place:
                self._begun[kept] = self._begun[place]
                self._runners[kept] = twin
            kept += 1
        del self._runners[kept:]
        return 0

    cdef int _enter(self, list arrivals) except -1:
        """Queue the jobs that arrive at this moment."""
        cdef Twin twin
        while self.seen < len(arrivals):
            twin = <Twin?>arrivals[self.seen]
            if twin.entered_us > self.at_us:
                break
            self.seen += 1
            self.waiting.insert(self._place_of(twin), twin)
        return 0

    cdef Py_ssize_t _place_of(self, Twin twin) noexcept:
        """Return a job's place in the queue."""
        cdef Py_ssize_t low = 0, high = len(self.waiting), middle
        cdef Twin other
        while low < high:
            middle = (low + high) >> 1
            other = <Twin>self.waiting[middle]
            if other.submit_us < twin.submit_us or (
                    other.submit_us == twin.submit_us and other.job_id <= twin.job_id):
                low = middle + 1
            else:
                high = middle
        return low

    cdef int _start(self) except -1:
        """Start jobs that fit, in order; after that those that do not delay the first."""
        cdef list waiting = self.waiting, left
        cdef Py_ssize_t place = 0, count = len(waiting), end
        cdef int64_t until_us = 0, spare = 0
        cdef bint is_in_time
        cdef Twin twin
        while place < count:
            twin = <Twin>waiting[place]
            if twin.cpus > self._free:
                break
            place += self._begin(twin)
        del waiting[:place]
        count -= place
        if not count:
            return 0
        twin = <Twin>waiting[0]
        self._note_wait(twin)
        if not self._free:
            return 0
        until_us = self._room_for(twin.cpus, &spare)
        left, place, end = None, 1, min(count, 1 + COURSE_DEPTH)
        while place < end and self._free:
            twin = <Twin>waiting[place]
            is_in_time = self.at_us + twin.limit_us <= until_us
            if twin.cpus > self._free or not (is_in_time or twin.cpus <= spare):
                if left is not None:
                    left.append(twin)
                place += 1
                continue
            if left is None:
                left = waiting[:place]
            if not is_in_time:
                spare -= twin.cpus
            place += self._begin(twin)
        if left is not None:
            waiting[:place] = left
        return 0

    cdef int64_t _room_for(self, int64_t cpus, int64_t *spare) except -1:
        """Return when limits have given back so many CPUs, and how many more are free then."""
        cdef Py_ssize_t place, count = len(self._runners)
        cdef int64_t until_us
        cdef Twin twin
        cdef End *ends = <End *>malloc((count + 1) * sizeof(End))
        if ends == NULL:
            raise MemoryError
        for place in range(count):
            twin = <Twin>self._runners[place]
            # A job over its limit may end at any time.
            ends[place].at_us = max(self._begun[place].since_us + twin.limit_us, self.at_us + 1)
            ends[place].cpus = twin.cpus
        spare[0] = self._free
        until_us = room_for(ends, count, cpus, self.at_us, spare)
        spare[0] -= cpus
        free(ends)
        return until_us

    cdef bint _begin(self, Twin twin) except -1:
        """Start a job, or one task of an array; return whether all of it has started."""
        self._note_wait(twin)
        self._run(twin, self.at_us)
        if not twin.tasks:
            return True
        begun = self._tasks.pop(twin.job_id, 0) + 1
        if begun < twin.tasks:
            self._tasks[twin.job_id] = begun
        return begun >= twin.tasks

    cdef int _run(self, Twin twin, int64_t since_us) except -1:
        cdef Py_ssize_t count = len(self._runners)
        self._reserve(count + 1)
        self._begun[count].since_us = since_us
        self._begun[count].end_us = -1
        self._runners.append(twin)
        self._free -= twin.cpus
        return 0

    cdef void _note_wait(self, Twin twin) noexcept:
        self.longest_us = max(self.longest_us, self.at_us - twin.submit_us)


cdef struct Wanted:
    int64_t cpus
    int64_t run_us
    int64_t start_us


def starts_in_us(int64_t free_cpus, list running, list queue):
    """Return how long each of the first jobs of a queue would still wait, in microseconds.

    As under EASY backfilling, jobs after the first that does not fit start before it if they do not
    delay it. A partition is one number of CPUs, and jobs run as long as expected.

    Args:
        free_cpus: CPUs that are idle now.
        running: when each running job ends from now, in microseconds, and its CPUs.
        queue: CPUs and run time in microseconds of the waiting jobs, in order.
    """
    cdef Py_ssize_t place, count = min(len(queue), OUTLOOK_LONGEST), busy = len(running)
    cdef Wanted *jobs = <Wanted *>calloc(count + 1, sizeof(Wanted))
    cdef Wanted **waiting = <Wanted **>malloc((count + 1) * sizeof(Wanted *))
    cdef End *ends = <End *>malloc((busy + count + 1) * sizeof(End))
    cdef tuple each
    try:
        if jobs == NULL or waiting == NULL or ends == NULL:
            raise MemoryError
        for place in range(busy):
            each = running[place]
            ends[place].at_us, ends[place].cpus = each
        for place in range(count):
            each = queue[place]
            jobs[place].cpus, jobs[place].run_us = each
            jobs[place].run_us = min(jobs[place].run_us, LONGEST_RUN_US)
            waiting[place] = jobs + place
        with nogil:
            qsort(ends, busy, sizeof(End), earlier_end)
            serve(free_cpus, ends, busy, waiting, count)
        return [jobs[place].start_us for place in range(count)]
    finally:
        free(jobs)
        free(waiting)
        free(ends)


cdef int earlier_end(const void *one, const void *other) noexcept nogil:
    if ends_before(<const End *>one, <const End *>other):
        return -1
    return ends_before(<const End *>other, <const End *>one)


cdef void serve(int64_t free_cpus, End *ends, Py_ssize_t busy, Wanted **waiting,
                Py_ssize_t count) noexcept nogil:
    """Record when each job of a queue starts.

    Args:
        ends: of the running jobs, in order, with room for all others.
    """
    cdef Py_ssize_t place, first = 0
    cdef int64_t most = free_cpus, at_us = 0
    for place in range(busy):
        most += ends[place].cpus
    while count:
        if waiting[0].cpus > most:  # nodes are down
            count -= 1
            memmove(waiting, waiting + 1, count * sizeof(Wanted *))
            continue
        count = start_now(at_us, &free_cpus, ends + first, &busy, waiting, count)
        at_us = ends[first].at_us
        while busy and ends[first].at_us <= at_us:
            free_cpus += ends[first].cpus
            first += 1
            busy -= 1


cdef Py_ssize_t start_now(int64_t at_us, int64_t *free_cpus, End *ends, Py_ssize_t *busy,
                          Wanted **waiting, Py_ssize_t count) noexcept nogil:
    """Start the jobs that there is room for, and return how many still wait."""
    cdef Py_ssize_t place, fitting = 0, left = 1
    cdef int64_t until_us = 0, spare
    cdef bint is_in_time
    cdef Wanted *job
    while fitting < count and waiting[fitting].cpus <= free_cpus[0]:
        start_one(waiting[fitting], at_us, free_cpus, ends, busy)
        fitting += 1
    count -= fitting
    memmove(waiting, waiting + fitting, count * sizeof(Wanted *))
    if not count or not free_cpus[0]:
        return count
    spare = free_cpus[0]
    for place in range(busy[0]):
        if spare >= waiting[0].cpus:
            break
        spare += ends[place].cpus
        until_us = ends[place].at_us
    spare -= waiting[0].cpus
    for place in range(1, count):
        job = waiting[place]
        is_in_time = at_us + job.run_us <= until_us
        if (place > OUTLOOK_DEPTH or job.cpus > free_cpus[0]
                or not (is_in_time or job.cpus <= spare)):
            waiting[left] = job
            left += 1
            continue
        if not is_in_time:
            spare -= job.cpus
        start_one(job, at_us, free_cpus, ends, busy)
    return left


cdef void start_one(Wanted *job, int64_t at_us, int64_t *free_cpus, End *ends,
                    Py_ssize_t *busy) noexcept nogil:
    """Start a job, and put its end in its place among the others."""
    cdef Py_ssize_t place = busy[0]
    cdef End end
    job.start_us = at_us
    free_cpus[0] -= job.cpus
    end.at_us, end.cpus = at_us + job.run_us, job.cpus
    while place and ends_before(&end, ends + place - 1):
        ends[place] = ends[place - 1]
        place -= 1
    ends[place] = end
    busy[0] += 1
