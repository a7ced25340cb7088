# Taking the room that was found for jobs, and what is left.

cdef class Grid(GridSpread):
    """Free resources of single nodes over time slots, and where requests first fit."""

    def place(self, int kind):
        """Find room for a job and hold it, unless it can start now.

        Returns (start, number of the placing); the number is -1 if nothing was held.
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

    def place_next(self, list entries, Py_ssize_t first, bytes keeps=None, dict apart=None):
        """Place the jobs of entries, one after the other, as far as they are simple.

        It stops after a few thousand, because no other thread runs in the meantime.

        It also stops before a job that has several entries, is an array or a component, has a
        demand without a kind, can start now or can never start.

        Returns (starts, numbers of the placings, 64 bits each).

        Args:
            entries: tuples whose second item is a job and whose third its demand.
            keeps: a byte for each entry: 0 if only the start is found and no room is kept, more
                than 1 where the stretch ends. None: room is kept for all.
            apart: ids of jobs before which the stretch ends.
        """
        cdef const unsigned char *marks = NULL
        cdef int[BATCH] kinds
        cdef int[BATCH] slots
        cdef int64_t[BATCH] placings
        cdef int wanted = FIRST_BATCH, known, placed, held, at
        cdef Py_ssize_t last = min(len(entries), first + 4096)
        cdef list starts = []
        numbers = bytearray()
        if keeps is not None:
            if len(keeps) != len(entries):
                raise ValueError(f"{len(keeps)} marks for {len(entries)} entries")
            marks = <const unsigned char *>keeps + first
        while True:
            known = self._plain_kinds(
                entries, first, min(last, first + wanted), marks, apart, kinds)
            for at in range(known):
                self._remember(kinds[at])
            with nogil:
                placed = self._place_batch(kinds, marks, known, slots, placings, &held)
            for at in range(placed):
                starts.append(self._instants[slots[at]])
            numbers += (<char *>placings)[:held * sizeof(int64_t)]
            if placed < wanted:
                return starts, numbers
            first += placed
            if marks != NULL:
                marks += placed
            wanted = min(BATCH, 2 * wanted)

    cdef int _plain_kinds(self, list entries, Py_ssize_t first, Py_ssize_t last,
                          const unsigned char *marks, dict apart, int *kinds) except -1:
        """Record the kinds of the next jobs as far as they are simple; return how many."""
        cdef Py_ssize_t index
        cdef tuple entry
        cdef int kind, count = 0
        for index in range(first, last):
            entry = <tuple>entries[index]
            demand, job = entry[2], entry[1]
            kind = demand.kind
            if (kind < 0 or job.array_pending or job.het_job_id
                    or len(<tuple>job.partitions) > 1
                    or (marks != NULL and marks[count] > 1)
                    or (apart and job.job_id in apart)):
                break
            kinds[count] = kind
            count += 1
        return count

    cdef int _place_batch(self, const int *kinds, const unsigned char *marks, int count,
                          int *slots, int64_t *placings, int *held) except -1 nogil:
        """Place jobs of these kinds as long as all must wait; return how many.

        Args:
            marks: 0 for jobs whose room is not held; NULL: all are held. `held` counts them.
        """
        cdef int at, slot
        cdef Kind *job
        held[0] = 0
        for at in range(count):
            job = self._job + kinds[at]
            slot = self._search(job)
            if slot <= 0:
                return at
            slots[at] = slot
            if marks != NULL and not marks[at]:
                continue
            # Prefetch what the next searches read together with the rows that this job changes.
            self._fetch_rows()
            self._fetch_ahead(kinds + at, count - at)
            self._found_slot = slot
            placings[held[0]] = self._record(job)
            held[0] += 1
        return count

    cdef void _fetch_rows(self) noexcept nogil:
        """Prefetch the addresses of the rows of the first nodes found."""
        cdef int index
        for index in range(min(self._found_count, 8)):
            grid_fetch(self._row_at(0, self._found[index]))

    cdef void _fetch_ahead(self, const int *kinds, int count) noexcept nogil:
        """Prefetch what the searches after the first one will read."""
        cdef Kind *job
        cdef int at
        if count > 3:
            grid_fetch(self._job + kinds[3])
        if count > 2:
            job = self._job + kinds[2]
            if job.nodes == 1:
                for at in range(0, self._words, 32):
                    grid_fetch(job.gain + at)
        if count > 1:
            job = self._job + kinds[1]
            if job.best >= 0:
                self._fetch(job, job.best)

    def take_nodes(self, int kind, nodes, int64_t start_us):
        """Hold nodes for a job of a kind from a start found before; return the placing's number.

        Raises:
            ValueError: no slot begins then, or the job needs another number of nodes.
        """
        cdef int slot = self._slot_at(start_us), node
        if not 0 <= kind < self._jobs or len(nodes) != self._job[kind].nodes:
            raise ValueError("as many nodes as the job needs")
        if slot >= self._slots or self._time[slot] != start_us:
            raise ValueError("no slot begins then")
        self._found_count = 0
        for node in nodes:
            if not 0 <= node < self._nodes:
                raise IndexError(node)
            self._found[self._found_count] = node
            self._found_count += 1
        self._found_slot = slot
        return self._record(self._job + kind)

    cdef Py_ssize_t _record(self, Kind *job) except -1 nogil:
        """Hold what was found and remember its nodes."""
        cdef Py_ssize_t number = self._placed_count
        self._make_room(self._found_count)
        if self._trial is not None:
            with gil:
                self._note_found(job)
        self._hold_found(job)
        self._placed[number] = self._found_count
        memcpy(self._placed + number + 1, self._found, self._found_count * sizeof(int32_t))
        self._placed_count += self._found_count + 1
        return number

    cdef int _make_room(self, Py_ssize_t nodes) except -1 nogil:
        """Make room for one more placing of so many nodes."""
        cdef int32_t *placed
        if self._placed_count + nodes + 1 > self._placed_room:
            self._placed_room = max(1024, 2 * (self._placed_room + nodes))
            placed = <int32_t *>realloc(self._placed, self._placed_room * sizeof(int32_t))
            if placed == NULL:
                with gil:
                    raise MemoryError
            self._placed = placed
        return 0

    cdef int _hold_found(self, Kind *job) except -1 nogil:
        """Take the room of the last job, some nodes at a time so that memory keeps up."""
        cdef int index, place, node, kind, cuts, first = 0, last, start = self._found_slot
        cdef int end = job.ends[start]
        cdef Shape *shape = self._shape + job.shape
        cdef Cut[MOST_CUTS] cut
        cdef Cut *one
        while first < self._found_count:
            last = min(self._found_count, first + MOST_CUTS // max(1, shape.resources))
            cuts = 0
            for index in range(first, last):
                node = self._found[index]
                grid_fetch(self._row_at(0, node))
            for index in range(first, last):
                node = self._found[index]
                kind = self._node_kind[node]
                for place in range(shape.resources):
                    one = &cut[cuts]
                    one.amount = shape.amount[kind * shape.resources + place]
                    one.row = self._row(shape.resource[place], node)
                    if one.row != NULL and one.amount > 0:
                        one.node, one.resource = node, shape.resource[place]
                        grid_row_fetch(one.row)
                        cuts += 1
            for index in range(cuts):
                one = &cut[index]
                self._add(one.row, start, end, -one.amount, &one.least, &one.most)
                self._fetch_cut(one, start, end)
            for index in range(cuts):
                self._fetch_words(&cut[index], start, end)
            for index in range(cuts):
                self._clear(&cut[index], start, end)
            first = last
        return 0

    cdef void _fetch_cut(self, const Cut *cut, int start, int end) noexcept nogil:
        """Prefetch the planes that depend on a row."""
        cdef int index, plane, block
        cdef size_t word = cut.node >> 6
        cdef int32_t threshold
        cdef int32_t *thresholds = (
            self._thresholds_of[cut.resource] + self._node_kind[cut.node])
        for index in range(self._plane_count[cut.resource]):
            threshold = thresholds[index * self._kinds]
            if cut.least < threshold <= cut.most + cut.amount:
                plane = self._planes_of[cut.resource][index]
                block = start // BLOCK
                while block * BLOCK < end:
                    grid_fetch(self._plane[plane] + word * self._blocks + block)
                    block += BLOCKS_FETCHED

    cdef void _fetch_words(self, const Cut *cut, int start, int end) noexcept nogil:
        """Prefetch the words of slots after the blocks of planes."""
        cdef int index
        cdef int32_t threshold
        cdef int32_t *thresholds = (
            self._thresholds_of[cut.resource] + self._node_kind[cut.node])
        cdef size_t at = <size_t>(cut.node >> 6) * self._blocks
        for index in range(self._plane_count[cut.resource]):
            threshold = thresholds[index * self._kinds]
            if cut.least < threshold <= cut.most + cut.amount:
                grid_clear_ahead(self._plane[self._planes_of[cut.resource][index]] + at, start, end)

    cdef int _clear(self, const Cut *cut, int start, int end) except -1 nogil:
        """Clear a node's bits in planes with a threshold that it no longer reaches."""
        cdef int index, plane
        cdef size_t word = cut.node >> 6
        cdef int32_t threshold
        cdef int32_t *thresholds = (
            self._thresholds_of[cut.resource] + self._node_kind[cut.node])
        for index in range(self._plane_count[cut.resource]):
            threshold = thresholds[index * self._kinds]
            if cut.least < threshold <= cut.most + cut.amount:
                plane = self._planes_of[cut.resource][index]
                if grid_clear_below(
                        cut.row, self._plane[plane] + word * self._blocks, start, end, self._slots,
                        threshold, cut.amount, <uint64_t>1 << (cut.node & 63), &self._memory_taken,
                        &self._words_taken):
                    with gil:
                        raise MemoryError
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
        cdef Cut cut
        cut.row, cut.node, cut.resource, cut.amount = (
            self._row(resource, node), node, resource, amount)
        if cut.row != NULL and amount > 0:
            self._add(cut.row, start, end, -amount, &cut.least, &cut.most)
            self._clear(&cut, start, end)
        return 0

    def free_at(self, int node, int resource):
        """Return the free amount of every slot."""
        cdef grid_row *row = self._row(resource, node)
        cdef int at = 0, slot
        if row == NULL:
            return [0] * self._slots
        free = []
        for slot in range(self._slots):
            at += at + 1 < row.count and grid_slots(row)[at + 1] == slot
            free.append(row.amounts[at])
        return free

    def least(self, int node, int resource, int64_t start_us, int64_t end_us):
        """Return the amount that is free all the time."""
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
