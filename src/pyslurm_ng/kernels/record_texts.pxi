# Packed records as texts, most parts of which many records have in common.


cdef struct Span:
    const uint8_t *start   # NULL where a record has no such field
    Py_ssize_t size


cdef enum:
    _MOST_REMEMBERED = 1 << 18   # bytes, for one part
    _LONGEST_REMEMBERED = 1 << 14
    _COST_OF_ONE = 200   # bytes that a text takes in a dict beside its own and those of its key


cdef object _values(Span *spans, tuple places):
    """Return the values at places of a record; None where the record is shorter."""
    cdef Py_ssize_t count = len(places)
    cdef Py_ssize_t i, place
    cdef Reader r
    cdef tuple values = PyTuple_New(count)
    for i in range(count):
        Py_INCREF(None)
        PyTuple_SET_ITEM(values, i, None)
    for i in range(count):
        place = places[i]
        if spans[place].start != NULL:
            r.at = spans[place].start
            r.end = r.at + spans[place].size
            _put(values, i, _decode(&r, 1))
    return values


cdef long long _integer_in(Span *span) except? -1:
    """Return the integer that a field is; ValueError if it is none, or beyond 2**63-1."""
    cdef const uint8_t *at = span.start
    cdef uint64_t n
    if span.size == 1 and at[0] < 0x80:
        return at[0]
    if span.size == 1 and at[0] >= 0xE0:
        return <int8_t>at[0]
    if span.size > 1 and 0xCC <= at[0] <= 0xD3:
        n = _big(at + 1, <int>span.size - 1)
        if at[0] == 0xD0:
            return <int8_t>n
        if at[0] == 0xD1:
            return <int16_t>n
        if at[0] == 0xD2:
            return <int32_t>n
        if at[0] == 0xD3 or n <= 0x7FFFFFFFFFFFFFFF:
            return <long long>n
    raise ValueError("field is not an integer")


cdef class Part:
    """What records put in one place of a text."""

    cdef tuple places   # the fields that have to be there

    cdef int write(self, Span *now, Span *before, Buffer *b) except -1:
        """Append the text for a record; `before` is the record before it, or NULL."""
        raise NotImplementedError


cdef class Remembered(Part):
    """A text that many records have in common.

    Args:
        places: the positions of the fields that decide about it.
        usual: returns its bytes for their values. If it returns None, `own` is asked for each
            record, with the values at `own_places`.
    """

    cdef tuple shared_places, own_places
    cdef object usual, own
    cdef dict known
    cdef object text   # of the record before
    cdef Py_ssize_t held

    def __cinit__(self, tuple places, usual, tuple own_places=(), own=None):
        self.places = places + own_places
        self.shared_places = places
        self.usual = usual
        self.own_places = own_places
        self.own = own
        self.known = {}

    cdef int write(self, Span *now, Span *before, Buffer *b) except -1:
        if before == NULL or not self._is_alike(now, before):
            self.text = self._text_of(now)
        text = self.text
        if text is None:
            text = self.own(*_values(now, self.own_places))
        return _bytes_of(b, text)

    cdef bint _is_alike(self, Span *now, Span *before) except -1:
        cdef Py_ssize_t place
        for place in self.shared_places:
            if now[place].size != before[place].size or memcmp(
                now[place].start, before[place].start, now[place].size
            ):
                return False
        return True

    cdef object _text_of(self, Span *now):
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t place, cost
        cdef char *to
        cdef bytes key
        for place in self.shared_places:
            size += now[place].size
        # Packed values have an end of their own, so different values never give the same key.
        key = PyBytes_FromStringAndSize(NULL, size)
        to = PyBytes_AS_STRING(key)
        for place in self.shared_places:
            memcpy(to, now[place].start, now[place].size)
            to += now[place].size
        if key in self.known:
            return self.known[key]
        text = self.usual(*_values(now, self.shared_places))
        cost = len(key) + _COST_OF_ONE + (0 if text is None else len(text))
        if cost <= _LONGEST_REMEMBERED:
            self.held += cost
            if self.held > _MOST_REMEMBERED:
                self.known.clear()
                self.held = cost
            self.known[key] = text
        return text


cdef class Number(Part):
    """A number between two texts: the first of some fields that is not 0, divided by `unit`.

    A negative field counts as 0.
    """

    cdef bytes lead, tail
    cdef long long unit

    def __cinit__(self, bytes lead not None, tuple places, long long unit, bytes tail not None):
        if unit < 1:
            raise ValueError("unit is less than 1")
        self.lead = lead
        self.places = places
        self.unit = unit
        self.tail = tail

    cdef int write(self, Span *now, Span *before, Buffer *b) except -1:
        cdef long long number = 0
        cdef Py_ssize_t place
        for place in self.places:
            number = _integer_in(&now[place])
            if number:
                break
        _bytes_of(b, self.lead)
        _json_number(b, max(number, 0) // self.unit)
        return _bytes_of(b, self.tail)


cdef class Text(Part):
    """A text as JSON, its slashes escaped; `quote` returns, as str, one that needs other escapes."""

    cdef bytes lead
    cdef object quote

    def __cinit__(self, bytes lead not None, Py_ssize_t place, quote):
        self.lead = lead
        self.places = (place,)
        self.quote = quote

    cdef int write(self, Span *now, Span *before, Buffer *b) except -1:
        (text,) = _values(now, self.places)
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t i
        cdef const uint8_t *start = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &size)
        _bytes_of(b, self.lead)
        for i in range(size):
            if _needs_escape(start[i]):
                return _bytes_of(b, self.quote(text).encode())
        _ensure(b, 2 * size + 2)
        b.start[b.used] = 34
        b.used += 1
        for i in range(size):
            if start[i] == 47:
                b.start[b.used] = 92
                b.used += 1
            b.start[b.used] = start[i]
            b.used += 1
        b.start[b.used] = 34
        b.used += 1
        return 0


