# Numbers by number.

cdef enum:
    LEAST_ROOM = 8


cdef class NumbersKept:
    """A mapping of 64-bit numbers: 16 bytes for each entry, and as much again in reserve.

    A dict with a hundred thousand entries takes 50 bytes for each, and 32 more for its number. An
    entry is in its key's place or in the first free place after it; there is always one.
    """

    cdef int64_t *_keys
    cdef int64_t *_values
    cdef uint8_t *_is_taken
    cdef Py_ssize_t _room, _count  # the former a power of two

    def __cinit__(self, *entries):
        self._make_room(LEAST_ROOM)

    def __dealloc__(self):
        free(self._keys)
        free(self._values)
        free(self._is_taken)

    cdef int _make_room(self, Py_ssize_t room) except -1:
        """Make so many places, all free."""
        cdef int64_t *keys = <int64_t *>malloc(room * sizeof(int64_t))
        cdef int64_t *values = <int64_t *>malloc(room * sizeof(int64_t))
        cdef uint8_t *is_taken = <uint8_t *>calloc(room, 1)
        if keys == NULL or values == NULL or is_taken == NULL:
            free(keys)
            free(values)
            free(is_taken)
            raise MemoryError
        self._keys, self._values, self._is_taken = keys, values, is_taken
        self._room, self._count = room, 0
        return 0

    cdef int _grow(self) except -1:
        """Double the number of places."""
        cdef int64_t *keys = self._keys
        cdef int64_t *values = self._values
        cdef uint8_t *is_taken = self._is_taken
        cdef Py_ssize_t place, room = self._room
        self._make_room(2 * room)
        for place in range(room):
            if is_taken[place]:
                self.put(keys[place], values[place])
        free(keys)
        free(values)
        free(is_taken)
        return 0

    cdef inline Py_ssize_t _home(self, int64_t key) noexcept:
        """Return the place of a key; neighbouring keys are far from one another."""
        cdef uint64_t mixed = <uint64_t>key * <uint64_t>0x9E3779B97F4A7C15
        return <Py_ssize_t>((mixed >> 32) & <uint64_t>(self._room - 1))

    cdef inline Py_ssize_t _place(self, int64_t key) noexcept:
        """Return the place where a key is, or the free place for it."""
        cdef Py_ssize_t place = self._home(key)
        while self._is_taken[place] and self._keys[place] != key:
            place = (place + 1) & (self._room - 1)
        return place

    cdef int put(self, int64_t key, int64_t value) except -1:
        """Enter a number, and replace an earlier one."""
        cdef Py_ssize_t place = self._place(key)
        if not self._is_taken[place]:
            if 5 * (self._count + 1) > 4 * self._room:
                self._grow()
                place = self._place(key)
            self._is_taken[place] = 1
            self._keys[place] = key
            self._count += 1
        self._values[place] = value
        return 0

    cdef inline bint has(self, int64_t key) noexcept:
        """Return whether there is an entry."""
        return self._is_taken[self._place(key)]

    def put_all(self, list keys, list values):
        """Enter many numbers, and replace earlier ones."""
        cdef Py_ssize_t index
        if len(keys) != len(values):
            raise ValueError("a number for each key is needed")
        for index in range(len(keys)):
            self.put(keys[index], values[index])

    def clear(self):
        """Forget all entries."""
        free(self._keys)
        free(self._values)
        free(self._is_taken)
        self._keys = self._values = NULL
        self._is_taken = NULL
        self._make_room(LEAST_ROOM)

    def get(self, int64_t key, default=None):
        """Return the number of a key, or a default."""
        cdef Py_ssize_t place = self._place(key)
        return self._values[place] if self._is_taken[place] else default

    def setdefault(self, int64_t key, int64_t default):
        """Enter a number if there is none yet; return the entry's number."""
        if not self.has(key):
            self.put(key, default)
        return self._values[self._place(key)]

    def __getitem__(self, int64_t key):
        cdef Py_ssize_t place = self._place(key)
        if not self._is_taken[place]:
            raise KeyError(key)
        return self._values[place]

    def __setitem__(self, int64_t key, int64_t value):
        self.put(key, value)

    def __delitem__(self, int64_t key):
        cdef Py_ssize_t place = self._place(key), home, other
        if not self._is_taken[place]:
            raise KeyError(key)
        # Entries that were moved past this place move up, so that every search finds its entry.
        other = place
        while True:
            other = (other + 1) & (self._room - 1)
            if not self._is_taken[other]:
                break
            home = self._home(self._keys[other])
            if ((other - home) & (self._room - 1)) >= ((other - place) & (self._room - 1)):
                self._keys[place], self._values[place] = self._keys[other], self._values[other]
                place = other
        self._is_taken[place] = 0
        self._count -= 1

    def __contains__(self, int64_t key):
        return self.has(key)

    def __len__(self):
        return self._count

    def __iter__(self):
        return iter([self._keys[place] for place in range(self._room) if self._is_taken[place]])
