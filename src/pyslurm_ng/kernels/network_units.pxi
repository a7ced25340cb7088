# Sets of nodes by unit of the network: leaf switches, blocks and tori.

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


def cells_among(bytes fits, bytes cells):
    """Return 1 for each cell of a torus whose node is among some nodes, otherwise 0.

    Args:
        fits: a bit per node, the first lowest.
        cells: the node of each cell, 32 bits each; below 0: none.
    """
    cdef const unsigned char *bits = fits
    cdef const int32_t *node = <const int32_t *><const char *>cells
    cdef Py_ssize_t at, count = len(cells) // sizeof(int32_t), length = len(fits)
    flags = array("q", bytes(8 * count))
    cdef int64_t[::1] flag = flags
    for at in range(count):
        if node[at] >= 0 and node[at] >> 3 < length:
            flag[at] = bits[node[at] >> 3] >> (node[at] & 7) & 1
    return flags


def box_sums(const int64_t[::1] values, tuple torus, tuple box, tuple offset):
    """Return for each cell of a torus the sum over a box that begins at an offset from it.

    Args:
        values: of each cell; x counts fastest, then y, then z.
        torus, box: lengths along x, y and z; a box is nowhere longer than the torus.
        offset: from a cell to the lowest corner of its box.

    Raises:
        ValueError: the box is larger, or there are not as many values as cells.
    """
    cdef Py_ssize_t axis, length, wide, shift, cells = 1, stride = 1, line, first, end, head, tail, at
    for axis in range(3):
        if not 0 < box[axis] <= torus[axis]:
            raise ValueError("a box is larger than its torus")
        cells *= torus[axis]
    if values.shape[0] != cells:
        raise ValueError("a torus has a value for each cell")
    sums, others = array("q", bytes(8 * cells)), array("q", bytes(8 * cells))
    cdef int64_t[::1] of_sums = sums, of_others = others
    of_sums[:] = values
    cdef int64_t *before = &of_sums[0]
    cdef int64_t *after = &of_others[0]
    cdef int64_t total
    for axis in range(3):
        length, wide, shift = torus[axis], box[axis], offset[axis] % torus[axis]
        with nogil:
            for line in range(cells // length):
                # Cells of a line are `stride` from one another; after the last comes the first.
                first = line // stride * stride * length + line % stride
                end = first + length * stride
                head = tail = first + shift * stride
                total = 0
                for at in range(wide):
                    total += before[tail]
                    tail = tail + stride if tail + stride < end else first
                while first < end:
                    after[first] = total
                    first += stride
                    total += before[tail] - before[head]
                    tail = tail + stride if tail + stride < end else end - length * stride
                    head = head + stride if head + stride < end else end - length * stride
        stride *= length
        before, after = after, before
        sums, others = others, sums
    return sums


def boxes_within(const int64_t[::1] free_cells, tuple torus, tuple box, const int32_t[::1] anchors):
    """Return the anchors at which a box has free cells only, and 1 for each of them, 0 for others.

    Args:
        free_cells: 1 for each cell that is free, otherwise 0; see `box_sums`.

    Raises:
        ValueError: as `box_sums`, or an anchor is no cell.
    """
    cdef int64_t[::1] counts = box_sums(free_cells, torus, box, (0, 0, 0))
    cdef int64_t cells = <int64_t>box[0] * box[1] * box[2]
    cdef Py_ssize_t at, kept = 0
    flags, best = array("q", bytes(8 * counts.shape[0])), array("i", bytes(4 * anchors.shape[0]))
    cdef int32_t[::1] chosen = best
    cdef int64_t[::1] flag = flags
    for at in range(anchors.shape[0]):
        if not 0 <= anchors[at] < counts.shape[0]:
            raise ValueError("an anchor is no cell")
        if counts[anchors[at]] == cells:
            flag[anchors[at]] = 1
            chosen[kept] = anchors[at]
            kept += 1
    return best[:kept], flags


def with_least(const int32_t[::1] cells, const int64_t[::1] values):
    """Return those of some cells that have the least value, in their order.

    Raises:
        ValueError: a cell has no value.
    """
    cdef Py_ssize_t at, kept = 0
    cdef int64_t least = 0
    best = array("i", bytes(4 * cells.shape[0]))
    cdef int32_t[::1] chosen = best
    for at in range(cells.shape[0]):
        if not 0 <= cells[at] < values.shape[0]:
            raise ValueError("a cell has no value")
        if not kept or values[cells[at]] < least:
            least, kept = values[cells[at]], 0
        if values[cells[at]] == least:
            chosen[kept] = cells[at]
            kept += 1
    return best[:kept]