cdef class StepOfJob(Part):
    """The SLUID of a job's newest record and the job's id, between three texts.

    Args:
        places: submit_us, resize_us (none is negative), job_id. What is done with them is in
            `base/sluid.py`.
    """

    cdef bytes lead, between, tail

    def __cinit__(
        self, bytes lead not None, tuple places, bytes between not None, bytes tail not None
    ):
        self.lead = lead
        self.places = places
        self.between = between
        self.tail = tail

    cdef int write(self, Span *now, Span *before, Buffer *b) except -1:
        submitted, resized, job_place = self.places
        cdef long long when = _integer_in(&now[<Py_ssize_t>resized])
        cdef long long job_id = _integer_in(&now[<Py_ssize_t>job_place])
        cdef uint64_t number
        cdef int shift
        if not when:
            when = _integer_in(&now[<Py_ssize_t>submitted])
        number = (<uint64_t>(when // 1000) << 10) + <uint64_t>job_id
        number = number & (_CLUSTER_MARK - 1) | _CLUSTER_MARK
        _bytes_of(b, self.lead)
        _ensure(b, 14)
        b.start[b.used] = 115
        for shift in range(13):
            b.start[b.used + 1 + shift] = _SLUID_LETTERS[number >> (60 - 5 * shift) & 31]
        b.used += 14
        _bytes_of(b, self.between)
        _json_number(b, job_id)
        return _bytes_of(b, self.tail)


cdef uint64_t _CLUSTER_MARK = <uint64_t>1 << 54
cdef const char *_SLUID_LETTERS = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"


cdef class RecordTexts:
    """Texts of packed records: concatenated msgpack arrays, one per record.

    Args:
        blob: the records.
        parts: what each text is made of, in order.
        end: the bytes behind the last part.
        between: the bytes between records.

    Errors: ValueError if the blob is malformed, a field is of another kind than its part, or a
    position is out of range; those of the parts' functions.
    """

    cdef bytes blob, end, between
    cdef list parts
    cdef Span *spans
    cdef Span *before
    cdef bint has_before
    cdef Py_ssize_t limit, at
    cdef Buffer b

    def __cinit__(self, bytes blob not None, parts, bytes end not None, bytes between not None):
        cdef Py_ssize_t place
        self.blob = blob
        self.end = end
        self.between = between
        self.parts = list(parts)
        for part in self.parts:
            for place in (<Part?>part).places:
                if place < 0 or place > 65535:
                    raise ValueError("field position out of range")
                self.limit = max(self.limit, place + 1)
        self.spans = <Span *>PyMem_Malloc((self.limit + 1) * sizeof(Span))
        self.before = <Span *>PyMem_Malloc((self.limit + 1) * sizeof(Span))
        self.b.room = 4096
        self.b.start = <uint8_t *>PyMem_Malloc(self.b.room)
        if self.spans == NULL or self.before == NULL or self.b.start == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.spans)
        PyMem_Free(self.before)
        PyMem_Free(self.b.start)

    def next(self, Py_ssize_t count):
        """Return the texts of the next records, at most `count`; b"" after the last one."""
        cdef Reader r
        cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(self.blob)
        cdef Span *before
        r.at = start + self.at
        r.end = start + PyBytes_GET_SIZE(self.blob)
        self.b.used = 0
        while count > 0 and r.at < r.end:
            count -= 1
            if self.b.used:
                _bytes_of(&self.b, self.between)
            self.spans, self.before = self.before, self.spans
            self._split(&r)
            before = self.before if self.has_before else NULL
            for part in self.parts:
                (<Part>part).write(self.spans, before, &self.b)
            _bytes_of(&self.b, self.end)
            self.has_before = True
        self.at = r.at - start
        return PyBytes_FromStringAndSize(<char *>self.b.start, self.b.used)

    cdef int _split(self, Reader *r) except -1:
        """Find where the fields of the next record are."""
        cdef uint64_t count = 0
        cdef uint64_t i
        cdef uint64_t limit = <uint64_t>self.limit
        cdef const uint8_t *start
        _array_head(r, &count)
        for i in range(count):
            start = r.at
            _skip(r)
            if i < limit:
                self.spans[i].start = start
                self.spans[i].size = r.at - start
        for i in range(count, limit):
            self.spans[i].start = NULL
            self.spans[i].size = 0
        return 0
