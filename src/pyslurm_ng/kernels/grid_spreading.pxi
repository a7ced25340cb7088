# How many tasks each node can hold, for jobs with uneven shares.

cdef struct Task:
    # The amount of a resource for the first task on a node, and for each further one.
    int32_t first, more


cdef class GridSpread(GridSearch):
    """Tasks of one job counted node by node.

    The functions take a kind for one task on a node and, for each node kind, what the first and
    each further task needs of each resource of the kind's shape. `most` is how many tasks a node
    may get.
    """

    cdef Task *_tasks(self, Shape *shape, tasks_amounts) except NULL:
        """Return what tasks need, by node kind and resource; the caller frees it."""
        cdef int kind, at
        cdef Task *tasks
        if len(tasks_amounts) != self._kinds:
            raise ValueError("amounts per kind are needed")
        tasks = <Task *>malloc((self._kinds * shape.resources + 1) * sizeof(Task))
        if tasks == NULL:
            raise MemoryError
        for kind in range(self._kinds):
            for at in range(shape.resources):
                first, more = tasks_amounts[kind][at]
                tasks[kind * shape.resources + at].first = first
                tasks[kind * shape.resources + at].more = more
        return tasks

    cdef int _tasks_on(self, Shape *shape, int node, const Task *tasks, int most, int start,
                       int end) noexcept nogil:
        """Return how many tasks fit over a window on a node that fits one task."""
        cdef int at, fit, found = most
        cdef const Task *task
        cdef grid_row *row
        for at in range(shape.resources):
            task = tasks + self._node_kind[node] * shape.resources + at
            row = self._row(shape.resource[at], node)
            if task.more <= 0 or row == NULL:
                continue
            fit = 1 + (grid_row_least(row, start, end) - task.first) // task.more
            found = fit if fit < found else found
        return found if found > 0 else 0

    def tasks_on(self, int kind, nodes, tasks_amounts, int most, int slot=0):
        """Return how many tasks each of some nodes can hold that fit one; see `capacity`."""
        if not 0 <= kind < self._jobs or not 0 <= slot < self._slots:
            raise IndexError((kind, slot))
        cdef Shape *shape = self._shape + self._job[kind].shape
        cdef int end = self._job[kind].ends[slot], node
        cdef Task *tasks = self._tasks(shape, tasks_amounts)
        answer = []
        try:
            for node in nodes:
                if not 0 <= node < self._nodes:
                    raise IndexError(node)
                answer.append(self._tasks_on(shape, node, tasks, most, slot, end))
        finally:
            free(tasks)
        return answer

    def capacity(self, int kind, tasks_amounts, int most, long long enough, int slot=0):
        """Return (node, tasks) for nodes that can hold some tasks from a slot to the job's end.

        Args:
            enough: stop when the tasks of the nodes found add up to this.
        """
        cdef long long total = 0
        cdef int place, node, end, count
        cdef Kind *job
        cdef Shape *shape
        cdef uint64_t fits
        cdef Task *tasks
        if not 0 <= kind < self._jobs or not 0 <= slot < self._slots:
            raise IndexError((kind, slot))
        self._remember(kind)
        job = self._job + kind
        shape = self._shape + job.shape
        end = job.ends[slot]
        tasks = self._tasks(shape, tasks_amounts)
        answer = []
        try:
            for place in range(self._words):
                fits = self._scan(job, place, slot, end)
                fits = self._exact(job, place, fits, slot, end, False)
                job.gain[place] = 0
                job.best = -1
                if total >= enough:
                    break
                while fits and total < enough:
                    node = place * 64 + lowest(fits)
                    fits &= fits - 1
                    count = self._tasks_on(shape, node, tasks, most, slot, end)
                    total += count
                    answer.append((node, count))
        finally:
            free(tasks)
        return answer

    def capacities(self, int kind, tasks_amounts, int most, int last):
        """Return how many tasks all nodes can hold together, for a start in each slot up to one."""
        cdef int node, slot
        cdef Kind *job
        cdef Shape *shape
        cdef Task *tasks
        cdef int32_t *held
        cdef int16_t *line
        if not 0 <= kind < self._jobs or not 0 <= last < self._slots:
            raise IndexError((kind, last))
        job = self._job + kind
        shape = self._shape + job.shape
        tasks = self._tasks(shape, tasks_amounts)
        held = <int32_t *>malloc((last + 1) * sizeof(int32_t))
        line = <int16_t *>malloc(self._slots * sizeof(int16_t))
        totals = array("q", bytes(8 * (last + 1)))
        cdef int64_t[::1] total = totals
        try:
            if held == NULL or line == NULL:
                raise MemoryError
            with nogil:
                for node in range(self._nodes):
                    if not job.mask[node >> 6] >> (node & 63) & 1:
                        continue
                    for slot in range(last + 1):
                        held[slot] = most
                    self._lower(job, node, tasks, last, held, line)
                    for slot in range(last + 1):
                        total[slot] += held[slot]
        finally:
            free(tasks)
            free(held)
            free(line)
        return totals

    cdef void _lower(self, Kind *job, int node, const Task *tasks, int last, int32_t *held,
                     int16_t *line) noexcept nogil:
        """Lower the tasks of each slot to what a node can hold from then on.

        Windows begin and end later and later. `line` has those steps of a window that are lower
        than all later ones, the lowest first.
        """
        cdef Shape *shape = self._shape + job.shape
        cdef int at, slot, head, tail, seen, fit, kind = self._node_kind[node]
        cdef int32_t least, first
        cdef const Task *task
        cdef grid_row *row
        cdef int16_t *slots
        for at in range(shape.resources):
            task = tasks + kind * shape.resources + at
            first = shape.amount[kind * shape.resources + at]
            if first <= 0 and task.more <= 0:
                continue
            row = self._row(shape.resource[at], node)
            if row == NULL:
                for slot in range(last + 1 if first > 0 else 0):
                    held[slot] = 0
                continue
            slots = grid_slots(row)
            head = tail = seen = 0
            for slot in range(last + 1):
                while seen < row.count and slots[seen] < job.ends[slot]:
                    while tail > head and (
                            row.amounts[line[tail - 1]] >= row.amounts[seen]):
                        tail -= 1
                    line[tail] = seen
                    tail += 1
                    seen += 1
                while line[head] + 1 < row.count and slots[line[head] + 1] <= slot:
                    head += 1
                least = row.amounts[line[head]]
                if first > 0 and least < first:
                    held[slot] = 0
                elif task.more > 0:
                    fit = max(0, 1 + (least - task.first) // task.more)
                    held[slot] = fit if fit < held[slot] else held[slot]
