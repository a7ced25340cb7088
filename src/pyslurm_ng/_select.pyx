# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, embedsignature=True, auto_pickle=False
"""Numeric kernels of the scheduler: free resources over time, and where requests first fit.

Everything here is plain C arrays; the loops run without the GIL. Each class has a slow, obvious
twin in tests/oracle.
"""

from array import array

from libc.math cimport INFINITY
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcpy, memmove, memset

cdef extern from "Python.h":
    ctypedef struct PyObject
    ctypedef struct PyListObject:
        PyObject **ob_item
    void PyObject_GC_UnTrack(void *)

cdef int64_t FAR = <int64_t>1 << 62
NEVER = -1

cdef enum:
    MOST_KINDS = 64

cdef int64_t MOST_PRIORITY = 4294967295


def untracked(list items):
    """Return a list that the garbage collector no longer tracks.

    For large lists that are in no cycle: the collector takes several milliseconds for a hundred
    thousand jobs, and no other thread runs in the meantime.
    """
    PyObject_GC_UnTrack(<void *>items)
    return items


include "kernels/numbers_by_job.pxi"
include "kernels/fair_share.pxi"


cdef struct Place:
    # The place of an entry in the queue of a pass.
    int64_t leads
    int64_t submit_us
    int64_t job_id
    int64_t index


cdef int earlier(const void *one, const void *other) noexcept nogil:
    cdef const int64_t *left = <const int64_t *>one
    cdef const int64_t *right = <const int64_t *>other
    cdef int field
    for field in range(4):
        if left[field] != right[field]:
            return -1 if left[field] < right[field] else 1
    return 0


cdef int put_in_order(list entries, const Place *places) except -1:
    """Sort entries as their places are sorted; no other code may refer to them yet."""
    cdef Py_ssize_t index, count = len(entries)
    cdef PyObject **items = (<PyListObject *>entries).ob_item
    cdef PyObject **before = <PyObject **>malloc((count + 1) * sizeof(PyObject *))
    if before == NULL:
        raise MemoryError
    with nogil:
        memcpy(before, items, count * sizeof(PyObject *))
        for index in range(count):
            items[index] = before[places[index].index]
        free(before)
    return 0


def taken_over(list waiting, list before, list known, prepare):
    """Return the prepared entries of each job: those of the last pass, or new ones by `prepare`.

    Jobs keep their order and new jobs come last, so a position that moves through the last pass's
    jobs finds most of them. A dict of a hundred thousand jobs would take ten times the memory.

    Args:
        before, known: the last pass's jobs and what was prepared for each; None: not valid.
    """
    cdef Py_ssize_t index, place = 0, count = len(before)
    cdef list found = untracked([])
    for index in range(len(waiting)):
        if index % 256 == 255:
            with nogil:
                pass  # other threads get the interpreter now, not after the whole queue
        job = waiting[index]
        if place < count and before[place] is not job:
            job_id = job.job_id
            while place < count and before[place].job_id < job_id:
                place += 1
        prepared = None
        if place < count and before[place] is job:
            prepared = known[place]
            place += 1
        found.append(prepare(job) if prepared is None else prepared)
    return found


