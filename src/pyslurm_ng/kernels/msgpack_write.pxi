# Values as msgpack bytes.


cdef struct Buffer:
    uint8_t *start
    Py_ssize_t used
    Py_ssize_t room


cdef int _grow(Buffer *b, Py_ssize_t more) except -1:
    cdef Py_ssize_t room = b.room * 2
    if room < b.used + more:
        room = b.used + more
    cdef uint8_t *start = <uint8_t *>PyMem_Realloc(b.start, room)
    if start == NULL:
        raise MemoryError
    b.start = start
    b.room = room
    return 0


cdef inline int _ensure(Buffer *b, Py_ssize_t more) except -1:
    if b.room - b.used < more:
        _grow(b, more)
    return 0


cdef inline int _tag(Buffer *b, uint8_t tag, uint64_t value, int size) except -1:
    cdef int i
    _ensure(b, 9)
    b.start[b.used] = tag
    for i in range(size):
        b.start[b.used + 1 + i] = <uint8_t>(value >> (8 * (size - 1 - i)))
    b.used += 1 + size
    return 0


cdef inline int _raw(Buffer *b, const void *start, Py_ssize_t size) except -1:
    _ensure(b, size)
    memcpy(b.start + b.used, start, size)
    b.used += size
    return 0


cdef int _pack_int(Buffer *b, object number) except -1:
    cdef int overflow = 0
    cdef long long n = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow > 0:
        try:
            return _tag(b, 0xCF, PyLong_AsUnsignedLongLong(number), 8)
        except OverflowError:
            overflow = -1
    if overflow < 0:
        raise ValueError("integer does not fit into 64 bits")
    if n >= 0:
        if n < 0x80:
            return _tag(b, <uint8_t>n, 0, 0)
        if n < 0x100:
            return _tag(b, 0xCC, n, 1)
        if n < 0x10000:
            return _tag(b, 0xCD, n, 2)
        if n < 0x100000000:
            return _tag(b, 0xCE, n, 4)
        return _tag(b, 0xCF, n, 8)
    if n >= -32:
        return _tag(b, <uint8_t>n, 0, 0)
    if n >= -0x80:
        return _tag(b, 0xD0, <uint64_t>n, 1)
    if n >= -0x8000:
        return _tag(b, 0xD1, <uint64_t>n, 2)
    if n >= -0x80000000:
        return _tag(b, 0xD2, <uint64_t>n, 4)
    return _tag(b, 0xD3, <uint64_t>n, 8)


cdef int _head(Buffer *b, Py_ssize_t count, uint8_t small, int small_limit, uint8_t wide) except -1:
    """Write the head of an array or a map: a short form, or `wide` and `wide + 1`."""
    if count < small_limit:
        return _tag(b, small | <uint8_t>count, 0, 0)
    if count < 0x10000:
        return _tag(b, wide, count, 2)
    if count > 0xFFFFFFFF:
        raise ValueError("too many elements")
    return _tag(b, wide + 1, count, 4)


cdef int _pack_text(Buffer *b, object text) except -1:
    cdef Py_ssize_t size = 0
    cdef const char *start = PyUnicode_AsUTF8AndSize(text, &size)
    if size < 32:
        _tag(b, 0xA0 | <uint8_t>size, 0, 0)
    elif size < 0x100:
        _tag(b, 0xD9, size, 1)
    elif size < 0x10000:
        _tag(b, 0xDA, size, 2)
    elif size <= 0xFFFFFFFF:
        _tag(b, 0xDB, size, 4)
    else:
        raise ValueError("text is too long")
    return _raw(b, start, size)


cdef int _pack_bytes(Buffer *b, object value) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    try:
        if view.len < 0x100:
            _tag(b, 0xC4, view.len, 1)
        elif view.len < 0x10000:
            _tag(b, 0xC5, view.len, 2)
        elif view.len <= 0xFFFFFFFF:
            _tag(b, 0xC6, view.len, 4)
        else:
            raise ValueError("bytes are too long")
        _raw(b, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int _pack(Buffer *b, object value, int depth) except -1:
    cdef double number
    cdef uint64_t bits
    cdef Py_ssize_t position = 0
    cdef PyObject *key
    cdef PyObject *item
    if value is None:
        return _tag(b, 0xC0, 0, 0)
    if value is True:
        return _tag(b, 0xC3, 0, 0)
    if value is False:
        return _tag(b, 0xC2, 0, 0)
    if isinstance(value, str):
        return _pack_text(b, value)
    if isinstance(value, int):
        return _pack_int(b, value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _pack_bytes(b, value)
    if isinstance(value, float):
        number = PyFloat_AS_DOUBLE(value)
        memcpy(&bits, &number, 8)
        return _tag(b, 0xCB, bits, 8)
    if depth >= DEPTH:
        raise ValueError("value is nested too deeply")
    if isinstance(value, (list, tuple)):
        _head(b, len(value), 0x90, 16, 0xDC)
        for element in value:
            _pack(b, element, depth + 1)
        return 0
    if isinstance(value, dict):
        _head(b, len(value), 0x80, 16, 0xDE)
        while PyDict_Next(value, &position, &key, &item):
            _pack(b, <object>key, depth + 1)
            _pack(b, <object>item, depth + 1)
        return 0
    raise TypeError(f"cannot pack {type(value).__name__}")


def pack(value):
    """Return `value` as msgpack bytes: None, bool, int, float, str, bytes, list, tuple, dict.

    Errors: ValueError for an integer beyond 64 bits, text with lone surrogates, or nesting deeper
    than 16; TypeError for any other type.
    """
    cdef Buffer b
    b.room = 256
    b.used = 0
    b.start = <uint8_t *>PyMem_Malloc(b.room)
    if b.start == NULL:
        raise MemoryError
    try:
        _pack(&b, value, 0)
        return PyBytes_FromStringAndSize(<char *>b.start, b.used)
    finally:
        PyMem_Free(b.start)
