# The first slot at which a job fits.

cdef class GridSearch(GridChoice):
    """The search for room; it continues where the last job of the same kind found some."""

    def find(self, int kind):
        """Return when a job of a kind can start first, or NEVER; `found` has its nodes."""
        cdef int slot
        if not 0 <= kind < self._jobs:
            raise IndexError(kind)
        self._remember(kind)
        with nogil:
            slot = self._search(self._job + kind)
        self._found_slot = slot
        return self._instants[slot] if slot >= 0 else NEVER

    def find_from(self, int kind, int64_t time_us):
        """Return the first start not before a time, without a change to what the kind remembers."""
        cdef int slot = self._slot_at(time_us), word
        cdef Kind *job
        if not 0 <= kind < self._jobs:
            raise IndexError(kind)
        self._found_slot = -1
        if slot >= self._slots:
            return NEVER
        memory = self._memory_of(kind)
        job = self._job + kind
        if job.cursor < 0:
            self._begin(job)
        job.cursor = slot
        job.low, job.high = 0, self._words
        for word in range(self._words):
            job.gain[word] = slot if job.mask[word] else self._slots
            job.count[word] = 0
        job.best = -1
        self._most_climbs = 2147483647
        with nogil:
            slot = self._search(job)
        self._most_climbs = MOST_CLIMBS
        self._restore(kind, memory)
        self._found_slot = slot
        return self._instants[slot] if slot >= 0 else NEVER

    cdef int _search(self, Kind *job) noexcept nogil:
        if job.cursor < 0:
            self._begin(job)
        if job.nodes == 1 and job.required == NULL and not job.is_open:
            return self._find_one(job)
        return self._find_many(job)

    cdef void _begin(self, Kind *job) noexcept nogil:
        """Prepare a kind's first search, and give kinds of several nodes different regions."""
        cdef int word, wanted, suitable = 0
        job.cursor = 0
        job.low, job.high = 0, self._words
        if job.nodes > 1 and job.required == NULL and not job.is_open:
            wanted = max(LEAST_REGION, REGION_FACTOR * job.nodes)
            job.low = job.high = (job - self._job) * 7 % self._words
            while suitable < wanted and job.high < self._words:
                suitable += popcount(job.mask[job.high])
                job.high += 1
            while suitable < wanted and job.low > 0:
                job.low -= 1
                suitable += popcount(job.mask[job.low])
        job.best = -1
        for word in range(self._words):
            if not job.mask[word]:
                job.gain[word] = self._slots

    def skip(self, int kind, int64_t time_us):
        """Look for no room before a time from now on."""
        cdef int place, slot = self._slot_at(time_us)
        cdef Kind *job
        if not 0 <= kind < self._jobs:
            raise IndexError(kind)
        self._remember(kind)
        job = self._job + kind
        if job.cursor < 0:
            self._begin(job)
        job.cursor = max(job.cursor, slot)
        for place in range(self._words):
            if job.gain[place] < slot:
                job.gain[place] = slot
        job.best = -1

    cdef inline void _look(self, const Kind *job, int word, grid_view *view) noexcept nogil:
        """Read the planes of a kind for a word."""
        cdef Shape *shape = self._shape + job.shape
        grid_look(view, self._plane, shape.plane, shape.planes, word, self._blocks)

    cdef uint64_t _scan(self, Kind *job, int word, int start, int end) noexcept nogil:
        """Return the nodes of a word that are free over a window; record when more may be free."""
        cdef uint64_t fits = job.mask[word]
        cdef grid_view view
        cdef grid_edge edge
        self.scans += 1
        edge.last = self._slots - 1
        self._look(job, word, &view)
        fits = grid_sweep(&view, fits, start, end, &edge)
        job.gain[word] = grid_edge_slot(&view, &edge) + 1
        job.count[word] = popcount(fits)
        return fits

    cdef void _fetch(self, Kind *job, int word) noexcept nogil:
        """Prefetch what the check of a word will read first."""
        cdef grid_view view
        cdef int slot = job.gain[word]
        if slot < self._slots:
            self._look(job, word, &view)
            grid_view_fetch(&view, slot, job.ends[slot])

    cdef bint _has(self, Shape *shape, int node, int start, int end) noexcept nogil:
        """Return whether a node's rows have enough of what no plane has exactly."""
        cdef int place, kind = self._node_kind[node]
        cdef int32_t amount
        cdef grid_row *row
        for place in range(shape.inexact):
            amount = shape.amount[kind * shape.resources + place]
            if amount <= 0:
                continue
            row = self._row(shape.resource[place], node)
            if row == NULL or grid_row_least(row, start, end) < amount:
                return False
        return True

    cdef uint64_t _exact(self, Kind *job, int place, uint64_t fits, int start, int end,
                         bint is_first_enough) noexcept nogil:
        """Return which of the nodes that seem to fit do; only one if one is enough."""
        cdef Shape *shape = self._shape + job.shape
        cdef uint64_t left = fits, bit
        cdef int node
        if not shape.inexact:
            return fits
        while left:
            grid_fetch(self._row_at(shape.resource[0], place * 64 + lowest(left)))
            left &= left - 1
        left = fits
        while left:
            node = place * 64 + lowest(left)
            bit = left & (~left + 1)
            left ^= bit
            if not self._has(shape, node, start, end):
                fits ^= bit
            elif is_first_enough:
                return bit
        return fits

    cdef uint64_t _climb(self, Kind *job, int word) noexcept nogil:
        """Go to the first slot at which a node of a word fits; return the fitting nodes.

        `gain` is that slot, or the number of slots if there is none.
        """
        cdef int slot = job.gain[word]
        cdef uint64_t fits
        cdef grid_view view
        self.scans += 1
        self._look(job, word, &view)
        while slot < self._slots:
            fits = grid_climb(&view, job.mask[word], &slot, job.ends, self._slots)
            if fits:
                fits = self._exact(job, word, fits, slot, job.ends[slot], True)
            if fits:
                job.gain[word] = slot
                return fits
            slot += 1
        job.gain[word] = self._slots
        return 0

    cdef int _find_one(self, Kind *job) noexcept nogil:
        """Return the first slot at which any node fits; `gain` is where each word may first.

        In a long queue other jobs have taken what was free in most words since the last job of this
        kind. Whether a node fits now is always computed exactly. For later slots only some words
        are updated, and the earliest place among them is taken. On thousands of nodes that is as
        good as the earliest of all, for a fraction of the work.
        """
        cdef int best, slot, climbs = 0, found_word = -1, found_slot = self._slots
        cdef uint64_t fits, found = 0
        if job.best < 0:
            job.best = grid_first_least(job.gain, self._whole_words)
            job.second = self._least_but(job, job.best)
        while True:
            best = job.best
            slot = job.gain[best]
            if slot >= self._slots:
                return -1
            if found_word >= 0 and (slot >= found_slot or (climbs >= self._most_climbs and slot > 0)):
                break
            # A word is brought to the slot where it really fits while it is in the cache. The word
            # that is probably next is prefetched in the meantime.
            climbs += 1
            self._fetch(job, job.second)
            fits = self._climb(job, best)
            if fits and (job.gain[best] < found_slot or (
                    job.gain[best] == found_slot and best < found_word)):
                found, found_word, found_slot = fits, best, job.gain[best]
                grid_fetch(self._row_at(0, best * 64 + lowest(fits)))
            if job.gain[best] > job.gain[job.second] or (
                    job.gain[best] == job.gain[job.second] and best > job.second):
                job.best = job.second
                job.second = self._least_but(job, job.best)
        self._found[0] = found_word * 64 + lowest(found)
        self._found_count = 1
        return found_slot

    cdef int _least_but(self, Kind *job, int word) noexcept nogil:
        """Return the word, other than one, that may be the first in which a node fits."""
        cdef int16_t gain = job.gain[word]
        cdef int least
        job.gain[word] = MOST_GAIN
        least = grid_first_least(job.gain, self._whole_words)
        job.gain[word] = gain
        return least

    cdef int _find_many(self, Kind *job) noexcept nogil:
        """Return the first slot at which enough nodes fit, and choose among them.

        For now all nodes are searched, for later only the kind's region. If that has no room at
        all, all nodes are searched again.
        """
        cdef int slot = job.cursor, next_slot, end, word, most, seen, low, high
        cdef bint has_required
        cdef grid_view view
        # Without a topology the first nodes in order are enough; otherwise all that fit must be
        # known.
        cdef bint may_stop = (
            self._leaf == NULL and job.required == NULL and not job.is_open)
        while True:
            if slot >= self._slots:
                if job.low == 0 and job.high == self._words:
                    break
                job.low, job.high = 0, self._words
                slot = 1
                continue
            low, high = job.low, job.high
            if slot == 0:
                low, high = 0, self._words
            end = job.ends[slot]
            most = 0
            next_slot = self._slots
            memset(self._fresh, 0, self._words)
            for word in range(low, high):
                if job.gain[word] <= slot:
                    if word + 2 < high:
                        self._look(job, word + 2, &view)
                        grid_view_fetch(&view, slot, end)
                    self._fits[word] = self._scan(job, word, slot, end)
                    self._fresh[word] = 1
                most += job.count[word]
                if job.gain[word] < next_slot:
                    next_slot = job.gain[word]
                if may_stop and most >= job.nodes:
                    # There may be words not looked at.
                    next_slot = slot
                    break
            if most < job.nodes:
                slot = next_slot if next_slot > slot else slot + 1
                continue
            # Other jobs may have taken nodes since these were counted.
            seen = 0
            has_required = True
            memset(self._fits, 0, low * sizeof(uint64_t))
            memset(self._fits + high, 0, (self._words - high) * sizeof(uint64_t))
            for word in range(low, high):
                if may_stop and seen >= job.nodes:
                    self._fits[word] = 0
                    continue
                if not job.count[word]:
                    self._fits[word] = 0
                else:
                    if not self._fresh[word]:
                        self._fits[word] = self._scan(job, word, slot, end)
                    self._fits[word] = self._exact(
                        job, word, self._fits[word], slot, end, False)
                    if popcount(self._fits[word]) < job.count[word]:
                        job.gain[word] = slot + 1
                        job.count[word] = popcount(self._fits[word])
                    seen += job.count[word]
                if job.required != NULL and (self._fits[word] & job.required[word]
                                             != job.required[word]):
                    has_required = False
            if seen >= job.nodes and has_required:
                if job.is_open:
                    self._found_count = 0
                    job.cursor = slot
                    return slot
                if self._choose(job):
                    job.cursor = slot
                    return slot
            if next_slot == slot:
                # Read the words that were left out; the others have their counts.
                most = 0
                for word in range(low, high):
                    most += job.gain[word] <= slot
                if most:
                    continue
            next_slot = self._slots
            for word in range(low, high):
                if job.gain[word] < next_slot:
                    next_slot = job.gain[word]
            slot = next_slot if next_slot > slot else slot + 1
        job.cursor = self._slots
        return -1
