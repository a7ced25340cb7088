# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, embedsignature=True, auto_pickle=False
"""What every command needs at each start: msgpack, bulk records, and columns of text.

A daemon keeps each job's packed fields and joins them into one blob; a command takes the few fields
it shows out of that blob and prints them. Input is never trusted: each length is compared with the
bytes that are really there before anything is allocated, and whatever is malformed raises ValueError.

No typed memoryviews here: Cython's support for them imports `collections.abc` and builds classes,
which took 2 ms of every command's start (measured, CPython 3.11).

Source of the byte layout: the MessagePack specification (msgpack.org), without extension types.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next, PyDict_SetItem, PyDict_Size
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    unsigned long long PyLong_AsUnsignedLongLong(object number) except? 0xFFFFFFFFFFFFFFFF
    object PyLong_FromLongLong(long long number)
    object PyLong_FromUnsignedLongLong(unsigned long long number)
    object PyFloat_FromDouble(double number)
    double PyFloat_AS_DOUBLE(object number)

# RELIABILITY: nothing we exchange nests deeper; a bound keeps hostile input off the C stack.
cdef enum:
    DEPTH = 16

RIGHT = 1
MARK = 2
cdef enum:
    _RIGHT = 1
    _MARK = 2


cdef struct Reader:
    const uint8_t *at
    const uint8_t *end


# --------------------------------------------------------------------------- reading


cdef inline Py_ssize_t _left(Reader *r) noexcept:
    return r.end - r.at


cdef int _short() except -1:
    raise ValueError("record is truncated")


cdef inline uint64_t _big(const uint8_t *at, int size) noexcept:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = (value << 8) | at[i]
    return value


cdef inline int _uint(Reader *r, int size, uint64_t *value) except -1:
    if _left(r) < size:
        _short()
    value[0] = _big(r.at, size)
    r.at += size
    return 0


cdef object _text(Reader *r, uint64_t size):
    if <uint64_t>_left(r) < size:
        _short()
    cdef const char *start = <const char *>r.at
    r.at += size
    return PyUnicode_DecodeUTF8(start, <Py_ssize_t>size, NULL)


cdef object _bytes(Reader *r, uint64_t size):
    if <uint64_t>_left(r) < size:
        _short()
    cdef const char *start = <const char *>r.at
    r.at += size
    return PyBytes_FromStringAndSize(start, <Py_ssize_t>size)


cdef object _array(Reader *r, uint64_t count, int depth):
    if depth >= DEPTH:
        raise ValueError("record is nested too deeply")
    # Each element takes at least one byte, so a lying count is found before it allocates.
    if <uint64_t>_left(r) < count:
        _short()
    cdef list items = []
    cdef uint64_t i
    for i in range(count):
        items.append(_decode(r, depth + 1))
    return items


cdef object _map(Reader *r, uint64_t count, int depth):
    if depth >= DEPTH:
        raise ValueError("record is nested too deeply")
    if <uint64_t>_left(r) < 2 * count:
        _short()
    cdef dict items = {}
    cdef uint64_t i
    for i in range(count):
        key = _decode(r, depth + 1)
        if isinstance(key, (list, dict)):
            raise ValueError("record has a map key that is an array or a map")
        PyDict_SetItem(items, key, _decode(r, depth + 1))
    if <uint64_t>PyDict_Size(items) != count:
        raise ValueError("record has a map key twice")
    return items


cdef object _decode(Reader *r, int depth):
    cdef uint64_t n
    cdef uint32_t bits
    cdef float single
    cdef double number
    if r.at >= r.end:
        _short()
    cdef uint8_t tag = r.at[0]
    r.at += 1
    if tag < 0x80:
        return PyLong_FromLongLong(tag)
    if tag < 0x90:
        return _map(r, tag & 0x0F, depth)
    if tag < 0xA0:
        return _array(r, tag & 0x0F, depth)
    if tag < 0xC0:
        return _text(r, tag & 0x1F)
    if tag >= 0xE0:
        return PyLong_FromLongLong(<int8_t>tag)
    if tag == 0xC0:
        return None
    if tag == 0xC2:
        return False
    if tag == 0xC3:
        return True
    if tag == 0xC4 or tag == 0xC5 or tag == 0xC6:
        _uint(r, 1 << (tag - 0xC4), &n)
        return _bytes(r, n)
    if tag == 0xCA:
        _uint(r, 4, &n)
        bits = <uint32_t>n
        memcpy(&single, &bits, 4)
        return PyFloat_FromDouble(single)
    if tag == 0xCB:
        _uint(r, 8, &n)
        memcpy(&number, &n, 8)
        return PyFloat_FromDouble(number)
    if 0xCC <= tag <= 0xCF:
        _uint(r, 1 << (tag - 0xCC), &n)
        return PyLong_FromUnsignedLongLong(n)
    if 0xD0 <= tag <= 0xD3:
        _uint(r, 1 << (tag - 0xD0), &n)
        if tag == 0xD0:
            return PyLong_FromLongLong(<int8_t>n)
        if tag == 0xD1:
            return PyLong_FromLongLong(<int16_t>n)
        if tag == 0xD2:
            return PyLong_FromLongLong(<int32_t>n)
        return PyLong_FromLongLong(<int64_t>n)
    if 0xD9 <= tag <= 0xDB:
        _uint(r, 1 << (tag - 0xD9), &n)
        return _text(r, n)
    if tag == 0xDC or tag == 0xDD:
        _uint(r, 2 << (tag - 0xDC), &n)
        return _array(r, n, depth)
    if tag == 0xDE or tag == 0xDF:
        _uint(r, 2 << (tag - 0xDE), &n)
        return _map(r, n, depth)
    raise ValueError("record has a value of an unknown type")


cdef int _skip(Reader *r) except -1:
    """Pass over one value. Counts open values instead of recursing, so depth costs nothing."""
    cdef uint64_t todo = 1
    cdef uint64_t n, inside
    cdef uint8_t tag
    while todo:
        todo -= 1
        if r.at >= r.end:
            _short()
        tag = r.at[0]
        r.at += 1
        n = 0
        inside = 0
        if tag < 0x80 or tag >= 0xE0 or tag == 0xC0 or tag == 0xC2 or tag == 0xC3:
            continue
        if tag < 0x90:
            inside = 2 * (tag & 0x0F)
        elif tag < 0xA0:
            inside = tag & 0x0F
        elif tag < 0xC0:
            n = tag & 0x1F
        elif 0xC4 <= tag <= 0xC6:
            _uint(r, 1 << (tag - 0xC4), &n)
        elif tag == 0xCA:
            n = 4
        elif tag == 0xCB:
            n = 8
        elif 0xCC <= tag <= 0xCF:
            n = 1 << (tag - 0xCC)
        elif 0xD0 <= tag <= 0xD3:
            n = 1 << (tag - 0xD0)
        elif 0xD9 <= tag <= 0xDB:
            _uint(r, 1 << (tag - 0xD9), &n)
        elif tag == 0xDC or tag == 0xDD:
            _uint(r, 2 << (tag - 0xDC), &inside)
        elif tag == 0xDE or tag == 0xDF:
            _uint(r, 2 << (tag - 0xDE), &inside)
            inside *= 2
        else:
            raise ValueError("record has a value of an unknown type")
        if <uint64_t>_left(r) < n:
            _short()
        r.at += n
        todo += inside
        if <uint64_t>_left(r) < todo:
            _short()
    return 0


cdef int _array_head(Reader *r, uint64_t *count) except -1:
    if r.at >= r.end:
        _short()
    cdef uint8_t tag = r.at[0]
    r.at += 1
    if 0x90 <= tag < 0xA0:
        count[0] = tag & 0x0F
    elif tag == 0xDC:
        _uint(r, 2, count)
    elif tag == 0xDD:
        _uint(r, 4, count)
    else:
        raise ValueError("record is not an array")
    if <uint64_t>_left(r) < count[0]:
        _short()
    return 0


def unpack(data):
    """Return the one value that `data` (bytes, bytearray or memoryview) holds.

    Errors: ValueError when it is malformed, has bytes left over, repeats a map key, nests more than
    16 deep or holds text that is not UTF-8.
    """
    cdef Py_buffer view
    cdef Reader r
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        r.at = <const uint8_t *>view.buf
        r.end = r.at + view.len
        value = _decode(&r, 0)
        if r.at != r.end:
            raise ValueError("record has bytes left over")
    finally:
        PyBuffer_Release(&view)
    return value


cdef int _check_text(Reader *r, uint64_t size) except -1:
    if <uint64_t>_left(r) < size:
        _short()
    if size and memchr(r.at, 0, size) != NULL:
        raise ValueError("NUL in text")
    r.at += size
    return 0


cdef int _check_map(Reader *r, uint64_t count, int depth) except -1:
    if depth >= DEPTH:
        raise ValueError("nested too deeply")
    if <uint64_t>_left(r) < 2 * count:
        _short()
    cdef set keys = set()
    cdef uint64_t i
    cdef uint8_t tag
    for i in range(count):
        if r.at >= r.end:
            _short()
        tag = r.at[0]
        # Text or integer: the same key may be written in several ways, so values are compared.
        if not (tag < 0x80 or tag >= 0xE0 or 0xA0 <= tag < 0xC0
                or 0xCC <= tag <= 0xD3 or 0xD9 <= tag <= 0xDB):
            raise ValueError("map key is neither text nor integer")
        key = _decode(r, depth + 1)
        if isinstance(key, str) and "\0" in key:
            raise ValueError("NUL in text")
        keys.add(key)
        _check(r, depth + 1)
    if <uint64_t>len(keys) != count:
        raise ValueError("duplicate key")
    return 0


cdef int _check(Reader *r, int depth) except -1:
    cdef uint64_t n, i
    if r.at >= r.end:
        _short()
    cdef uint8_t tag = r.at[0]
    r.at += 1
    if tag < 0x80 or tag >= 0xE0 or tag == 0xC0 or tag == 0xC2 or tag == 0xC3:
        return 0
    if tag < 0x90:
        return _check_map(r, tag & 0x0F, depth)
    if tag >= 0xDE:
        _uint(r, 2 << (tag - 0xDE), &n)
        return _check_map(r, n, depth)
    if tag < 0xA0 or tag >= 0xDC:
        n = tag & 0x0F
        if tag >= 0xDC:
            _uint(r, 2 << (tag - 0xDC), &n)
        if depth >= DEPTH:
            raise ValueError("nested too deeply")
        if <uint64_t>_left(r) < n:
            _short()
        for i in range(n):
            _check(r, depth + 1)
        return 0
    if tag < 0xC0:
        return _check_text(r, tag & 0x1F)
    if 0xD9 <= tag <= 0xDB:
        _uint(r, 1 << (tag - 0xD9), &n)
        return _check_text(r, n)
    if 0xCC <= tag <= 0xD3:
        _uint(r, 1 << ((tag - 0xCC) & 3), &n)
        if tag == 0xCF and n > 0x7FFFFFFFFFFFFFFF:
            raise ValueError("integer beyond 2**63-1")
        return 0
    if 0xC4 <= tag <= 0xC6:
        _uint(r, 1 << (tag - 0xC4), &n)
        if <uint64_t>_left(r) < n:
            _short()
        r.at += n
        return 0
    raise ValueError("float or extension type")


def check_body(data):
    """Refuse what a typed decoder lets pass and no request needs: a key twice in one map, NUL in
    text, integers beyond a signed 64-bit one, floats, extension types.

    Run it after the typed decoder: that one has bounded depth and lengths by then.

    Errors: ValueError, also when `data` is not exactly one well-formed value.
    """
    cdef Py_buffer view
    cdef Reader r
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        r.at = <const uint8_t *>view.buf
        r.end = r.at + view.len
        _check(&r, 0)
        if r.at != r.end:
            raise ValueError("bytes left over")
    finally:
        PyBuffer_Release(&view)


cdef bint _skip_within(Reader *r, Py_ssize_t most) except -1:
    """Pass over one value of at most so many bytes; return whether it was one."""
    cdef const uint8_t *end = r.end
    if _left(r) > most:
        r.end = r.at + most
    try:
        _skip(r)
    except ValueError:
        return False
    finally:
        r.end = end
    return True


def is_lean(data, Py_ssize_t most):
    """Return whether a map has at most `most` bytes besides the byte strings that are its values.

    It looks at no more than these bytes, so it costs little whatever the body is. False, too, for
    what is no well-formed map.
    """
    cdef Py_buffer view
    cdef Reader r
    cdef uint64_t count = 0
    cdef uint64_t n = 0
    cdef uint8_t tag
    cdef const uint8_t *start
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        r.at = <const uint8_t *>view.buf
        r.end = r.at + view.len
        if r.at >= r.end:
            return False
        tag = r.at[0]
        r.at += 1
        if 0x80 <= tag < 0x90:
            count = tag & 0x0F
        elif tag == 0xDE or tag == 0xDF:
            if _left(&r) < 2 << (tag - 0xDE):
                return False
            _uint(&r, 2 << (tag - 0xDE), &count)
        else:
            return False
        while count and most >= 0:
            count -= 1
            start = r.at
            if not _skip_within(&r, most):
                return False
            most -= r.at - start
            if r.at < r.end and 0xC4 <= r.at[0] <= 0xC6:
                if not _skip_within(&r, _left(&r)):
                    return False
                continue
            start = r.at
            if not _skip_within(&r, most):
                return False
            most -= r.at - start
        return most >= 0
    finally:
        PyBuffer_Release(&view)


def project(bytes blob not None, wanted):
    """Return the fields `wanted` (positions, any order, repeats allowed) of every record in `blob`.

    `blob` is concatenated msgpack arrays, one per record. A record shorter than a wanted position
    yields None there, since fields are only ever appended and a daemon may be older than us.

    Errors: ValueError when the blob is malformed, at whatever byte it ends.
    """
    cdef Py_ssize_t width = len(wanted)
    cdef Py_ssize_t limit = 0
    cdef Py_ssize_t i, place, next_place
    cdef uint64_t count, field
    cdef Reader r
    cdef list rows = []
    cdef tuple row
    cdef Py_ssize_t *places = NULL   # field -> first column that wants it, or -1
    cdef Py_ssize_t *others = NULL   # column -> next column that wants the same field, or -1
    for column in wanted:
        if column < 0 or column > 65535:
            raise ValueError("field position out of range")
        if column >= limit:
            limit = column + 1
    places = <Py_ssize_t *>PyMem_Malloc((limit + 1) * sizeof(Py_ssize_t))
    others = <Py_ssize_t *>PyMem_Malloc((width + 1) * sizeof(Py_ssize_t))
    try:
        if places == NULL or others == NULL:
            raise MemoryError
        for i in range(limit):
            places[i] = -1
        for i in range(width):
            place = wanted[i]
            others[i] = places[place]
            places[place] = i
        r.at = <const uint8_t *>PyBytes_AS_STRING(blob)
        r.end = r.at + PyBytes_GET_SIZE(blob)
        while r.at < r.end:
            _array_head(&r, &count)
            row = PyTuple_New(width)
            for i in range(width):
                Py_INCREF(None)
                PyTuple_SET_ITEM(row, i, None)
            for field in range(count):
                if field >= <uint64_t>limit:
                    _skip(&r)
                    continue
                place = places[field]
                if place < 0:
                    _skip(&r)
                    continue
                value = _decode(&r, 1)
                while place >= 0:
                    next_place = others[place]
                    _put(row, place, value)
                    place = next_place
            rows.append(row)
    finally:
        PyMem_Free(places)
        PyMem_Free(others)
    return rows


cdef extern from *:
    """
    /* The row is new and nobody else has seen it, so its slots may still be replaced;
       the None put there first keeps the garbage collector happy meanwhile. */
    static inline void pyslurm_row_put(PyObject *row, Py_ssize_t place, PyObject *value) {
        PyObject *old = PyTuple_GET_ITEM(row, place);
        Py_INCREF(value);
        PyTuple_SET_ITEM(row, place, value);
        Py_XDECREF(old);
    }
    """
    void pyslurm_row_put(PyObject *row, Py_ssize_t place, PyObject *value) noexcept


cdef inline void _put(tuple row, Py_ssize_t place, object value) noexcept:
    pyslurm_row_put(<PyObject *>row, place, <PyObject *>value)


# --------------------------------------------------------------------------- writing


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


# --------------------------------------------------------------------------- columns


cdef inline Py_ssize_t _cut(const uint8_t *start, Py_ssize_t size, Py_ssize_t width,
                            Py_ssize_t *shown) noexcept:
    """Return how many bytes the first `width` characters take; `shown` gets their number."""
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t characters = 0
    while i < size:
        # A byte 10xxxxxx continues a character; every other one begins one.
        if (start[i] & 0xC0) != 0x80:
            if characters == width:
                break
            characters += 1
        i += 1
    shown[0] = characters
    return i


cdef inline bint _is_plain(const uint8_t *start, Py_ssize_t size) noexcept:
    """Return whether no byte can belong to a control character or a mark of writing direction."""
    cdef Py_ssize_t i
    for i in range(size):
        if start[i] < 0x20 or start[i] == 0x7F or start[i] == 0xC2:
            return False
        if start[i] == 0xE2 and i + 1 < size and (start[i + 1] & 0xFE) == 0x80:
            return False
    return True


cdef int _cell(Buffer *b, object cell, Py_ssize_t width, int flags) except -1:
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t shown = 0
    cdef Py_ssize_t taken, pad
    cdef const uint8_t *start
    text = cell if isinstance(cell, str) else "" if cell is None else str(cell)
    start = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &size)
    if not _is_plain(start, size) and not text.isprintable():
        # A user's text must not break the table, nor command somebody else's terminal.
        text = "".join([char if char.isprintable() else "?" for char in text])
        start = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &size)
    if width <= 0:
        return _raw(b, start, size)
    taken = _cut(start, size, width, &shown)
    pad = width - shown
    _ensure(b, taken + pad + 1)
    if pad and flags & _RIGHT:
        memset(b.start + b.used, 32, pad)
        b.used += pad
    if taken < size and flags & _MARK:
        taken = _cut(start, size, width - 1, &shown)
        memcpy(b.start + b.used, start, taken)
        b.used += taken
        b.start[b.used] = 43
        b.used += 1
        return 0
    memcpy(b.start + b.used, start, taken)
    b.used += taken
    if pad and not flags & _RIGHT:
        memset(b.start + b.used, 32, pad)
        b.used += pad
    return 0


def render(rows, columns, str head="", str end="\n"):
    """Return `rows` (sequences of str, int or None) as lines of UTF-8 text.

    Args:
        rows: iterable of rows; each has at least as many cells as there are columns.
        columns: one (width, flags, tail) each. Width counts characters; 0 means as long as it is.
            What is longer is cut, with a final `+` when flags has MARK. Flags has RIGHT for right
            alignment. The text `tail` follows the cell: a separator, or literal text of a format.
        head: text at the beginning of each line.
        end: text at the end of each line.

    Control characters and marks of writing direction in cells become `?`.

    Errors: ValueError for a row that is too short, or text that has no UTF-8 form.
    """
    cdef Buffer b
    cdef Py_ssize_t count = len(columns)
    cdef Py_ssize_t i
    cdef list widths = [int(column[0]) for column in columns]
    cdef list flags = [int(column[1]) for column in columns]
    cdef list tails = [str(column[2]).encode() for column in columns]
    cdef bytes first = head.encode()
    cdef bytes last = end.encode()
    cdef bytes tail
    for width in widths:
        if width < 0 or width > 65536:
            raise ValueError("column width out of range")
    b.room = 4096
    b.used = 0
    b.start = <uint8_t *>PyMem_Malloc(b.room)
    if b.start == NULL:
        raise MemoryError
    try:
        for row in rows:
            if len(row) < count:
                raise ValueError("row is shorter than the columns")
            _raw(&b, PyBytes_AS_STRING(first), PyBytes_GET_SIZE(first))
            for i in range(count):
                _cell(&b, row[i], widths[i], flags[i])
                tail = <bytes>tails[i]
                _raw(&b, PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))
            _raw(&b, PyBytes_AS_STRING(last), PyBytes_GET_SIZE(last))
        return PyBytes_FromStringAndSize(<char *>b.start, b.used)
    finally:
        PyMem_Free(b.start)
