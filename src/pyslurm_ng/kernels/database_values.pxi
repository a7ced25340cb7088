# Rows as the VALUES of a statement, for MariaDB and MySQL.


cdef inline uint8_t _behind_backslash(uint8_t byte) noexcept:
    """Return the letter that stands behind a backslash for a byte, 0 for a byte that may stay."""
    if byte == 0:
        return 48
    if byte == 10:
        return 110
    if byte == 13:
        return 114
    if byte == 26:
        return 90
    if byte == 34 or byte == 39 or byte == 92:
        return byte
    return 0


cdef int _sql_text(Buffer *b, str text, bint backslashes) except -1:
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t i
    cdef const uint8_t *start = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &size)
    cdef uint8_t letter
    _ensure(b, 2 * size + 2)
    b.start[b.used] = 39
    b.used += 1
    for i in range(size):
        if backslashes:
            letter = _behind_backslash(start[i])
            if letter:
                b.start[b.used] = 92
                b.start[b.used + 1] = letter
                b.used += 2
                continue
        elif start[i] == 39:
            b.start[b.used] = 39
            b.used += 1
        b.start[b.used] = start[i]
        b.used += 1
    b.start[b.used] = 39
    b.used += 1
    return 0


cdef int _sql_row(Buffer *b, dict row, tuple names, bint backslashes) except -1:
    cdef bint is_first = True
    for name in names:
        _raw(b, b"(" if is_first else b",", 1)
        is_first = False
        value = row[name]
        if isinstance(value, str):
            _sql_text(b, <str>value, backslashes)
        elif isinstance(value, int):
            _json_plain(b, int(value))
        elif value is None:
            _raw(b, b"NULL", 4)
        else:
            raise TypeError(f"{name} is neither a text nor an integer")
    return _raw(b, b")", 1)


def sql_values(rows, tuple names not None, Py_ssize_t most, bint backslashes):
    """Return rows as `(value,...),(value,...)`, in texts of at most so many bytes.

    A row that takes more is a text of its own.

    Args:
        rows: dicts of integers, texts and None; other types raise TypeError.
        names: the keys of a row, in the order of the columns.
        backslashes: whether the server reads them as escapes; if not, only quotes are doubled.
    """
    cdef Buffer b
    cdef Py_ssize_t before
    cdef list pieces = []
    if not names:
        raise ValueError("a row has no column")
    b.room = 65536
    b.used = 0
    b.start = <uint8_t *>PyMem_Malloc(b.room)
    if b.start == NULL:
        raise MemoryError
    try:
        for row in rows:
            before = b.used
            if before:
                _raw(&b, b",", 1)
            _sql_row(&b, row, names, backslashes)
            if before and b.used > most:
                pieces.append(PyUnicode_DecodeUTF8(<const char *>b.start, before, NULL))
                b.used -= before + 1
                memmove(b.start, b.start + before + 1, b.used)
        if b.used:
            pieces.append(PyUnicode_DecodeUTF8(<const char *>b.start, b.used, NULL))
        return pieces
    finally:
        PyMem_Free(b.start)