def rank(list waiting, list moving, list prepared, NumbersKept priorities):
    """Return the parts of a pass's queue: entries in order, demands, jobs without any.

    An entry holds its sort key, the job and its demand; entries with equal keys are in the order of
    submission. Each demand is there once.

    Args:
        moving: the part of each job's priority that changes with time and usage.
        prepared: (tier, fixed priority, is that all, demand) for each of a job's entries.
        priorities: each job's is entered, as in the first of its entries.
    """
    cdef Py_ssize_t index, count, room = len(waiting) + 16
    cdef int64_t priority, submit_us, job_number
    cdef tuple each, entry
    cdef list entries = untracked([]), without = []
    cdef dict demands = {}
    cdef Place *grown
    cdef Place *places = <Place *>malloc(room * sizeof(Place))
    if places == NULL:
        raise MemoryError
    try:
        for index in range(len(waiting)):
            if index % 256 == 255:
                with nogil:
                    pass  # other threads get the interpreter now, not after the whole queue
            job = waiting[index]
            job_id = job.job_id
            submit_us, job_number = job.submit_us, job_id
            if not <tuple>prepared[index]:
                without.append(job)
            for each in <tuple>prepared[index]:
                if each[2]:
                    priority = each[1]
                else:
                    priority = <int64_t>(<double>each[1] + <double>moving[index])
                    priority = min(MOST_PRIORITY, max(1, priority))
                if not priorities.has(job_number):
                    priorities.put(job_number, priority)
                leads = each[0] - priority
                count = len(entries)
                if count == room:
                    room *= 2
                    grown = <Place *>realloc(places, room * sizeof(Place))
                    if grown == NULL:
                        raise MemoryError
                    places = grown
                places[count].leads = leads
                places[count].submit_us = submit_us
                places[count].job_id = job_number
                places[count].index = count
                entry = leads, job, each[3]
                PyObject_GC_UnTrack(<void *>entry)
                entries.append(entry)
                if each[3] not in demands:
                    demands[each[3]] = None
        count = len(entries)
        with nogil:
            qsort(places, count, sizeof(Place), earlier)
        put_in_order(entries, places)
        return entries, list(demands), without
    finally:
        free(places)


def first_of_each(const int64_t[::1] job_ids, const int64_t[::1] numbers):
    """Return the job ids in ascending order, once each, and the first number of each.

    Both are 64-bit numbers; a dict of a hundred thousand would take ten times the memory.
    """
    cdef Py_ssize_t index, kept = 0, count = job_ids.shape[0]
    cdef Place *places = <Place *>malloc((count + 1) * sizeof(Place))
    if places == NULL:
        raise MemoryError
    try:
        with nogil:
            for index in range(count):
                places[index].leads = job_ids[index]
                places[index].submit_us = places[index].job_id = 0
                places[index].index = index
            qsort(places, count, sizeof(Place), earlier)
            for index in range(count):
                if kept == 0 or places[kept - 1].leads != places[index].leads:
                    places[kept] = places[index]
                    kept += 1
        jobs, firsts = bytearray(8 * kept), bytearray(8 * kept)
        fill_first_of_each(places, kept, numbers, jobs, firsts)
        return jobs, firsts
    finally:
        free(places)


cdef void fill_first_of_each(
    const Place *places, Py_ssize_t count, const int64_t[::1] numbers, char *jobs, char *firsts
) noexcept:
    cdef Py_ssize_t index
    for index in range(count):
        (<int64_t *>jobs)[index] = places[index].leads
        (<int64_t *>firsts)[index] = numbers[places[index].index]


def places_used(const int32_t[::1] placed, Py_ssize_t nodes):
    """Return a byte for each position of a node: 1 if any placing has it.

    Args:
        placed: for each placing a count and that many positions.
    """
    cdef bytearray used = bytearray(nodes)
    cdef uint8_t[::1] flags = used
    cdef Py_ssize_t at = 0, end
    with nogil:
        while at < placed.shape[0]:
            end = at + 1 + placed[at]
            at += 1
            while at < end:
                flags[placed[at]] = 1
                at += 1
    return used


include "kernels/profile.pxi"
include "kernels/easy_backfill.pxi"


# Single nodes over time --------------------------------------------------------------------------

