# Which of the fitting nodes a job gets.

cdef class GridChoice(GridTrials):
    """The choice among nodes that fit."""

    def fitting(self):
        """Return the nodes that fit the last job of an open kind: a bit each, the first lowest."""
        return (<const unsigned char *>self._fits)[:self._words * 8]

    def choose(self, int kind, nodes):
        """Choose some of the nodes that fit the last job."""
        cdef int node
        if not 0 <= kind < self._jobs or len(nodes) != self._job[kind].nodes:
            raise ValueError("as many nodes as the job needs")
        self._found_count = 0
        for node in nodes:
            if not 0 <= node < self._nodes or not self._fits[node >> 6] >> (node & 63) & 1:
                raise IndexError(node)
            self._found[self._found_count] = node
            self._found_count += 1

    def found(self):
        """Return the nodes of the last job found."""
        return [self._found[index] for index in range(self._found_count)]

    cdef void _pick(self, Kind *job, int place, uint64_t bit) noexcept nogil:
        self._found[self._found_count] = place * 64 + lowest(bit)
        self._found_count += 1

    cdef bint _choose(self, Kind *job) noexcept nogil:
        """Choose among `_fits`: required nodes, nodes below few leaf switches, then in order."""
        cdef int place, leaf, best, left, node
        cdef uint64_t fits, bit
        self._found_count = 0
        if job.required != NULL:
            for place in range(self._words):
                fits = job.required[place]
                while fits:
                    bit = fits & (~fits + 1)
                    fits ^= bit
                    self._fits[place] ^= bit
                    self._pick(job, place, bit)
        left = job.nodes - self._found_count
        if self._leaf != NULL and left > 1:
            self._count_leaves(job)
            if self._below != NULL and not self._keep_one_switch(left):
                return False
            while left > 0:
                # The smallest leaf that holds the rest, else the leaf with most nodes.
                best = -1
                for leaf in range(self._leaves):
                    if not self._leaf_count[leaf]:
                        continue
                    if best < 0:
                        best = leaf
                    elif self._leaf_count[best] >= left:
                        if left <= self._leaf_count[leaf] < self._leaf_count[best]:
                            best = leaf
                    elif self._leaf_count[leaf] > self._leaf_count[best]:
                        best = leaf
                if best < 0:
                    return False
                left = self._take_leaf(job, best, left)
            return True
        for place in range(self._words):
            fits = self._fits[place]
            while fits and left > 0:
                bit = fits & (~fits + 1)
                fits ^= bit
                self._pick(job, place, bit)
                left -= 1
        return True

    cdef bint _keep_one_switch(self, int nodes) noexcept nogil:
        """Forget leaves outside the switch to use: fewest leaves, lowest level, fewest free.

        Returns whether any leaf or switch holds so many nodes.
        """
        cdef int leaf, place, most = 0, used, switch, sum_of, total, at = 0
        cdef int least = 2147483647, best = -1, best_total = 0
        for leaf in range(self._leaves):
            if self._leaf_count[leaf] >= nodes:
                return True
            most = max(most, self._leaf_count[leaf])
        # Leaves by free nodes, sorted by counting.
        memset(self._leaf_bucket, 0, (most + 2) * sizeof(int32_t))
        for leaf in range(self._leaves):
            self._leaf_bucket[self._leaf_count[leaf]] += 1
        for place in range(most, -1, -1):
            used = self._leaf_bucket[place]
            self._leaf_bucket[place] = at
            at += used
        for leaf in range(self._leaves):
            place = self._leaf_bucket[self._leaf_count[leaf]]
            self._leaf_bucket[self._leaf_count[leaf]] += 1
            self._leaf_order[place] = leaf
        for switch in range(self._switches):
            used = sum_of = total = 0
            for place in range(self._leaves):
                leaf = self._leaf_order[place]
                if not self._leaf_count[leaf]:
                    break
                if self._below[<size_t>switch * self._leaves + leaf]:
                    total += self._leaf_count[leaf]
                    if sum_of < nodes:
                        sum_of += self._leaf_count[leaf]
                        used += 1
            if sum_of >= nodes and (used < least or (
                    used == least and self._switch_level[switch] == self._switch_level[best]
                    and total < best_total)):
                least, best, best_total = used, switch, total
        if best < 0:
            return False
        for leaf in range(self._leaves):
            if not self._below[<size_t>best * self._leaves + leaf]:
                self._leaf_count[leaf] = 0
        return True

    cdef void _count_leaves(self, Kind *job) noexcept nogil:
        cdef int place, node
        cdef uint64_t fits
        memset(self._leaf_count, 0, self._leaves * sizeof(int32_t))
        for place in range(self._words):
            fits = self._fits[place]
            while fits:
                node = place * 64 + lowest(fits)
                fits &= fits - 1
                self._leaf_count[self._leaf[node]] += 1

    cdef int _take_leaf(self, Kind *job, int leaf, int left) noexcept nogil:
        cdef int place, node
        cdef uint64_t fits, bit
        self._leaf_count[leaf] = 0
        for place in range(self._words):
            fits = self._fits[place]
            while fits and left > 0:
                bit = fits & (~fits + 1)
                fits ^= bit
                node = place * 64 + lowest(bit)
                if self._leaf[node] == leaf:
                    self._pick(job, place, bit)
                    left -= 1
        return left
