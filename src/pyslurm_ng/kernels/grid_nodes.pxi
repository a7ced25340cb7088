# What nodes have over time, what jobs hold of it, and what kinds of jobs ask for.

cdef class GridNodes:
    """Free resources of single nodes over time slots, and where requests first fit.

    Per node and resource a row has the amounts of the slots. Per threshold that requests ask for a
    plane has a bit per node and slot, 64 nodes to a word, the slots of a word side by side in blocks:
    a set of nodes free over a window is an AND over consecutive words. Once planes have been built,
    amounts only shrink. So each kind of job continues its search where the previous job of the kind
    found room.
    """

    cdef int _slots, _nodes, _words, _resources, _kinds, _planes, _shapes, _jobs
    cdef int _room_planes, _room_shapes, _room_jobs, _leaves
    cdef int64_t *_time
    cdef list _instants  # the same as Python integers, which a hundred thousand starts share
    cdef int32_t *_node_kind
    cdef grid_row *_free  # [node * resources + resource]: a job takes several of a node
    cdef grid_memory *_memory_taken  # rows and planes
    cdef grid_spare _spare
    cdef grid_words _words_taken
    cdef int *_planes_of[MOST_RESOURCES]
    cdef int32_t *_thresholds_of[MOST_RESOURCES]  # [number of the plane * kinds + kind]
    cdef int _plane_count[MOST_RESOURCES]
    cdef grid_block **_plane  # [plane][word * blocks + block]
    cdef int _blocks  # of a word
    cdef int _whole_words  # length of the lists of words in which the least is searched
    cdef uint64_t **_mask
    cdef int _masks, _room_masks
    cdef int32_t *_placed  # nodes of placed jobs, one after another
    cdef Py_ssize_t _placed_count, _placed_room
    cdef int64_t *_durations  # of kinds, each once
    cdef int16_t **_ends  # of each duration
    cdef int _duration_count, _room_durations
    cdef Shape *_shape
    cdef Kind *_job
    cdef uint64_t *_fits  # per word of the kind at work
    cdef uint8_t *_fresh  # per word: `_fits` is of this slot
    cdef int32_t *_found
    cdef int _found_count
    cdef int _found_slot
    cdef int32_t *_leaf
    cdef int32_t *_leaf_count
    cdef int32_t *_leaf_order  # leaves by free nodes, most first
    cdef int32_t *_leaf_bucket
    cdef int _switches
    cdef int32_t *_switch_level
    cdef uint8_t *_below  # [switch * leaves + leaf]
    cdef int _most_climbs
    cdef list _trial  # what has been held in it: node, resource, amount, first slot, last slot + 1
    cdef dict _memory  # of the kinds that the trial searched for, as it was before
    cdef Py_ssize_t _trial_placed
    cdef public long long scans

    def __cinit__(self, times_us, node_kinds, int kinds, int resources):
        cdef Py_ssize_t index
        self._slots = len(times_us)
        self._nodes = len(node_kinds)
        if not 0 < self._slots <= MOST_SLOTS or not 0 < resources <= MOST_RESOURCES:
            raise ValueError("too many slots or resources, or none")
        self._words = (self._nodes + 63) // 64
        self._whole_words = grid_whole(self._words + 1)
        self._blocks = (self._slots + BLOCK - 1) // BLOCK
        self._kinds = kinds
        self._resources = resources
        self._most_climbs = MOST_CLIMBS
        self._time = <int64_t *>calloc(self._slots, sizeof(int64_t))
        self._node_kind = <int32_t *>calloc(self._nodes + 1, sizeof(int32_t))
        self._fits = <uint64_t *>calloc(self._words + 1, sizeof(uint64_t))
        self._fresh = <uint8_t *>calloc(self._words + 1, sizeof(uint8_t))
        self._found = <int32_t *>calloc(self._nodes + 1, sizeof(int32_t))
        if (self._time == NULL or self._node_kind == NULL or self._fits == NULL
                or self._fresh == NULL or self._found == NULL):
            raise MemoryError
        self._free = <grid_row *>self._take_memory(
            (<size_t>self._nodes * resources + 1) * sizeof(grid_row))
        self._instants = list(times_us)
        for index in range(self._slots):
            self._time[index] = times_us[index]
        for index in range(self._nodes):
            self._node_kind[index] = node_kinds[index]
            if not 0 <= self._node_kind[index] < kinds:
                raise ValueError("a node of no kind")

    def __dealloc__(self):
        cdef int index
        for index in range(self._resources):
            free(self._planes_of[index])
            free(self._thresholds_of[index])
        for index in range(self._shapes):
            free(self._shape[index].amount)
        for index in range(self._jobs):
            free(self._job[index].gain)
            free(self._job[index].count)
        for index in range(self._masks):
            free(self._mask[index])
        free(self._mask)
        free(self._placed)
        free(self._plane)
        free(self._durations)
        free(self._ends)
        free(self._shape)
        free(self._job)
        free(self._time)
        free(self._node_kind)
        free(self._fits)
        free(self._fresh)
        free(self._found)
        free(self._leaf)
        free(self._leaf_count)
        free(self._leaf_order)
        free(self._leaf_bucket)
        free(self._switch_level)
        free(self._below)
        grid_give_back_memory(self._memory_taken)

    cdef void *_take_memory(self, size_t bytes) except NULL:
        cdef void *memory = grid_take_memory(&self._memory_taken, bytes)
        if memory == NULL:
            raise MemoryError
        return memory

    cdef inline grid_row *_row_at(self, int resource, int node) noexcept nogil:
        """Return the address of a row; NULL if the node has none."""
        return self._free + <size_t>node * self._resources + resource

    cdef inline grid_row *_row(self, int resource, int node) noexcept nogil:
        """Return the row of a node's resource; NULL if it has none."""
        cdef grid_row *row = self._row_at(resource, node)
        return row if row.count else NULL

    cdef int _add(self, grid_row *row, int start, int end, int32_t amount, int32_t *least,
                  int32_t *most) except -1 nogil:
        """Add an amount in some slots; return the least and the most of these slots then."""
        if grid_row_add(row, start, end, self._slots, amount, &self._memory_taken, &self._spare,
                        least, most):
            with gil:
                raise MemoryError
        return 0

    cdef int _slot_at(self, int64_t time_us) noexcept nogil:
        """Return the first slot that does not begin before a time, or the number of slots."""
        cdef int low = 0, high = self._slots, middle
        while low < high:
            middle = (low + high) >> 1
            if self._time[middle] < time_us:
                low = middle + 1
            else:
                high = middle
        return low

    cdef int _end(self, int slot, int64_t duration_us) noexcept nogil:
        cdef int end
        if duration_us >= FAR - self._time[slot]:
            return self._slots
        end = self._slot_at(self._time[slot] + duration_us)
        return end if end > slot else slot + 1

    def set_leaves(self, leaves):
        """Set each node's leaf switch, so that wide jobs use few switches."""
        cdef int index
        if len(leaves) != self._nodes:
            raise ValueError("a leaf per node is needed")
        self._leaf = <int32_t *>malloc((self._nodes + 1) * sizeof(int32_t))
        if self._leaf == NULL:
            raise MemoryError
        for index in range(self._nodes):
            self._leaf[index] = leaves[index]
            if self._leaf[index] < 0:
                raise ValueError("a leaf below 0")
            self._leaves = max(self._leaves, self._leaf[index] + 1)
        self._leaf_count = <int32_t *>calloc(self._leaves + 1, sizeof(int32_t))
        self._leaf_order = <int32_t *>calloc(self._leaves + 1, sizeof(int32_t))
        self._leaf_bucket = <int32_t *>calloc(self._nodes + 2, sizeof(int32_t))
        if self._leaf_count == NULL or self._leaf_order == NULL or self._leaf_bucket == NULL:
            raise MemoryError

    def set_switches(self, switches):
        """Set the leaves below each higher switch: (level, leaves), lowest level first.

        From then on no job is spread over leaves without a common switch.
        """
        cdef int switch, leaf
        if self._leaf == NULL or self._below != NULL:
            raise ValueError("leaves have to be set, and switches once")
        self._switches = len(switches)
        self._switch_level = <int32_t *>calloc(self._switches + 1, sizeof(int32_t))
        self._below = <uint8_t *>calloc(<size_t>self._switches * self._leaves + 1, 1)
        if self._switch_level == NULL or self._below == NULL:
            raise MemoryError
        for switch in range(self._switches):
            self._switch_level[switch] = switches[switch][0]
            for leaf in switches[switch][1]:
                if not 0 <= leaf < self._leaves:
                    raise IndexError(leaf)
                self._below[<size_t>switch * self._leaves + leaf] = 1

    def set_amounts(self, int resource, amounts):
        """Set how much of a resource each node has when no job runs; 0 makes no row."""
        cdef int node, rows = 0
        cdef int32_t amount
        cdef char *blocks
        if not 0 <= resource < self._resources or len(amounts) != self._nodes or self._planes:
            raise ValueError("amounts do not match the nodes, or planes exist already")
        for node in range(self._nodes):
            rows += amounts[node] > 0
        blocks = <char *>self._take_memory(<size_t>rows * FIRST_BLOCK)
        for node in range(self._nodes):
            amount = amounts[node]
            if amount > 0:
                grid_row_begin(self._row_at(resource, node), blocks, amount)
                blocks += FIRST_BLOCK

    def hold(self, const int64_t[::1] held, const int32_t[::1] begins, const int64_t[::1] until_us):
        """Take the holdings of running jobs until they end.

        Args:
            held: holdings, one job after the other, each as `holding` returns it.
            begins: the first holding of each job, and the end of the last job's.
            until_us: when each job ends; below 0 it holds nothing.
        """
        cdef Py_ssize_t job, index, jobs = until_us.shape[0]
        cdef int end
        if self._planes:
            raise ValueError("planes exist already")
        if begins.shape[0] != jobs + 1 or begins[jobs] > held.shape[0]:
            raise ValueError("beginnings do not match the jobs")
        with nogil:
            for job in range(jobs):
                if until_us[job] >= 0:
                    end = max(1, self._slot_at(until_us[job]))
                    for index in range(begins[job], begins[job + 1]):
                        self._hold(held[index], end)

    cdef int _hold(self, int64_t held, int end) except -1 nogil:
        """Take a holding in the slots before one."""
        cdef int node = held >> HELD_NODE_BIT, resource = (held >> HELD_RESOURCE_BIT) & 0xff
        cdef int32_t amount = <int32_t>held, least, most
        cdef grid_row *row
        if not 0 <= node < self._nodes or resource >= self._resources:
            with gil:
                raise IndexError((node, resource))
        row = self._row(resource, node)
        if row != NULL and amount:
            self._add(row, 0, end, -amount, &least, &most)
        return 0

    def add_plane(self, int resource, thresholds):
        """Return a new plane: a bit where a node has at least the threshold of its kind.

        Holdings so far must have begun and must end: then amounts grow with time.
        """
        cdef int plane = self._planes, number, kind
        if len(thresholds) != self._kinds or not 0 <= resource < self._resources:
            raise ValueError("a threshold per kind is needed")
        if plane == self._room_planes:
            self._room_planes = max(16, 2 * plane)
            self._plane = <grid_block **>realloc(self._plane, self._room_planes * sizeof(void *))
            if self._plane == NULL:
                raise MemoryError
        number = self._plane_count[resource]
        self._planes_of[resource] = <int *>realloc(
            self._planes_of[resource], (number + 1) * sizeof(int))
        self._thresholds_of[resource] = <int32_t *>realloc(
            self._thresholds_of[resource], (number + 1) * self._kinds * sizeof(int32_t))
        if self._planes_of[resource] == NULL or self._thresholds_of[resource] == NULL:
            raise MemoryError
        self._plane[plane] = <grid_block *>self._take_memory(
            (<size_t>self._words * self._blocks + 1) * sizeof(grid_block))
        self._planes_of[resource][number] = plane
        for kind in range(self._kinds):
            self._thresholds_of[resource][number * self._kinds + kind] = thresholds[kind]
        self._plane_count[resource] += 1
        self._planes += 1
        with nogil:
            self._fill_plane(plane, resource, self._thresholds_of[resource] + number * self._kinds)
        return plane

    cdef int _fill_plane(self, int plane, int resource, int32_t *thresholds) except -1 nogil:
        """Set a bit from the first slot in which a node has enough."""
        cdef int word, node, slot, bit, block
        cdef int32_t threshold
        cdef grid_row *row
        cdef grid_block *blocks
        cdef uint64_t[MOST_SLOTS] bits
        cdef uint64_t seen
        for word in range(self._words):
            blocks = self._plane[plane] + <size_t>word * self._blocks
            memset(bits, 0, self._blocks * BLOCK * sizeof(uint64_t))
            for bit in range(64):
                node = word * 64 + bit
                if node >= self._nodes:
                    break
                row = self._row(resource, node)
                threshold = thresholds[self._node_kind[node]]
                if row != NULL:
                    slot = grid_row_reaches(row, threshold, self._slots)
                else:
                    slot = 0 if threshold <= 0 else self._slots
                if slot < self._slots:
                    bits[slot] |= <uint64_t>1 << bit
            seen = 0
            for slot in range(self._blocks * BLOCK):
                seen |= bits[slot]
                bits[slot] = seen
            for block in range(self._blocks):
                if grid_block_fill(blocks + block, bits + block * BLOCK, &self._memory_taken,
                                   &self._words_taken):
                    with gil:
                        raise MemoryError
        return 0

    def add_shape(self, resources, planes, amounts, int inexact):
        """Return a new shape: what one node must give.

        Args:
            resources: their numbers; those that no plane has exactly come first.
            planes: planes that must have a node's bit.
            amounts: per node kind a sequence with the amount of each of the resources.
            inexact: how many of the resources must be looked up in the rows.
        """
        cdef int shape = self._shapes, place, kind, number = len(resources)
        cdef Shape *made
        if number > MOST_RESOURCES or len(planes) > MOST_RESOURCES:
            raise ValueError("too many resources or planes")
        if len(amounts) != self._kinds:
            raise ValueError("amounts per kind are needed")
        if shape == self._room_shapes:
            self._room_shapes = max(64, 2 * shape)
            self._shape = <Shape *>realloc(self._shape, self._room_shapes * sizeof(Shape))
            if self._shape == NULL:
                raise MemoryError
        made = self._shape + shape
        made.amount = <int32_t *>malloc((self._kinds * number + 1) * sizeof(int32_t))
        if made.amount == NULL:
            raise MemoryError
        self._shapes += 1
        made.resources, made.planes, made.inexact = number, len(planes), inexact
        for place in range(number):
            made.resource[place] = resources[place]
            if not 0 <= made.resource[place] < self._resources:
                raise IndexError(resources[place])
            for kind in range(self._kinds):
                made.amount[kind * number + place] = amounts[kind][place]
        for place in range(made.planes):
            made.plane[place] = planes[place]
            if not 0 <= made.plane[place] < self._planes:
                raise IndexError(planes[place])
        return shape

    def add_mask(self, bytes nodes):
        """Return a new set of nodes, given with a byte per node."""
        cdef int word, bit, mask = self._masks
        cdef const uint8_t *suits = nodes
        cdef uint64_t bits
        if len(nodes) != self._nodes:
            raise ValueError("a byte per node is needed")
        if mask == self._room_masks:
            self._room_masks = max(16, 2 * mask)
            self._mask = <uint64_t **>realloc(self._mask, self._room_masks * sizeof(void *))
            if self._mask == NULL:
                raise MemoryError
        self._mask[mask] = <uint64_t *>calloc(self._words + 1, sizeof(uint64_t))
        if self._mask[mask] == NULL:
            raise MemoryError
        self._masks += 1
        for word in range(self._words):
            bits = 0
            for bit in range(min(64, self._nodes - word * 64)):
                if suits[word * 64 + bit]:
                    bits |= <uint64_t>1 << bit
            self._mask[mask][word] = bits
        return mask

    def add_kind(self, int shape, int mask, int nodes, int64_t duration_us, int required=-1):
        """Return a new kind of job: so many nodes of a shape among a set, for a duration."""
        cdef int kind = self._jobs, word
        cdef Kind *made
        if not 0 <= shape < self._shapes or not 0 <= mask < self._masks or nodes < 1:
            raise ValueError("no such shape or mask, or less than one node")
        if required >= self._masks:
            raise ValueError("no such mask")
        if kind == self._room_jobs:
            self._room_jobs = max(64, 2 * kind)
            self._job = <Kind *>realloc(self._job, self._room_jobs * sizeof(Kind))
            if self._job == NULL:
                raise MemoryError
        made = self._job + kind
        memset(made, 0, sizeof(Kind))
        self._jobs += 1
        made.shape, made.nodes, made.duration_us = shape, nodes, duration_us
        made.ends = self._ends_of(duration_us)
        made.cursor = -1
        made.mask = self._mask[mask]
        made.required = self._mask[required] if required >= 0 else NULL
        made.best = -1
        made.gain = <int16_t *>calloc(self._whole_words, sizeof(int16_t))
        made.count = <uint8_t *>calloc(self._words + 1, sizeof(uint8_t))
        if made.gain == NULL or made.count == NULL:
            raise MemoryError
        for word in range(self._words, self._whole_words):
            made.gain[word] = MOST_GAIN
        return kind

    cdef int16_t *_ends_of(self, int64_t duration_us) except NULL:
        """Return the first slot after a job of such a duration, for each first slot."""
        cdef int number = self._duration_count, index, slot
        cdef int16_t *ends
        for index in range(number):
            if self._durations[index] == duration_us:
                return self._ends[index]
        if number == self._room_durations:
            self._room_durations = max(16, 2 * number)
            self._durations = <int64_t *>realloc(
                self._durations, self._room_durations * sizeof(int64_t))
            self._ends = <int16_t **>realloc(self._ends, self._room_durations * sizeof(void *))
            if self._durations == NULL or self._ends == NULL:
                raise MemoryError
        ends = <int16_t *>self._take_memory(self._slots * sizeof(int16_t))
        for slot in range(self._slots):
            ends[slot] = self._end(slot, duration_us)
        self._durations[number], self._ends[number] = duration_us, ends
        self._duration_count += 1
        return ends

    def leave_open(self, int kind):
        """Let the caller choose among `fitting` whenever jobs of a kind are found."""
        if not 0 <= kind < self._jobs:
            raise IndexError(kind)
        self._job[kind].is_open = True
