# Rows as MariaDB and MySQL send them: a packet for each row, a text for each value.

cdef extern from *:
    """
    static inline PyObject *pyslurm_row_get(PyObject *row, Py_ssize_t place) {
        return Py_NewRef(PyTuple_GET_ITEM(row, place));
    }
    """
    object pyslurm_row_get(object row, Py_ssize_t place)

cdef enum:
    _PACKET_HEAD = 4
    _MOST_OF_PACKET = 0xFFFFFF
    _LEAST_OF_NUMBERED_END = 9  # a row whose first value has as many bytes begins like an end
    _SHORT_DIGITS = 18


cdef inline uint64_t _little(const uint8_t *at, int size) noexcept:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value |= <uint64_t>at[i] << (8 * i)
    return value


cdef object _integer(const uint8_t *start, Py_ssize_t size):
    """Return the number that digits mean; the same errors as `int`."""
    cdef long long value = 0
    cdef Py_ssize_t i = 1 if size and start[0] == 45 else 0
    cdef Py_ssize_t first = i
    if size - first > _SHORT_DIGITS or size == first:
        return int(PyBytes_FromStringAndSize(<const char *>start, size))
    while i < size:
        if not 48 <= start[i] <= 57:
            return int(PyBytes_FromStringAndSize(<const char *>start, size))
        value = 10 * value + (start[i] - 48)
        i += 1
    return PyLong_FromLongLong(-value if first else value)


cdef object _value(const uint8_t *start, Py_ssize_t size, object kind):
    if kind is int:
        return _integer(start, size)
    if kind is str:
        return PyUnicode_DecodeUTF8(<const char *>start, size, NULL)
    if kind is bytes:
        return PyBytes_FromStringAndSize(<const char *>start, size)
    return kind(PyBytes_FromStringAndSize(<const char *>start, size))


cdef tuple _row_of_packet(Reader *r, tuple kinds, tuple before, const uint8_t **starts,
                          Py_ssize_t *sizes):
    """Return the values of a packet; those that are as in the row before are the same objects."""
    cdef Py_ssize_t width = len(kinds)
    cdef Py_ssize_t i
    cdef uint64_t size
    cdef uint8_t tag
    cdef tuple row = PyTuple_New(width)
    for i in range(width):
        Py_INCREF(None)
        PyTuple_SET_ITEM(row, i, None)
    for i in range(width):
        if r.at >= r.end:
            _short()
        tag = r.at[0]
        r.at += 1
        if tag == 0xFB:
            starts[i] = NULL
            continue
        size = tag
        if tag > 0xFB:
            if tag == 0xFF:
                raise ValueError("value has no length")
            tag = 2 if tag == 0xFC else 3 if tag == 0xFD else 8
            if _left(r) < tag:
                _short()
            size = _little(r.at, tag)
            r.at += tag
        if <uint64_t>_left(r) < size:
            _short()
        if (before is not None and starts[i] != NULL and <uint64_t>sizes[i] == size
                and not memcmp(starts[i], r.at, size)):
            _put(row, i, pyslurm_row_get(before, i))
        else:
            _put(row, i, _value(r.at, <Py_ssize_t>size, kinds[i]))
        starts[i] = r.at
        sizes[i] = <Py_ssize_t>size
        r.at += size
    if r.at != r.end:
        raise ValueError("row has bytes left over")
    return row


def database_rows(bytes data not None, int sequence, tuple kinds not None, list rows not None):
    """Append the rows of whole packets to `rows`; return the bytes used and the next sequence.

    It stops before a packet that is not there to its end, that is longer than one packet can be,
    or that is no row: the end of the rows, or an error.

    Args:
        data: packets of the protocol, each with its length and sequence number before it.
        sequence: the number that the first packet has to have.
        kinds: for each column int, str (UTF-8), bytes, or a function of the bytes.

    Errors: ValueError for a packet of another number or one whose values do not fill it, and those
    of functions in `kinds`.
    """
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef const uint8_t *end = start + PyBytes_GET_SIZE(data)
    cdef const uint8_t *at = start
    cdef uint64_t size
    cdef Reader r
    cdef tuple row = None
    cdef Py_ssize_t width = len(kinds)
    cdef const uint8_t **starts = NULL
    cdef Py_ssize_t *sizes = NULL
    starts = <const uint8_t **>PyMem_Malloc((width + 1) * sizeof(uint8_t *))
    sizes = <Py_ssize_t *>PyMem_Malloc((width + 1) * sizeof(Py_ssize_t))
    try:
        if starts == NULL or sizes == NULL:
            raise MemoryError
        while end - at > _PACKET_HEAD:
            size = _little(at, 3)
            if size == _MOST_OF_PACKET or <uint64_t>(end - at - _PACKET_HEAD) < size or not size:
                break
            r.at = at + _PACKET_HEAD
            if r.at[0] == 0xFF or (r.at[0] == 0xFE and size < _LEAST_OF_NUMBERED_END):
                break
            if at[3] != sequence:
                raise ValueError(f"packet {at[3]} came in place of {sequence}")
            r.end = r.at + size
            row = _row_of_packet(&r, kinds, row, starts, sizes)
            rows.append(row)
            at = r.end
            sequence = (sequence + 1) & 0xFF
    finally:
        PyMem_Free(starts)
        PyMem_Free(sizes)
    return at - start, sequence
