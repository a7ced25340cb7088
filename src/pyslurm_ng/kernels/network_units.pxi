# Sets of nodes by unit of the network: leaf switches and blocks.

def unit_counts(bytes fits, bytes unit_of, int units):
    """Return how many of some nodes are in each unit.

    Args:
        fits: a bit per node, the first lowest; nothing beyond the last node.
        unit_of: the unit of each node, 32 bits each.
    """
    cdef const unsigned char *bits = fits
    cdef const int32_t *unit = <const int32_t *><const char *>unit_of
    cdef Py_ssize_t at, nodes = len(unit_of) // sizeof(int32_t)
    cdef Py_ssize_t length = min(len(fits), (nodes + 7) // 8)
    cdef int place
    cdef uint64_t left
    cdef int32_t *counts = <int32_t *>calloc(units + 1, sizeof(int32_t))
    if counts == NULL:
        raise MemoryError
    with nogil:
        for at in range(length):
            left = bits[at]
            while left:
                place = lowest(left)
                left &= left - 1
                if at * 8 + place < nodes and 0 <= unit[at * 8 + place] < units:
                    counts[unit[at * 8 + place]] += 1
    found = [counts[place] for place in range(units)]
    free(counts)
    return found
