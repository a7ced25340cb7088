# What is looked at in rows before they are written to a database.


def fits(dict row not None, tuple texts not None, tuple lengths not None, tuple numbers not None,
         Py_ssize_t most):
    """Return whether each text is as long as its column at most, and all together as `most`.

    Lengths are in characters. A value of another type, and a number of more than 64 bits, does not
    fit.
    """
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t size
    cdef Py_ssize_t place
    cdef int overflow = 0
    if len(texts) != len(lengths):
        raise ValueError("each text has one length")
    for place in range(len(texts)):
        value = row[texts[place]]
        if type(value) is not str:
            return False
        size = len(<str>value)
        if size:
            if size > <Py_ssize_t>lengths[place]:
                return False
            total += size
    for name in numbers:
        value = row[name]
        if not isinstance(value, int):
            return False
        PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow:
            return False
    return total <= most


def unchanged(list rows not None, dict defaults not None):
    """Return the keys under which all rows have the very object that `defaults` has."""
    cdef list names = list(defaults)
    cdef list values = list(defaults.values())
    cdef Py_ssize_t left = len(names)
    cdef Py_ssize_t kept
    cdef Py_ssize_t place
    for row in rows:
        kept = 0
        for place in range(left):
            name = names[place]
            value = values[place]
            if (<dict?>row)[name] is value:
                names[kept] = name
                values[kept] = value
                kept += 1
        left = kept
    return names[:left]
