# Counts of interchangeable things over time.

cdef class Profile:
    """Free amounts of a few kinds of things over time, exact to the microsecond.

    A slot lasts from its boundary to the next one, the last for ever. With `most` boundaries in
    use, the end of a holding is rounded up to the next boundary there is: such plans are
    pessimistic, never impossible.
    """

    cdef int64_t *_time
    cdef int64_t *_free
    cdef Py_ssize_t _room
    cdef Py_ssize_t _count
    cdef Py_ssize_t _kinds
    cdef Py_ssize_t _most

    def __cinit__(self, int64_t now_us, amounts, Py_ssize_t most=4096):
        if not 0 < len(amounts) <= MOST_KINDS:
            raise ValueError(f"{len(amounts)} kinds; 1 to {MOST_KINDS} are allowed")
        self._kinds = len(amounts)
        self._most = max(2, most)
        self._room = 64
        self._time = <int64_t *>malloc(self._room * sizeof(int64_t))
        self._free = <int64_t *>malloc(self._room * self._kinds * sizeof(int64_t))
        if self._time == NULL or self._free == NULL:
            raise MemoryError
        self._count = 1
        self._time[0] = now_us
        for kind in range(self._kinds):
            self._free[kind * self._room] = amounts[kind]

    def __dealloc__(self):
        free(self._time)
        free(self._free)

    cdef int _grow(self) except -1:
        cdef Py_ssize_t room = self._room * 2
        cdef Py_ssize_t kind
        cdef int64_t *times = <int64_t *>realloc(self._time, room * sizeof(int64_t))
        if times == NULL:
            raise MemoryError
        self._time = times
        cdef int64_t *rows = <int64_t *>malloc(room * self._kinds * sizeof(int64_t))
        if rows == NULL:
            raise MemoryError
        for kind in range(self._kinds):
            memcpy(rows + kind * room, self._free + kind * self._room,
                   self._count * sizeof(int64_t))
        free(self._free)
        self._free = rows
        self._room = room
        return 0

    cdef Py_ssize_t _index(self, int64_t time_us) noexcept nogil:
        """Return the first boundary not before a time; `_count` if there is none."""
        cdef Py_ssize_t low = 0, high = self._count, middle
        while low < high:
            middle = (low + high) >> 1
            if self._time[middle] < time_us:
                low = middle + 1
            else:
                high = middle
        return low

    cdef Py_ssize_t _boundary(self, int64_t time_us) except -1:
        """Return the boundary at a time, made if there is room, else the next one."""
        cdef Py_ssize_t index = self._index(time_us), kind
        cdef int64_t *row
        if index < self._count and self._time[index] == time_us:
            return index
        if time_us >= FAR or self._count >= self._most or index == 0:
            return index
        if self._count == self._room:
            self._grow()
        memmove(self._time + index + 1, self._time + index,
                (self._count - index) * sizeof(int64_t))
        self._time[index] = time_us
        for kind in range(self._kinds):
            row = self._free + kind * self._room
            memmove(row + index + 1, row + index, (self._count - index) * sizeof(int64_t))
            row[index] = row[index - 1]
        self._count += 1
        return index

    cpdef release(self, int64_t time_us, Py_ssize_t kind, int64_t amount):
        """Add a free `amount` of a kind from a time on."""
        if not 0 <= kind < self._kinds:
            raise IndexError(kind)
        cdef Py_ssize_t index = self._boundary(time_us)
        cdef int64_t *row = self._free + kind * self._room
        while index < self._count:
            row[index] += amount
            index += 1

    def release_all(self, list ends):
        """Add free amounts, for each (time, kind, amount) in order of time."""
        cdef tuple end
        for end in ends:
            self.release(end[0], end[1], end[2])

    def find(self, tuple kinds, tuple amounts, int64_t duration_us, int64_t not_before_us):
        """Return the earliest boundary from which all amounts are free for a duration, or NEVER."""
        cdef Py_ssize_t place = self._search(kinds, amounts, duration_us, not_before_us)
        return self._time[place] if place >= 0 else NEVER

    cdef Py_ssize_t _search(self, tuple kinds, tuple amounts, int64_t duration_us,
                            int64_t not_before_us) except -2:
        """Return that boundary's place, -1 if there is none."""
        cdef Py_ssize_t number = len(kinds), place
        cdef Py_ssize_t which[MOST_KINDS]
        cdef int64_t wanted[MOST_KINDS]
        if number > MOST_KINDS or number != len(amounts):
            raise ValueError("kinds and amounts differ in number")
        for place in range(number):
            which[place] = kinds[place]
            wanted[place] = amounts[place]
            if not 0 <= which[place] < self._kinds:
                raise IndexError(which[place])
        with nogil:
            place = self._find(which, wanted, number, duration_us, not_before_us)
        return place

    def place_next(self, list entries, Py_ssize_t first, dict behind, int64_t end_us,
                   bytes keeps=None):
        """Keep room for the jobs of entries, one after the other, as far as they are simple.

        It stops after a few thousand, because no other thread runs in the meantime.

        It also stops before a job that has several entries, is an array or a component, asks for
        more than room, can start now or only after the window, or is the first to wait in its
        partition.

        Returns their starts.

        Args:
            entries: tuples whose second item is a job and whose third its demand.
            behind: names of the partitions in which a job waits.
            keeps: a byte for each entry, 0 if only the start is found and no room is kept; None:
                room is kept for all.
        """
        cdef Py_ssize_t index, place
        cdef int64_t start_us, now_us = self._time[0], duration_us
        cdef const unsigned char *keeps_room = NULL
        cdef tuple entry, wanted
        cdef list starts = []
        if keeps is not None:
            if len(keeps) != len(entries):
                raise ValueError(f"{len(keeps)} marks for {len(entries)} entries")
            keeps_room = keeps
        for index in range(first, min(len(entries), first + 4096)):
            entry = <tuple>entries[index]
            demand, job = entry[2], entry[1]
            if (not demand.is_plain or job.array_pending or job.het_job_id
                    or len(<tuple>job.partitions) > 1 or demand.partition.name not in behind):
                break
            wanted, duration_us = demand.kinds_amounts, demand.duration_us
            place = self._search(wanted[0], wanted[1], duration_us, demand.tries_us)
            if place < 0 or self._time[place] == now_us or self._time[place] >= end_us:
                break
            start_us = self._time[place]
            if keeps_room == NULL or keeps_room[index]:
                self.take(start_us, duration_us, wanted[0], wanted[1])
            found = start_us
            demand.tries_us = found
            starts.append(found)
        return starts

    cdef Py_ssize_t _find(self, Py_ssize_t *kinds, int64_t *amounts, Py_ssize_t number,
                          int64_t duration_us, int64_t not_before_us) noexcept nogil:
        cdef Py_ssize_t start = self._index(not_before_us), slot, place
        cdef int64_t end_us
        cdef bint fits
        while start < self._count:
            end_us = FAR if duration_us >= FAR - self._time[start] else (
                self._time[start] + duration_us)
            slot = start
            fits = True
            while slot < self._count and (slot == start or self._time[slot] < end_us):
                for place in range(number):
                    if self._free[kinds[place] * self._room + slot] < amounts[place]:
                        fits = False
                        break
                if not fits:
                    break
                slot += 1
            if fits:
                return start
            start = slot + 1
        return -1

    cpdef take(self, int64_t start_us, int64_t duration_us, tuple kinds, tuple amounts):
        """Hold amounts for a duration; at full use from the boundary before the start."""
        cdef Py_ssize_t start = self._boundary(start_us), end, slot, place, kind
        cdef int64_t amount
        if start > 0 and (start >= self._count or self._time[start] != start_us):
            start -= 1
        end = self._boundary(FAR if duration_us >= FAR - start_us else start_us + duration_us)
        for place in range(len(kinds)):
            kind = kinds[place]
            amount = amounts[place]
            if not 0 <= kind < self._kinds:
                raise IndexError(kind)
            for slot in range(start, end):
                self._free[kind * self._room + slot] -= amount

    def mark(self, int64_t time_us):
        """Make a boundary, so that something may start there."""
        self._boundary(time_us)

    def __len__(self):
        """How many slots there are."""
        return self._count

    def slots(self):
        """Return (boundary, amounts) of every slot."""
        return [
            (self._time[slot],
             tuple(self._free[kind * self._room + slot] for kind in range(self._kinds)))
            for slot in range(self._count)
        ]
