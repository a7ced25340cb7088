# Giving back everything that was held since a moment.

cdef class GridTrials(GridNodes):
    """Nodes whose holdings can be taken back."""

    def begin_trial(self):
        """Begin a trial: everything held from now on can be given back together."""
        if self._trial is not None:
            raise ValueError("a trial is on already")
        self._trial, self._memory = [], {}
        self._trial_placed = self._placed_count

    def keep(self):
        """End the trial and keep what it holds."""
        self._trial, self._memory = None, None

    def roll_back(self):
        """End the trial and give back everything that it holds."""
        if self._trial is None:
            raise ValueError("no trial is on")
        for node, resource, amount, start, end in reversed(self._trial):
            self._give_back(node, resource, amount, start, end)
        for kind, memory in self._memory.items():
            self._restore(kind, memory)
        self._placed_count = self._trial_placed
        self.keep()

    cdef int _remember(self, int kind) except -1:
        if self._memory is not None and kind not in self._memory:
            self._memory[kind] = self._memory_of(kind)
        return 0

    cdef tuple _memory_of(self, int kind):
        cdef Kind *job = self._job + kind
        return (
            (<const char *>job)[:sizeof(Kind)],
            (<const char *>job.gain)[:self._words * sizeof(int16_t)],
            (<const char *>job.count)[:self._words],
        )

    cdef int _restore(self, int kind, tuple memory) except -1:
        cdef Kind *job = self._job + kind
        cdef bytes fields = memory[0], gain = memory[1], count = memory[2]
        memcpy(job, <const char *>fields, sizeof(Kind))
        memcpy(job.gain, <const char *>gain, self._words * sizeof(int16_t))
        memcpy(job.count, <const char *>count, self._words)
        return 0

    cdef int _note_found(self, Kind *job) except -1:
        cdef int index, place, node, end = job.ends[self._found_slot]
        cdef Shape *shape = self._shape + job.shape
        for index in range(self._found_count):
            node = self._found[index]
            for place in range(shape.resources):
                self._trial.append((
                    node, shape.resource[place],
                    shape.amount[self._node_kind[node] * shape.resources + place],
                    self._found_slot, end,
                ))
        return 0

    cdef int _give_back(self, int node, int resource, int32_t amount, int start,
                        int end) except -1 nogil:
        """Undo `_subtract`."""
        cdef int index, plane
        cdef int32_t threshold, least, most
        cdef grid_row *row = self._row(resource, node)
        if row == NULL or amount <= 0:
            return 0
        self._add(row, start, end, amount, &least, &most)
        for index in range(self._plane_count[resource]):
            plane = self._planes_of[resource][index]
            threshold = self._thresholds_of[resource][
                index * self._kinds + self._node_kind[node]]
            if least - amount < threshold <= most:
                if grid_set_above(
                        row, self._plane[plane] + <size_t>(node >> 6) * self._blocks, start, end,
                        self._slots, threshold, <uint64_t>1 << (node & 63), &self._memory_taken,
                        &self._words_taken):
                    with gil:
                        raise MemoryError
        return 0
