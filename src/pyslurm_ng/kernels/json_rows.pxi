# Rows as JSON of one shape.

cdef enum:
    _MOST_DIGITS = 21


cdef inline bint _needs_escape(uint8_t byte) noexcept:
    return byte < 0x20 or byte == 34 or byte == 92 or byte >= 0x7F


cdef int _json_text(Buffer *b, object text, object quote) except -1:
    """Append a text as a JSON string; `quote` does it for texts that have to be escaped."""
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t i
    cdef const uint8_t *start = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &size)
    cdef bytes quoted
    for i in range(size):
        if _needs_escape(start[i]):
            quoted = quote(text)
            return _raw(b, PyBytes_AS_STRING(quoted), PyBytes_GET_SIZE(quoted))
    _ensure(b, size + 2)
    b.start[b.used] = 34
    memcpy(b.start + b.used + 1, start, size)
    b.start[b.used + 1 + size] = 34
    b.used += size + 2
    return 0


cdef int _json_plain(Buffer *b, object value) except -1:
    """Append a number, or what is JSON already."""
    cdef int overflow = 0
    cdef long long number
    cdef Py_ssize_t size = 0
    cdef const char *start
    if isinstance(value, bytes):
        return _raw(b, PyBytes_AS_STRING(<bytes>value), PyBytes_GET_SIZE(<bytes>value))
    if type(value) is int:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if not overflow:
            return _json_number(b, number)
        value = str(value)
    start = PyUnicode_AsUTF8AndSize(value, &size)
    return _raw(b, start, size)


cdef int _json_number(Buffer *b, long long number) except -1:
    cdef uint8_t digits[_MOST_DIGITS]
    cdef int at = _MOST_DIGITS
    cdef unsigned long long rest = <unsigned long long>number
    if number < 0:
        rest = 0 - rest
    while True:
        at -= 1
        digits[at] = <uint8_t>(48 + rest % 10)
        rest //= 10
        if not rest:
            break
    if number < 0:
        at -= 1
        digits[at] = 45
    return _raw(b, digits + at, _MOST_DIGITS - at)


cdef object _made(tuple row, object function, tuple places):
    """Return the value of one piece: a column, or what a function makes of some."""
    if len(places) == 1:
        value = row[<Py_ssize_t>places[0]]
        return value if function is None else function(value)
    return function(*[row[<Py_ssize_t>place] for place in places])


cdef inline int _bytes_of(Buffer *b, bytes part) except -1:
    return _raw(b, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))


cdef int _json_row(Buffer *b, tuple row, list pieces, object quote) except -1:
    cdef tuple piece
    for piece in pieces:
        lead, is_text, function, places, missing, there, tail = piece
        _bytes_of(b, lead)
        value = _made(row, function, places)
        if value is None:
            _bytes_of(b, missing)
            continue
        _bytes_of(b, there)
        if is_text:
            _json_text(b, value, quote)
        else:
            _json_plain(b, value)
        _bytes_of(b, tail)
    return 0


def json_rows(rows, list pieces not None, bytes end not None, bytes between not None, quote):
    """Return rows as JSON texts of one shape, joined by `between`.

    Args:
        rows: tuples.
        pieces: what rows differ in, each (lead, is_text, function, places, missing, there, tail).
            The bytes `lead` come before it. Its value is a column, or what `function` makes of the
            columns at `places`. None is written as `missing`, all else between `there` and `tail`:
            texts are quoted if `is_text`; if not, they and bytes are JSON already.
        end: the bytes behind the last piece.
        quote: returns a text with escapes as JSON bytes; called only where it has to be.

    Errors: those of the functions; IndexError for a row that has not all places.
    """
    cdef Buffer b
    cdef tuple row
    cdef bint is_first = True
    cdef Py_ssize_t most = -1
    for piece in pieces:
        for place in piece[3]:
            if place < 0:
                raise IndexError("place is negative")
            most = max(most, <Py_ssize_t>place)
    b.room = 4096
    b.used = 0
    b.start = <uint8_t *>PyMem_Malloc(b.room)
    if b.start == NULL:
        raise MemoryError
    try:
        for row in rows:
            if row is None or len(row) <= most:
                raise IndexError("row is shorter than the shape")
            if not is_first:
                _bytes_of(&b, between)
            is_first = False
            _json_row(&b, row, pieces, quote)
            _bytes_of(&b, end)
        return PyBytes_FromStringAndSize(<char *>b.start, b.used)
    finally:
        PyMem_Free(b.start)
