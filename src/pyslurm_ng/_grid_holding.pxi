# What jobs hold once room was found for them, and what is left.

cdef class Grid(GridSpread):
    """Free resources of single nodes over time slots, and where requests first fit."""

    def place(self, int kind):
        """Find room for a job and hold it, unless it can start at once.

        Returns (start, number of the placing): the number is -1 when nothing was held.
        """
        cdef int slot
        if not 0 <= kind < self._jobs or self._job[kind].is_open:
            raise IndexError(kind)
        self._remember(kind)
        with nogil:
            slot = self._search(self._job + kind)
        self._found_slot = slot
        if slot <= 0:
            return (self._instants[0] if slot == 0 else NEVER), -1
        return self._instants[slot], self._record(self._job + kind)

    def place_next(self, list entries, Py_ssize_t first):
        """Place the jobs of entries, one after the other, as long as that is all there is to it.

        A few thousand at most: to note so many is one stretch in which no other thread runs.

        It is not for who has several entries, is an array or a component, whose demand has no
        kind yet, who can start at once and who cannot start ever.

        Returns (starts, numbers of the placings).

        Args:
            entries: tuples whose second item is a job and whose third its demand.
        """
        cdef int kind, slot
        cdef Py_ssize_t index
        cdef tuple entry
        cdef list starts = [], numbers = []
        for index in range(first, min(len(entries), first + 4096)):
            entry = <tuple>entries[index]
            demand, job = entry[2], entry[1]
            kind = demand.kind
            if (kind < 0 or job.array_pending or job.het_job_id
                    or len(<tuple>job.partitions) > 1):
                break
            self._remember(kind)
            with nogil:
                slot = self._search(self._job + kind)
            if slot <= 0:
                break
            self._found_slot = slot
            starts.append(self._instants[slot])
            numbers.append(self._record(self._job + kind))
        return starts, numbers

    def take_found(self, int kind):
        """Hold what was found last, for a job of this kind; return the number of the placing."""
        if not 0 <= kind < self._jobs or self._found_slot < 0:
            raise ValueError("nothing was found")
        return self._record(self._job + kind)

    cdef Py_ssize_t _record(self, Kind *job) except -1:
        """Hold what was found and remember its nodes."""
        cdef Py_ssize_t number = self._placed_count
        self._make_room(self._found_count)
        if self._trial is not None:
            self._note_found(job)
        with nogil:
            self._hold_found(job)
        self._placed[number] = self._found_count
        memcpy(self._placed + number + 1, self._found, self._found_count * sizeof(int32_t))
        self._placed_count += self._found_count + 1
        return number

    cdef int _make_room(self, Py_ssize_t nodes) except -1:
        """Have room for one more placing of so many nodes."""
        cdef int32_t *placed
        if self._placed_count + nodes + 1 > self._placed_room:
            self._placed_room = max(1024, 2 * (self._placed_room + nodes))
            placed = <int32_t *>realloc(self._placed, self._placed_room * sizeof(int32_t))
            if placed == NULL:
                raise MemoryError
            self._placed = placed
        return 0

    cdef int _hold_found(self, Kind *job) except -1 nogil:
        cdef int index, place, node, amount_at, end = job.ends[self._found_slot]
        cdef Shape *shape = self._shape + job.shape
        for index in range(self._found_count):
            node = self._found[index]
            amount_at = self._node_kind[node] * shape.resources
            for place in range(shape.resources):
                self._subtract(node, shape.resource[place], shape.amount[amount_at + place],
                               self._found_slot, end)
        return 0

    def placed(self, Py_ssize_t number):
        """Return the nodes of a placing."""
        cdef Py_ssize_t index
        if not 0 <= number < self._placed_count:
            raise IndexError(number)
        return [self._placed[number + 1 + index] for index in range(self._placed[number])]

    def all_placed(self):
        """Return all placings as bytes of 32-bit numbers, each a count and that many nodes."""
        return (<char *>self._placed)[:self._placed_count * sizeof(int32_t)]

    def take(self, int node, int resource, int32_t amount, int64_t start_us, int64_t end_us):
        """Hold an amount on one node during a time."""
        if not 0 <= node < self._nodes or not 0 <= resource < self._resources:
            raise IndexError((node, resource))
        cdef int start = self._slot_at(start_us + 1) - 1
        cdef int end = self._slot_at(end_us)
        if self._trial is not None:
            self._trial.append((node, resource, amount, max(0, start), max(end, start + 1)))
        self._subtract(node, resource, amount, max(0, start), max(end, start + 1))

    cdef int _subtract(self, int node, int resource, int32_t amount, int start,
                       int end) except -1 nogil:
        cdef int index, plane, word = node >> 6
        cdef int32_t least, most, threshold
        cdef grid_row *row = self._row(resource, node)
        cdef int32_t *thresholds = self._thresholds_of[resource] + self._node_kind[node]
        if row == NULL or amount <= 0:
            return 0
        self._add(row, start, end, -amount, &least, &most)
        for index in range(self._plane_count[resource]):
            threshold = thresholds[index * self._kinds]
            if least < threshold <= most + amount:
                plane = self._planes_of[resource][index]
                grid_clear_below(row, self._plane[plane] + <size_t>word * self._slots,
                                 self._summary[plane] + <size_t>word * self._blocks, start, end,
                                 threshold, amount, <uint64_t>1 << (node & 63))
        return 0

    def free_at(self, int node, int resource):
        """Return the free amount of every slot."""
        cdef grid_row *row = self._row(resource, node)
        cdef int at = 0, slot
        if row == NULL:
            return [0] * self._slots
        free = []
        for slot in range(self._slots):
            at += at + 1 < row.count and row.steps[at + 1].slot == slot
            free.append(row.steps[at].amount)
        return free

    def least(self, int node, int resource, int64_t start_us, int64_t end_us):
        """Return what is free all the time."""
        cdef grid_row *row = self._row(resource, node)
        cdef int start = max(0, self._slot_at(start_us + 1) - 1)
        return 0 if row == NULL else grid_row_least(row, start, max(self._slot_at(end_us), start + 1))

    def note_placing(self, nodes):
        """Remember the nodes of a job held with `take`; return the number of the placing."""
        cdef Py_ssize_t number = self._placed_count
        cdef int node
        self._make_room(len(nodes))
        self._placed[number] = len(nodes)
        self._placed_count += 1
        for node in nodes:
            if not 0 <= node < self._nodes:
                raise IndexError(node)
            self._placed[self._placed_count] = node
            self._placed_count += 1
        return number
