# The first slot at which a job fits.

cdef class GridSearch(GridChoice):
    """The search for room; each kind of job goes on where its predecessor found some."""

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
        """Return the first start not before a time; what the kind remembers stays as it is."""
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

    cdef uint64_t _scan(self, Kind *job, int word, int start, int end) noexcept nogil:
        """Return which nodes of a word are free over a window; note when more may be."""
        cdef Shape *shape = self._shape + job.shape
        cdef uint64_t fits = job.mask[word], now, before = 0
        cdef size_t offset = <size_t>word * self._slots, block_offset
        cdef uint64_t *plane0
        cdef uint64_t *plane1
        cdef uint64_t *plane2
        cdef uint64_t *sum0
        cdef uint64_t *sum1
        cdef uint64_t *sum2
        cdef int slot = end - 1, last = self._slots - 1, block = -1, plane, bottom
        self.scans += 1
        if not shape.planes:
            job.gain[word] = self._slots
            job.count[word] = popcount(fits)
            return fits
        block_offset = <size_t>word * self._blocks
        plane0 = plane1 = plane2 = self._plane[shape.plane[0]] + offset
        sum0 = sum1 = sum2 = self._summary[shape.plane[0]] + block_offset
        if shape.planes > 1:
            plane1 = self._plane[shape.plane[1]] + offset
            sum1 = self._summary[shape.plane[1]] + block_offset
        if shape.planes > 2:
            plane2 = self._plane[shape.plane[2]] + offset
            sum2 = self._summary[shape.plane[2]] + block_offset
        while slot >= start and fits:
            if slot % BLOCK == BLOCK - 1 and slot - BLOCK + 1 >= start:
                now = fits & sum0[slot // BLOCK] & sum1[slot // BLOCK] & sum2[slot // BLOCK]
                for plane in range(3, shape.planes):
                    now &= self._summary[shape.plane[plane]][block_offset + slot // BLOCK]
                if now:
                    if now != fits:
                        before, block = fits, slot // BLOCK
                        fits = now
                    slot -= BLOCK
                    continue
            # At the edges of the window, and in the block that leaves nothing, slot by slot.
            bottom = max(start, slot // BLOCK * BLOCK)
            while slot >= bottom:
                now = fits & plane0[slot] & plane1[slot] & plane2[slot]
                for plane in range(3, shape.planes):
                    now &= self._plane[shape.plane[plane]][offset + slot]
                if now != fits:
                    self._left_over = fits
                    fits, last, block = now, slot, -1
                    if not fits:
                        break
                slot -= 1
        if block >= 0:
            # The leftmost change is somewhere in this block.
            slot = block * BLOCK + BLOCK - 1
            while slot >= block * BLOCK:
                now = before & plane0[slot] & plane1[slot] & plane2[slot]
                for plane in range(3, shape.planes):
                    now &= self._plane[shape.plane[plane]][offset + slot]
                if now != before:
                    before, last = now, slot
                slot -= 1
        job.gain[word] = last + 1
        job.count[word] = popcount(fits)
        return fits

    cdef bint _has(self, Shape *shape, int node, int start, int end) noexcept nogil:
        """Return whether a node's rows have what no plane tells exactly."""
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
        """Return which of the nodes that seem to fit do; only one of them if that is enough."""
        cdef Shape *shape = self._shape + job.shape
        cdef uint64_t left = fits, bit
        cdef int node
        if not shape.inexact:
            return fits
        while left:
            node = place * 64 + lowest(left)
            bit = left & (~left + 1)
            left ^= bit
            if not self._has(shape, node, start, end):
                fits ^= bit
            elif is_first_enough:
                return bit
        return fits

    cdef uint64_t _free_in(self, Kind *job, int word, int start, int end) noexcept nogil:
        """Return which nodes of a word are free in all slots of a short stretch."""
        cdef Shape *shape = self._shape + job.shape
        cdef uint64_t fits = job.mask[word]
        cdef uint64_t *bits
        cdef int plane, slot
        for plane in range(shape.planes):
            bits = self._plane[shape.plane[plane]] + <size_t>word * self._slots
            for slot in range(start, end):
                fits &= bits[slot]
        return fits

    cdef uint64_t _climb(self, Kind *job, int word) noexcept nogil:
        """Go to the first slot at which a node of a word fits; return those that do.

        `gain` is that slot, or the number of slots if there is none.
        """
        cdef int slot = job.gain[word], end, later_end
        cdef uint64_t fits
        while slot < self._slots:
            end = job.ends[slot]
            fits = self._scan(job, word, slot, end)
            while not fits:
                # Nothing is free across slot - 1; from slot on something is, until `end`.
                slot = job.gain[word]
                if slot >= self._slots:
                    return 0
                later_end = job.ends[slot]
                if slot >= end:
                    break
                fits = self._left_over
                if later_end > end:
                    fits &= self._free_in(job, word, end, later_end)
                if fits:
                    break
                fits = self._scan(job, word, slot, later_end)
                end = later_end
            if not fits:
                continue
            fits = self._exact(job, word, fits, slot, job.ends[slot], True)
            if fits:
                job.gain[word] = slot
                return fits
            slot += 1
            job.gain[word] = slot
        return 0

    cdef int _find_one(self, Kind *job) noexcept nogil:
        """Return the first slot at which any node fits; `gain` is where each word may first.

        In a long queue others have taken what was free in most words since the last job of this
        kind. Whether a node fits now is always found out; beyond that, after some words have been
        brought up to date the earliest place among them is taken: on thousands of nodes it is as
        good as the earliest of all, for a fraction of the work.
        """
        cdef int word, best, slot, climbs = 0, found_word = -1, found_slot = self._slots
        cdef uint64_t fits, found = 0
        while True:
            best = grid_first_least(job.gain, self._words)
            slot = job.gain[best]
            if slot >= self._slots:
                return -1
            if found_word >= 0 and (slot >= found_slot or (climbs >= self._most_climbs and slot > 0)):
                break
            # A word is brought to where it fits for sure while it is in the cache.
            climbs += 1
            fits = self._climb(job, best)
            if not fits:
                job.gain[best] = self._slots
            elif job.gain[best] < found_slot or (
                    job.gain[best] == found_slot and best < found_word):
                found, found_word, found_slot = fits, best, job.gain[best]
        self._found[0] = found_word * 64 + lowest(found)
        self._found_count = 1
        return found_slot

    cdef int _find_many(self, Kind *job) noexcept nogil:
        """Return the first slot at which enough nodes fit, and choose among them.

        Now is looked for among all nodes, later among those of the kind's region; if there is no
        room in it at all, among all again.
        """
        cdef int slot = job.cursor, next_slot, end, word, most, seen, low, high
        cdef bint has_required
        # Without a topology the first nodes in order do; else all that fit are to be known.
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
            # Others may have taken nodes since these were counted.
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
                # Look at the words that were left out; those known by now have their counts.
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
