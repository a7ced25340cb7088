# What is looked at in rows before they are written to a database, and their values.


cdef inline PyObject *_value_of(dict row, Py_ssize_t *at, object name) except NULL:
    """Return a row's value, borrowed. Names in the order of the row are found without a search.

    `at` is where to look on; beyond the end each name is searched.
    """
    cdef PyObject *key = NULL
    cdef PyObject *value = NULL
    while PyDict_Next(row, at, &key, &value):
        if key == <PyObject *>name:
            return value
    value = PyDict_GetItemWithError(row, name)
    if value == NULL:
        raise KeyError(name)
    return value


cdef inline Py_ssize_t _length_if_fits(PyObject *value, Py_ssize_t most) except -2:
    """Return the characters of a text, 0 for a number (`most` is -1), -1 if it does not fit."""
    cdef int overflow = 0
    cdef Py_ssize_t size
    if most < 0:
        if not isinstance(<object>value, int):
            return -1
        PyLong_AsLongLongAndOverflow(<object>value, &overflow)
        return -1 if overflow else 0
    if type(<object>value) is not str:
        return -1
    size = len(<str>value)
    return size if size <= most else -1


def examined(list rows not None, tuple names not None, tuple lengths not None,
             tuple defaults not None, Py_ssize_t most):
    """Return the rows that do not fit, and the names of columns with their default in all rows.

    A row fits if each text is as long as its column at most, and all together as `most`. A value of
    another type, and a number of more than 64 bits, does not fit.

    Args:
        lengths: of columns in characters; -1 for a column of numbers.
        defaults: objects that fit; a value is a default if it is the very object. None: no default.
    """
    cdef Py_ssize_t width = len(names)
    cdef Py_ssize_t at, place, total, size
    cdef bint is_fit
    cdef PyObject *value
    cdef list misfits = []
    cdef Py_ssize_t *longest = NULL
    cdef uint8_t *is_usual = NULL
    if len(lengths) != width or len(defaults) != width:
        raise ValueError("each column has one length and one default")
    longest = <Py_ssize_t *>PyMem_Malloc((width + 1) * sizeof(Py_ssize_t))
    is_usual = <uint8_t *>PyMem_Malloc(width + 1)
    try:
        if longest == NULL or is_usual == NULL:
            raise MemoryError
        for place in range(width):
            longest[place] = lengths[place]
            is_usual[place] = defaults[place] is not None
        for row in rows:
            at = 0
            total = 0
            is_fit = True
            for place in range(width):
                value = _value_of(<dict?>row, &at, names[place])
                if value == <PyObject *>defaults[place] and defaults[place] is not None:
                    continue
                is_usual[place] = False
                size = _length_if_fits(value, longest[place])
                if size < 0:
                    is_fit = False
                total += size
            if not is_fit or total > most:
                misfits.append(row)
        return misfits, [names[place] for place in range(width) if is_usual[place]]
    finally:
        PyMem_Free(longest)
        PyMem_Free(is_usual)


def picked(list rows not None, tuple names not None, Py_ssize_t group):
    """Return the values of rows under some names, those of so many rows in one tuple.

    The last tuple has what is left.
    """
    cdef Py_ssize_t width = len(names)
    cdef Py_ssize_t count = len(rows)
    cdef Py_ssize_t first, place, index, at
    cdef tuple values
    cdef list groups = []
    if group < 1:
        raise ValueError("a group has no row")
    for first in range(0, count, group):
        values = PyTuple_New(min(group, count - first) * width)
        for index in range(min(group, count - first)):
            row = rows[first + index]
            at = 0
            for place in range(width):
                value = <object>_value_of(<dict?>row, &at, names[place])
                Py_INCREF(value)
                PyTuple_SET_ITEM(values, index * width + place, value)
        groups.append(values)
    return groups
