# Rows as columns of text.


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
        # A user's text must not break the table or send commands to another user's terminal.
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
            A longer cell is cut, with a final `+` if flags has MARK. Flags has RIGHT for right
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
