# Level fair-shares of associations.

cdef extern from "<float.h>":
    int LDBL_MANT_DIG

LEVEL_BITS = LDBL_MANT_DIG


cdef struct Level:
    long double fair_share
    Py_ssize_t number  # of its association


cdef int higher(const void *one, const void *other) noexcept nogil:
    cdef long double left = (<const Level *>one).fair_share
    cdef long double right = (<const Level *>other).fair_share
    return (left < right) - (left > right)


cdef inline long double level_of(double portion, long double used, long double whole) noexcept:
    if portion == 0:
        return 0
    return INFINITY if used == 0 or whole == 0 else portion / (used / whole)


def share_levels(list portions, list used, list parents, list is_apart):
    """Return the level fair-share of each association, and its place among all of them.

    They are counted as Slurm counts them, in extended precision (LEVEL_BITS): whether two ratios
    that are the same fraction are equal depends on it. The highest is in place 0, equal ones share
    a place.

    Args:
        portions: of each association, its part of its level's shares.
        used: of each, its usage.
        parents: of each, the number of the association whose level it is in; -1 if in none.
        is_apart: of each, whether it takes no part in the division.
    """
    cdef Py_ssize_t count = len(portions), number, parent, at, place = 0
    cdef Level *levels
    if not len(used) == len(parents) == len(is_apart) == count:
        raise ValueError("a figure of each association is needed")
    cdef list shown = [INFINITY] * count, places = [0] * count
    levels = <Level *>malloc(max(count, 1) * sizeof(Level))
    if levels == NULL:
        raise MemoryError
    try:
        for number in range(count):
            levels[number].number, levels[number].fair_share = number, INFINITY
            parent = parents[number]
            if parent >= count:
                raise ValueError("there is no such parent")
            if parent >= 0 and not is_apart[number]:
                levels[number].fair_share = level_of(portions[number], used[number], used[parent])
                shown[number] = <double>levels[number].fair_share
        qsort(levels, count, sizeof(Level), higher)
        for at in range(count):
            if at and levels[at].fair_share != levels[at - 1].fair_share:
                place = at
            places[levels[at].number] = place
    finally:
        free(levels)
    return shown, places