cdef extern from *:
    """
    #include "kernels/grid_planes.h"
    #include "kernels/grid_rows.h"
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
    void grid_fetch(const void *memory) noexcept nogil
    int grid_whole(int count) noexcept nogil
    int grid_first_least(const int16_t *numbers, int count) noexcept nogil

    cdef struct grid_view:
        pass

    cdef struct grid_edge:
        int last

    cdef struct grid_block:
        pass

    cdef struct grid_words:
        pass

    int grid_block_fill(grid_block *block, const uint64_t *each, grid_memory **memory,
                        grid_words *words) noexcept nogil
    void grid_clear_ahead(const grid_block *blocks, int start, int end) noexcept nogil
    void grid_look(grid_view *view, grid_block **planes, const int *numbers, int count, int word,
                   int blocks) noexcept nogil
    uint64_t grid_sweep(const grid_view *view, uint64_t fits, int start, int end,
                        grid_edge *edge) noexcept nogil
    int grid_edge_slot(const grid_view *view, const grid_edge *edge) noexcept nogil
    uint64_t grid_climb(const grid_view *view, uint64_t nodes, int *slot, const int16_t *ends,
                        int slots) noexcept nogil
    void grid_view_fetch(const grid_view *view, int start, int end) noexcept nogil

    cdef struct grid_row:
        int32_t *amounts
        int16_t count

    cdef struct grid_spare:
        pass

    cdef enum:
        FIRST_BLOCK "GRID_FIRST_BLOCK"

    void grid_row_begin(grid_row *row, void *block, int32_t amount) noexcept nogil
    int16_t *grid_slots(const grid_row *row) noexcept nogil
    void grid_row_fetch(const grid_row *row) noexcept nogil
    int grid_row_add(grid_row *row, int start, int end, int slots, int32_t amount,
                     grid_memory **memory, grid_spare *spare, int32_t *least,
                     int32_t *most) noexcept nogil
    int32_t grid_row_least(const grid_row *row, int start, int end) noexcept nogil
    int grid_row_reaches(const grid_row *row, int32_t amount, int slots) noexcept nogil
    int grid_clear_below(const grid_row *row, grid_block *blocks, int start, int end, int slots,
                         int32_t threshold, int32_t amount, uint64_t bit, grid_memory **memory,
                         grid_words *words) noexcept nogil
    int grid_set_above(const grid_row *row, grid_block *blocks, int start, int end, int slots,
                       int32_t threshold, uint64_t bit, grid_memory **memory,
                       grid_words *words) noexcept nogil

include "kernels/network_units.pxi"

cdef enum:
    MOST_RESOURCES = 32
    MOST_SLOTS = 4096
    MOST_GAIN = 32767  # a slot beyond all
    LEAST_REGION = 1024  # nodes among which a later start of a job with several nodes is planned
    REGION_FACTOR = 16  # at least so many times the nodes that it wants
    MOST_CLIMBS = 4  # words to bring up to date for one job of a long queue
    MOST_CUTS = 64  # rows of one job that are changed side by side
    BATCH = 512  # jobs placed without the interpreter
    FIRST_BATCH = 8
    HELD_RESOURCE_BIT = 32  # of a holding: the amount is below it, the node above
    HELD_NODE_BIT = 40
    BLOCKS_FETCHED = 4  # of a plane that a cache line has


def holding(int node, int resource, int32_t amount):
    """Return one number for the held amount of a node's resource; see `Grid.hold`."""
    if node < 0 or not 0 <= resource < MOST_RESOURCES or amount < 0:
        raise ValueError("nobody can hold that")
    return <int64_t>node << HELD_NODE_BIT | <int64_t>resource << HELD_RESOURCE_BIT | amount


cdef struct Shape:
    # What one node must give: resources, amounts for each node kind, and planes.
    int resources
    int resource[MOST_RESOURCES]
    int32_t *amount  # [kind * resources + place]
    int planes
    int plane[MOST_RESOURCES]
    int inexact  # how many resources have no plane of just their amount; these come first


cdef struct Kind:
    # All jobs of one shape, node set, node count and duration; searches continue where they ended.
    int shape
    int nodes
    int64_t duration_us
    int16_t *ends  # first slot after such a job, by the slot that it starts in
    int cursor  # -1 before the first search
    int best, second  # the words to look at first for one node; -1: not known
    int low, high  # words to look at for places beyond now
    bint is_open  # the caller chooses among the nodes that fit
    uint64_t *mask
    uint64_t *required  # NULL if none
    int16_t *gain  # per word: slot at which more nodes may fit than are known to
    uint8_t *count  # per word: nodes that fit before that slot, at most


cdef struct Cut:
    # What a job has just taken of a row; its planes must follow.
    grid_row *row
    int node, resource
    int32_t amount, least, most


# One class in several files, a layer in each; each needs only those before it.
include "kernels/grid_nodes.pxi"
include "kernels/grid_trials.pxi"
include "kernels/grid_choosing.pxi"
include "kernels/grid_searching.pxi"
include "kernels/grid_spreading.pxi"
include "kernels/grid_holding.pxi"
