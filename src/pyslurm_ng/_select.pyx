# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, embedsignature=True, auto_pickle=False
"""Numeric kernels of the scheduler: free resources over time, and where requests first fit.

Everything here is plain C arrays; the loops run without the GIL. Each class has a slow, obvious
twin in tests/oracle.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

cdef int64_t FAR = <int64_t>1 << 62
NEVER = -1

cdef enum:
    MOST_KINDS = 64


cdef class Profile:
    """Free amounts of a few kinds of things over time, exact to the microsecond.

    A slot lasts from its boundary to the next one, the last for ever. With `most` boundaries in
    use, the end of a holding is rounded up to the next boundary there is: what is planned then is
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

    def release(self, int64_t time_us, Py_ssize_t kind, int64_t amount):
        """Let `amount` of a kind be free from a time on."""
        if not 0 <= kind < self._kinds:
            raise IndexError(kind)
        cdef Py_ssize_t index = self._boundary(time_us)
        cdef int64_t *row = self._free + kind * self._room
        while index < self._count:
            row[index] += amount
            index += 1

    def find(self, tuple kinds, tuple amounts, int64_t duration_us, int64_t not_before_us):
        """Return the earliest boundary from which all amounts are free for a duration, or NEVER."""
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
        return self._time[place] if place >= 0 else NEVER

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

    def take(self, int64_t start_us, int64_t duration_us, tuple kinds, tuple amounts):
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

    def slots(self):
        """Return (boundary, amounts) of every slot."""
        return [
            (self._time[slot],
             tuple(self._free[kind * self._room + slot] for kind in range(self._kinds)))
            for slot in range(self._count)
        ]


# Single nodes over time --------------------------------------------------------------------------

cdef extern from *:
    """
    #include "_grid.h"
    static inline int pyslurm_popcount(unsigned long long word) { return __builtin_popcountll(word); }
    static inline int pyslurm_lowest(unsigned long long word) { return __builtin_ctzll(word); }
    """
    int popcount "pyslurm_popcount"(uint64_t word) noexcept nogil
    int lowest "pyslurm_lowest"(uint64_t word) noexcept nogil

    cdef struct grid_memory:
        pass

    cdef enum:
        BLOCK "GRID_BLOCK"

    void *grid_take_memory(grid_memory **memory, size_t bytes) noexcept nogil
    void grid_give_back_memory(grid_memory *memory) noexcept nogil
    int grid_first_least(const int16_t *numbers, int count) noexcept nogil
    void grid_take_off(int32_t *cells, int count, int32_t amount, int32_t *least,
                       int32_t *most) noexcept nogil
    void grid_clear_below(const int32_t *cells, uint64_t *bits, uint64_t *summary, int start,
                          int end, int32_t threshold, int32_t amount, uint64_t bit) noexcept nogil

cdef enum:
    MOST_RESOURCES = 32
    MOST_SLOTS = 4096
    PARENTS = 4
    LEAST_REGION = 1024  # nodes among which to plan a job of several nodes beyond now
    REGION_FACTOR = 16  # at least so many times the nodes it wants
    MOST_CLIMBS = 4  # words to bring up to date for one job of a long queue


cdef struct Shape:
    # What one node must give: resources, amounts per node kind, and the planes that tell.
    int resources
    int resource[MOST_RESOURCES]
    int32_t *amount  # [kind * resources + place]
    int planes
    int plane[MOST_RESOURCES]
    int inexact  # how many resources have no plane of just their amount; these come first


cdef struct Kind:
    # All jobs of one shape, node set, node count and duration; scans resume where they ended.
    int shape
    int nodes
    int64_t duration_us
    int16_t *ends  # first slot after such a job, by the slot that it starts in
    int cursor  # -1 before the first search
    int limited  # something else than nodes has put it off
    int searches
    int low, high  # words to look at for places beyond now
    int parents
    int parent[PARENTS]  # easier kinds of one node: where they fit nowhere, neither does this
    bint is_open  # the caller chooses among the nodes that fit
    int mask_index
    uint64_t *mask
    uint64_t *required  # NULL if none
    int16_t *gain  # per word: slot at which more nodes may fit than are known to
    uint8_t *count  # per word: nodes that fit before that slot, at most


