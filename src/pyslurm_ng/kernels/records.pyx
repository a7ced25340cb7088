# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, embedsignature=True, auto_pickle=False
"""What every command needs at each start: msgpack, bulk records, and columns of text.

A daemon keeps each job's packed fields and joins them into one blob; a command takes the few fields
it shows out of that blob and prints them. Input is never trusted: each length is compared with the
bytes that exist before anything is allocated, and malformed input raises ValueError.

No typed memoryviews here: Cython's support for them imports `collections.abc` and builds classes,
which took 2 ms of every command's start (measured, CPython 3.11).

Source of the byte layout: the MessagePack specification (msgpack.org), without extension types.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem, PyDict_Size
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

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
    # Each element takes at least one byte, so a wrong count is found before it allocates.
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
    """Refuse what a typed decoder accepts but no request needs: a key twice in one map, NUL in
    text, integers beyond a signed 64-bit one, floats, extension types.

    Run it after the typed decoder, which has checked depth and lengths.

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

    It reads no more than these bytes, so it costs little for any body. It also returns False if the
    body is no well-formed map.
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

    Errors: ValueError when the blob is malformed, at any byte.
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


include "msgpack_write.pxi"
include "columns_of_text.pxi"
include "database_rows.pxi"
include "json_rows.pxi"
include "record_texts.pxi"
include "database_values.pxi"
include "database_lengths.pxi"