cdef class Grid:
    """Free resources of single nodes over time slots, and where requests first fit.

    Per node and resource a row has an amount per slot. Per threshold that requests ask for a plane
    has a bit per node and slot, 64 nodes to a word, the slots of a word side by side: a set of
    nodes free over a window is an AND over consecutive words. Amounts only shrink once planes have
    been built, so each kind of job goes on looking where its predecessor found room.
    """

    cdef int _slots, _nodes, _words, _resources, _kinds, _planes, _shapes, _jobs
    cdef int _room_planes, _room_shapes, _room_jobs, _leaves
    cdef int64_t *_time
    cdef list _instants  # the same as Python's numbers: a hundred thousand starts share them
    cdef int32_t *_node_kind
    cdef int32_t *_row_of  # [resource * nodes + node], -1 where a node has none
    cdef grid_memory *_memory_taken  # rows, planes and summaries
    cdef int32_t *_free[MOST_RESOURCES]  # [row * slots + slot]
    cdef int *_planes_of[MOST_RESOURCES]
    cdef int32_t *_thresholds_of[MOST_RESOURCES]  # [number of the plane * kinds + kind]
    cdef int _plane_count[MOST_RESOURCES]
    cdef uint64_t **_plane  # [plane][word * slots + slot]
    cdef uint64_t **_summary  # [plane][word * blocks + block]: AND of the block's slots
    cdef int _blocks
    cdef uint64_t **_mask
    cdef int _masks, _room_masks
    cdef int32_t *_placed  # nodes of jobs placed, one after another
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
    cdef uint64_t _left_over  # what was free until the slot that left nothing
    cdef int _most_climbs
    cdef list _trial  # what has been held in it: node, resource, amount, first slot, last slot + 1
    cdef dict _memory  # of the kinds searched for in the trial, as it was before
    cdef Py_ssize_t _trial_placed
    cdef public long long scans

    def __cinit__(self, times_us, node_kinds, int kinds, int resources):
        cdef Py_ssize_t index
        self._slots = len(times_us)
        self._nodes = len(node_kinds)
        if not 0 < self._slots <= MOST_SLOTS or not 0 < resources <= MOST_RESOURCES:
            raise ValueError("too many slots or resources, or none")
        self._words = (self._nodes + 63) // 64
        self._blocks = (self._slots + BLOCK - 1) // BLOCK
        self._kinds = kinds
        self._resources = resources
        self._most_climbs = MOST_CLIMBS
        self._time = <int64_t *>calloc(self._slots, sizeof(int64_t))
        self._node_kind = <int32_t *>calloc(self._nodes + 1, sizeof(int32_t))
        self._row_of = <int32_t *>malloc((self._nodes * resources + 1) * sizeof(int32_t))
        self._fits = <uint64_t *>calloc(self._words + 1, sizeof(uint64_t))
        self._fresh = <uint8_t *>calloc(self._words + 1, sizeof(uint8_t))
        self._found = <int32_t *>calloc(self._nodes + 1, sizeof(int32_t))
        if (self._time == NULL or self._node_kind == NULL or self._row_of == NULL
                or self._fits == NULL or self._fresh == NULL or self._found == NULL):
            raise MemoryError
        self._instants = list(times_us)
        for index in range(self._slots):
            self._time[index] = times_us[index]
        for index in range(self._nodes):
            self._node_kind[index] = node_kinds[index]
            if not 0 <= self._node_kind[index] < kinds:
                raise ValueError("a node of no kind")
        for index in range(self._nodes * resources):
            self._row_of[index] = -1

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
        free(self._summary)
        free(self._durations)
        free(self._ends)
        free(self._shape)
        free(self._job)
        free(self._time)
        free(self._node_kind)
        free(self._row_of)
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

    cdef inline int32_t *_cells(self, int resource, int node) noexcept nogil:
        """Return what is free of a resource on a node, by slot; NULL where it has none."""
        cdef int row = self._row_of[resource * self._nodes + node]
        return NULL if row < 0 else self._free[resource] + <size_t>row * self._slots

    def set_leaves(self, leaves):
        """Say below which leaf switch each node is, so that wide jobs use few of them."""
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
        """Say which leaves are below each higher switch: (level, leaves), lowest level first.

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
        """Set what each node has of a resource when no job runs; 0 makes no row."""
        cdef int node, slot, rows = 0
        cdef int32_t amount
        cdef int32_t *cells
        if not 0 <= resource < self._resources or len(amounts) != self._nodes or self._planes:
            raise ValueError("amounts do not match the nodes, or planes exist already")
        for node in range(self._nodes):
            rows += amounts[node] > 0
        cells = <int32_t *>self._take_memory((<size_t>rows * self._slots + 1) * sizeof(int32_t))
        self._free[resource] = cells
        rows = 0
        for node in range(self._nodes):
            amount = amounts[node]
            if amount > 0:
                self._row_of[resource * self._nodes + node] = rows
                rows += 1
                for slot in range(self._slots):
                    cells[slot] = amount
                cells += self._slots

    cdef int _slot_at(self, int64_t time_us) noexcept nogil:
        """Return the first slot that begins not before a time, or the number of slots."""
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

    def hold(self, held, int64_t until_us):
        """Take what a running job holds until its end.

        Args:
            held: node, resource, amount; node, resource, amount ... in one sequence.
        """
        cdef Py_ssize_t index
        cdef int node, resource, slot, end = max(1, self._slot_at(until_us))
        cdef int32_t amount
        cdef int32_t *cells
        if self._planes:
            raise ValueError("planes exist already")
        for index in range(0, len(held) - 2, 3):
            node, resource, amount = held[index], held[index + 1], held[index + 2]
            if not 0 <= node < self._nodes or not 0 <= resource < self._resources:
                raise IndexError((node, resource))
            cells = self._cells(resource, node)
            if cells != NULL:
                for slot in range(end):
                    cells[slot] -= amount

    def add_plane(self, int resource, thresholds):
        """Return a new plane: a bit where a node has at least the threshold of its kind.

        What has been held until now must end sometime and not begin later: amounts grow with time.
        """
        cdef int plane = self._planes, number, kind
        if len(thresholds) != self._kinds or not 0 <= resource < self._resources:
            raise ValueError("a threshold per kind is needed")
        if plane == self._room_planes:
            self._room_planes = max(16, 2 * plane)
            self._plane = <uint64_t **>realloc(self._plane, self._room_planes * sizeof(void *))
            self._summary = <uint64_t **>realloc(
                self._summary, self._room_planes * sizeof(void *))
            if self._plane == NULL or self._summary == NULL:
                raise MemoryError
        number = self._plane_count[resource]
        self._planes_of[resource] = <int *>realloc(
            self._planes_of[resource], (number + 1) * sizeof(int))
        self._thresholds_of[resource] = <int32_t *>realloc(
            self._thresholds_of[resource], (number + 1) * self._kinds * sizeof(int32_t))
        if self._planes_of[resource] == NULL or self._thresholds_of[resource] == NULL:
            raise MemoryError
        self._plane[plane] = <uint64_t *>self._take_memory(
            (<size_t>self._words * self._slots + 1) * sizeof(uint64_t))
        self._summary[plane] = <uint64_t *>self._take_memory(
            (<size_t>self._words * self._blocks + 1) * sizeof(uint64_t))
        self._planes_of[resource][number] = plane
        for kind in range(self._kinds):
            self._thresholds_of[resource][number * self._kinds + kind] = thresholds[kind]
        self._plane_count[resource] += 1
        self._planes += 1
        with nogil:
            self._fill_plane(plane, resource, self._thresholds_of[resource] + number * self._kinds)
        return plane

    cdef void _fill_plane(self, int plane, int resource, int32_t *thresholds) noexcept nogil:
        """Set a bit from the slot on in which a node has enough."""
        cdef int word, node, slot, low, high, middle, bit
        cdef int32_t threshold
        cdef int32_t *cells
        cdef uint64_t *bits
        cdef uint64_t seen
        for word in range(self._words):
            bits = self._plane[plane] + <size_t>word * self._slots
            for bit in range(64):
                node = word * 64 + bit
                if node >= self._nodes:
                    break
                cells = self._cells(resource, node)
                threshold = thresholds[self._node_kind[node]]
                if cells == NULL:
                    if threshold <= 0:
                        bits[0] |= <uint64_t>1 << bit
                    continue
                low, high = 0, self._slots
                while low < high:
                    middle = (low + high) >> 1
                    if cells[middle] < threshold:
                        low = middle + 1
                    else:
                        high = middle
                if low < self._slots:
                    bits[low] |= <uint64_t>1 << bit
            seen = 0
            for slot in range(self._slots):
                seen |= bits[slot]
                bits[slot] = seen
                # Bits only come in with time here: the first slot of a block has fewest.
                if slot % BLOCK == 0:
                    self._summary[plane][<size_t>word * self._blocks + slot // BLOCK] = seen

    def add_shape(self, resources, planes, amounts, int inexact):
        """Return a new shape: what one node must give.

        Args:
            resources: which, those whose amount no plane tells exactly first.
            planes: planes that must have a node's bit.
            amounts: per node kind a sequence with the amount of each of the resources.
            inexact: how many of the resources have to be looked up in the rows.
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
        cdef int kind = self._jobs
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
        made.mask_index, made.mask = mask, self._mask[mask]
        made.required = self._mask[required] if required >= 0 else NULL
        made.gain = <int16_t *>calloc(self._words + 1, sizeof(int16_t))
        made.count = <uint8_t *>calloc(self._words + 1, sizeof(uint8_t))
        if made.gain == NULL or made.count == NULL:
            raise MemoryError
        return kind

    cdef int16_t *_ends_of(self, int64_t duration_us) except NULL:
        """Return the first slot after a job of such a duration, for each slot to start in."""
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

    def fitting(self):
        """Return the nodes that fit a job of an open kind found last: a bit each, first lowest."""
        return (<const unsigned char *>self._fits)[:self._words * 8]

    def choose(self, int kind, nodes):
        """Settle for some of the nodes that fit the job found last."""
        cdef int node
        if not 0 <= kind < self._jobs or len(nodes) != self._job[kind].nodes:
            raise ValueError("as many nodes as the job needs")
        self._found_count = 0
        for node in nodes:
            if not 0 <= node < self._nodes or not self._fits[node >> 6] >> (node & 63) & 1:
                raise IndexError(node)
            self._found[self._found_count] = node
            self._found_count += 1

    cdef bint _is_easier(self, Kind *other, Kind *job) noexcept nogil:
        """Return whether wherever a job fits on a node the other one would."""
        return (
            other.duration_us <= job.duration_us
            and (other.shape == job.shape or self._is_less(other.shape, job.shape))
            and (other.mask_index == job.mask_index
                 or self._is_within(job.mask_index, other.mask_index))
        )

    cdef bint _is_less(self, int low, int high) noexcept nogil:
        """Return whether one shape needs no more than another of anything."""
        cdef Shape *theirs = self._shape + low
        cdef Shape *ours = self._shape + high
        cdef int place, at, kind
        for place in range(theirs.resources):
            at = 0
            while at < ours.resources and ours.resource[at] != theirs.resource[place]:
                at += 1
            for kind in range(self._kinds):
                if theirs.amount[kind * theirs.resources + place] > (
                    0 if at == ours.resources else ours.amount[kind * ours.resources + at]
                ):
                    return False
        return True

    cdef bint _is_within(self, int small, int large) noexcept nogil:
        """Return whether one set of nodes is part of another."""
        cdef int word
        for word in range(self._words):
            if self._mask[small][word] & ~self._mask[large][word]:
                return False
        return True

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

    cdef void _adopt(self, Kind *job) noexcept nogil:
        """Choose as parents the easier kinds that have come farthest."""
        cdef int index, word, place, lowest_place
        cdef int64_t total
        cdef int64_t score[PARENTS]
        cdef Kind *other
        job.parents = 0
        for index in range(self._jobs):
            other = self._job + index
            if (other == job or other.cursor < 0 or other.limited or other.required != NULL
                    or other.nodes > job.nodes or not self._is_easier(other, job)):
                continue
            if other.cursor > job.cursor and other.high - other.low == self._words:
                job.cursor = other.cursor
            if other.nodes > 1:
                continue
            total = 0
            for word in range(self._words):
                total += other.gain[word] if other.gain[word] > job.gain[word] else job.gain[word]
            if job.parents < PARENTS:
                job.parent[job.parents] = index
                score[job.parents] = total
                job.parents += 1
                continue
            lowest_place = 0
            for place in range(1, PARENTS):
                if score[place] < score[lowest_place]:
                    lowest_place = place
            if total > score[lowest_place]:
                score[lowest_place] = total
                job.parent[lowest_place] = index

    cdef void _inherit(self, Kind *job) noexcept nogil:
        """Do not look where an easier kind has found nothing."""
        cdef int place, word
        cdef int16_t *theirs
        cdef int16_t *ours = job.gain
        for place in range(job.parents):
            theirs = self._job[job.parent[place]].gain
            if job.nodes == 1:
                for word in range(self._words):
                    ours[word] = theirs[word] if theirs[word] > ours[word] else ours[word]
                continue
            for word in range(self._words):
                if theirs[word] > ours[word]:
                    ours[word] = theirs[word]
                    job.count[word] = 0

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
        cdef int place, slot, kind = self._node_kind[node]
        cdef int32_t amount
        cdef int32_t *cells
        for place in range(shape.inexact):
            amount = shape.amount[kind * shape.resources + place]
            if amount <= 0:
                continue
            cells = self._cells(shape.resource[place], node)
            if cells == NULL:
                return False
            for slot in range(start, end):
                if cells[slot] < amount:
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

    # Trials -------------------------------------------------------------------------------------

    def begin_trial(self):
        """From here on all that is held can be given back at once."""
        if self._trial is not None:
            raise ValueError("a trial is on already")
        self._trial, self._memory = [], {}
        self._trial_placed = self._placed_count

    def keep(self):
        """End the trial; what it has held stays held."""
        self._trial, self._memory = None, None

    def roll_back(self):
        """End the trial as if it had never been."""
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

    cdef void _give_back(self, int node, int resource, int32_t amount, int start,
                         int end) noexcept nogil:
        """Undo `_subtract`."""
        cdef int slot, index, plane, block
        cdef int32_t threshold
        cdef int32_t *cells = self._cells(resource, node)
        cdef uint64_t *bits
        cdef uint64_t bit = <uint64_t>1 << (node & 63), in_all
        if cells == NULL or amount <= 0:
            return
        for slot in range(start, end):
            cells[slot] += amount
        for index in range(self._plane_count[resource]):
            plane = self._planes_of[resource][index]
            threshold = self._thresholds_of[resource][
                index * self._kinds + self._node_kind[node]]
            bits = self._plane[plane] + <size_t>(node >> 6) * self._slots
            for slot in range(start, end):
                if cells[slot] >= threshold:
                    bits[slot] |= bit
            for block in range(start // BLOCK, (end - 1) // BLOCK + 1):
                in_all = bit
                for slot in range(block * BLOCK, min(self._slots, (block + 1) * BLOCK)):
                    in_all &= bits[slot]
                self._summary[plane][<size_t>(node >> 6) * self._blocks + block] |= in_all

    cdef int _search(self, Kind *job) noexcept nogil:
        if job.cursor < 0:
            self._begin(job)
        if job.nodes == 1 and job.required == NULL and not job.is_open:
            return self._find_one(job)
        return self._find_many(job)

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

    cdef Py_ssize_t _record(self, Kind *job) except -1:
        """Hold what was found and remember its nodes."""
        cdef Py_ssize_t number = self._placed_count
        cdef int32_t *nodes
        if number + self._found_count + 1 > self._placed_room:
            self._placed_room = max(1024, 2 * (self._placed_room + self._found_count))
            nodes = <int32_t *>realloc(self._placed, self._placed_room * sizeof(int32_t))
            if nodes == NULL:
                raise MemoryError
            self._placed = nodes
        if self._trial is not None:
            self._note_found(job)
        with nogil:
            self._hold_found(job)
        self._placed[number] = self._found_count
        memcpy(self._placed + number + 1, self._found, self._found_count * sizeof(int32_t))
        self._placed_count += self._found_count + 1
        return number

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

    def placed(self, Py_ssize_t number):
        """Return the nodes of a placing."""
        cdef Py_ssize_t index
        if not 0 <= number < self._placed_count:
            raise IndexError(number)
        return [self._placed[number + 1 + index] for index in range(self._placed[number])]

    def all_placed(self):
        """Return all placings as bytes of 32-bit numbers, each a count and that many nodes."""
        return (<char *>self._placed)[:self._placed_count * sizeof(int32_t)]

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
                job.limited = 1
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

    cdef void _pick(self, Kind *job, int place, uint64_t bit) noexcept nogil:
        self._found[self._found_count] = place * 64 + lowest(bit)
        self._found_count += 1

    cdef bint _choose(self, Kind *job) noexcept nogil:
        """Choose among `_fits`: required ones, then below few leaf switches, then in order."""
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
                # The tightest leaf that holds the rest, else the one with most nodes.
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
        job.limited = 1
        job.cursor = max(job.cursor, slot)
        for place in range(self._words):
            if job.gain[place] < slot:
                job.gain[place] = slot

    def found(self):
        """Return the nodes of the last job found."""
        return [self._found[index] for index in range(self._found_count)]

    def take_found(self, int kind):
        """Hold what was found last, for a job of this kind; return the number of the placing."""
        if not 0 <= kind < self._jobs or self._found_slot < 0:
            raise ValueError("nothing was found")
        return self._record(self._job + kind)

    cdef void _hold_found(self, Kind *job) noexcept nogil:
        cdef int index, place, node, amount_at, end = job.ends[self._found_slot]
        cdef Shape *shape = self._shape + job.shape
        for index in range(self._found_count):
            node = self._found[index]
            amount_at = self._node_kind[node] * shape.resources
            for place in range(shape.resources):
                self._subtract(node, shape.resource[place], shape.amount[amount_at + place],
                               self._found_slot, end)

    def take(self, int node, int resource, int32_t amount, int64_t start_us, int64_t end_us):
        """Hold an amount on one node during a time."""
        if not 0 <= node < self._nodes or not 0 <= resource < self._resources:
            raise IndexError((node, resource))
        cdef int start = self._slot_at(start_us + 1) - 1
        cdef int end = self._slot_at(end_us)
        if self._trial is not None:
            self._trial.append((node, resource, amount, max(0, start), max(end, start + 1)))
        self._subtract(node, resource, amount, max(0, start), max(end, start + 1))

    cdef void _subtract(self, int node, int resource, int32_t amount, int start,
                        int end) noexcept nogil:
        cdef int index, plane, word = node >> 6
        cdef int32_t least, most, threshold
        cdef int32_t *cells = self._cells(resource, node)
        cdef int32_t *thresholds = self._thresholds_of[resource] + self._node_kind[node]
        if cells == NULL or amount <= 0:
            return
        grid_take_off(cells + start, end - start, amount, &least, &most)
        for index in range(self._plane_count[resource]):
            threshold = thresholds[index * self._kinds]
            if least < threshold <= most + amount:
                plane = self._planes_of[resource][index]
                grid_clear_below(cells, self._plane[plane] + <size_t>word * self._slots,
                                 self._summary[plane] + <size_t>word * self._blocks, start, end,
                                 threshold, amount, <uint64_t>1 << (node & 63))

    cdef int _tasks_on(self, Shape *shape, int node, tasks_amounts, int most, int end) except -1:
        """Return how many tasks fit on a node that fits one, until a slot."""
        cdef int at, slot, fit, tasks = most, node_kind = self._node_kind[node]
        cdef int32_t least, each
        cdef int32_t *cells
        for at in range(shape.resources):
            each = tasks_amounts[node_kind][at]
            cells = self._cells(shape.resource[at], node)
            if each <= 0 or cells == NULL:
                continue
            least = 2147483647
            for slot in range(end):
                least = cells[slot] if cells[slot] < least else least
            fit = 1 + (least - shape.amount[node_kind * shape.resources + at]) // each
            tasks = fit if fit < tasks else tasks
        return max(tasks, 0)

    def tasks_on(self, int kind, nodes, tasks_amounts, int most):
        """Return how many tasks each of some nodes can hold now; see `capacity`."""
        if not 0 <= kind < self._jobs:
            raise IndexError(kind)
        cdef Shape *shape = self._shape + self._job[kind].shape
        cdef int end = self._job[kind].ends[0], node
        answer = []
        for node in nodes:
            if not 0 <= node < self._nodes:
                raise IndexError(node)
            answer.append(self._tasks_on(shape, node, tasks_amounts, most, end))
        return answer

    def capacity(self, int kind, tasks_amounts, int most, long long enough):
        """Return (node, tasks) for nodes that can hold some tasks now and as long as the job lasts.

        Args:
            kind: a kind for one task on a node.
            tasks_amounts: per node kind, what each further task needs of each resource of the
                kind's shape.
            most: tasks a node may get.
            enough: stop when the tasks of the nodes found add up to this.
        """
        cdef long long total = 0
        cdef int place, node, end, tasks
        cdef Kind *job
        cdef Shape *shape
        cdef uint64_t fits
        if not 0 <= kind < self._jobs:
            raise IndexError(kind)
        self._remember(kind)
        job = self._job + kind
        shape = self._shape + job.shape
        end = job.ends[0]
        answer = []
        for place in range(self._words):
            fits = self._exact(job, place, self._scan(job, place, 0, end), 0, end, False)
            job.gain[place] = 0
            if total >= enough:
                break
            while fits and total < enough:
                node = place * 64 + lowest(fits)
                fits &= fits - 1
                tasks = self._tasks_on(shape, node, tasks_amounts, most, end)
                total += tasks
                answer.append((node, tasks))
        return answer

    def free_at(self, int node, int resource):
        """Return the free amount of every slot."""
        cdef int32_t *cells = self._cells(resource, node)
        return [0 if cells == NULL else cells[slot] for slot in range(self._slots)]
