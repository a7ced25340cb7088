# cython: language_level=3
"""Start processes natively, because Python is too slow and too big for a supervisor.

Everything between clone and exec runs in C and touches no Python object, so a task starts in some
0.1 ms whatever the supervisor's size, and no interpreter state leaks into user code. The caller of
`spawn` is stopped until then, as after vfork. A caller that must never wait for a user's file
system uses `Background`: there a thread that does nothing else waits. The C is in
`process_start.h` and `process_background.h`.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.ref cimport Py_INCREF
from libc.errno cimport errno
from libc.stdlib cimport free, malloc

cdef extern from "process_background.h":
    enum: PSNG_MOST_OPENS
    ctypedef unsigned int gid_t
    ctypedef int pid_t
    cdef struct psng_start:
        char **paths
        char **argv
        char **env
        int stdio[3]
        int open_count
        int which
        const char *opens[4]
        int open_flags[4]
        int passes[4]
        int channel
        int holds
        pid_t pid
        const char *cwd
        long uid
        long gid
        int group_count
        gid_t *groups
        int umask
        int limit_count
        int *limit_names
        long long *limits
        const unsigned char *cpus
        int cpu_bytes
        int memory_mode
        const unsigned char *memory_nodes
        int memory_bytes
        const char *report
        int cgroup_count
        int *cgroup_fds
        int terminal
        int nice
        int die_with_parent
        int is_sibling
        int in_place
        int kept
        char *pid_entry
        int stage
        int error
    pid_t psng_spawn(psng_start *start) nogil
    int psng_rest(int ours)
    int psng_begin(psng_start *start, int ours)
    int psng_take(int channel, int *fds, int *count)
    void psng_go_on(int channel)
    void psng_cancel(psng_start *start)
    int psng_prctl(int option, unsigned long value) nogil
    int psng_unshare(int kinds)
    int psng_setns(int descriptor, int kind)
    int psng_mount(const char *source, const char *target, const char *kind, unsigned long flags,
                   const char *data) nogil
    int psng_umount(const char *target, int flags) nogil
    pid_t waitpid(pid_t pid, int *status, int options) nogil
    int close(int descriptor)
    int PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_NAME

_STAGES = (
    "", "fork", "cgroup", "affinity", "memory policy", "limits", "files", "groups", "gid", "uid",
    "chdir", "exec", "open", "keyring",
)  # fmt: skip


cdef class _Start:
    """The settings of a child in C, and the bytes that they point to."""

    cdef psng_start c
    cdef list opens
    cdef bytes pid_entry
    cdef object borrowed, program

    def __init__(
        self, paths, argv, env, *, int stdin, int stdout, int stderr, bytes cwd=b"", long uid=-1,
        long gid=-1, groups=(), int umask=-1, rlimits=(), bytes cpus=b"", cgroup_fds=(),
        bint terminal=False, int nice=100, bint die_with_parent=True, bytes pid_name=b"",
        int memory_mode=-1, bytes memory_nodes=b"", bytes report=b"", bint is_sibling=False,
        bint in_place=False, opens=(), int kept=-1, bint holds=False,
    ):
        # The child writes the digits.
        self.pid_entry = b"%s=%s" % (pid_name, b"0" * 24) if pid_name else b""
        self.opens = [path for path, _, _ in opens]
        for text in (*self.opens, cwd):
            if b"\0" in text:
                raise ValueError("NUL in a path")
        if len(self.opens) > PSNG_MOST_OPENS or min(stdin, stdout, stderr) < -len(self.opens):
            raise ValueError("a stream is none of the files to open")
        self.borrowed = (cwd, cpus, memory_nodes)
        self.begins(paths, argv, env, report)
        self.c.channel = -1
        self.c.holds = holds
        self.c.pid_entry = PyBytes_AS_STRING(self.pid_entry) if pid_name else NULL
        self.c.stdio[0], self.c.stdio[1], self.c.stdio[2] = stdin, stdout, stderr
        self.c.open_count = len(self.opens)
        for index, (_, flags, passes) in enumerate(opens):
            self.c.opens[index] = PyBytes_AS_STRING(<bytes?>self.opens[index])
            self.c.open_flags[index] = flags
            self.c.passes[index] = passes
        self.c.cwd = PyBytes_AS_STRING(cwd)
        self.c.uid, self.c.gid, self.c.umask = uid, gid, umask
        self.c.cpus = <const unsigned char *>PyBytes_AS_STRING(cpus)
        self.c.cpu_bytes = len(cpus)
        self.c.memory_mode = memory_mode
        self.c.memory_nodes = <const unsigned char *>PyBytes_AS_STRING(memory_nodes)
        self.c.memory_bytes = len(memory_nodes)
        self.c.terminal, self.c.nice = terminal, nice
        self.c.die_with_parent = die_with_parent
        self.c.is_sibling, self.c.in_place = is_sibling, in_place
        self.c.kept = kept
        self.c.group_count, self.c.limit_count = len(groups), len(rlimits)
        self.c.cgroup_count = len(cgroup_fds)
        self.c.groups = <gid_t *>_room(len(groups) * sizeof(gid_t))
        self.c.limit_names = <int *>_room(len(rlimits) * sizeof(int))
        self.c.limits = <long long *>_room(2 * len(rlimits) * sizeof(long long))
        self.c.cgroup_fds = <int *>_room(len(cgroup_fds) * sizeof(int))
        for index, group in enumerate(groups):
            self.c.groups[index] = group
        for index, (name, soft, hard) in enumerate(rlimits):
            self.c.limit_names[index] = name
            self.c.limits[2 * index] = soft
            self.c.limits[2 * index + 1] = hard
        for index, descriptor in enumerate(cgroup_fds):
            self.c.cgroup_fds[index] = descriptor

    cdef int begins(self, paths, argv, env, bytes report) except -1:
        """Set the program, or another one while the child holds."""
        cdef list path_list = list(paths), argv_list = list(argv), env_list = list(env)
        if self.pid_entry:
            env_list.append(self.pid_entry)
        for text in (*path_list, *argv_list, *env_list, report):
            if b"\0" in text:
                raise ValueError("NUL in an argument, path or environment entry")
        if path_list and not argv_list:
            raise ValueError("a program needs an argv")
        free(self.c.paths)
        free(self.c.argv)
        free(self.c.env)
        self.c.paths = self.c.argv = self.c.env = NULL
        self.c.paths = _strings(path_list)
        self.c.argv = _strings(argv_list)
        self.c.env = _strings(env_list)
        self.c.report = PyBytes_AS_STRING(report)
        self.program = (path_list, argv_list, env_list, report)
        return 0

    def __dealloc__(self):
        free(self.c.paths)
        free(self.c.argv)
        free(self.c.env)
        free(self.c.groups)
        free(self.c.limit_names)
        free(self.c.limits)
        free(self.c.cgroup_fds)

    cdef object problem(self):
        """Return why the program has not begun; None if it has."""
        if not self.c.stage:
            return None
        from posix import strerror

        where = _STAGES[self.c.stage]
        if where == "open":
            where = self.opens[self.c.which]
        return OSError(self.c.error, strerror(self.c.error), where)


cdef char **_strings(list texts) except NULL:
    """Return a NULL-terminated array of pointers into `texts`."""
    cdef char **array = <char **>_room(len(texts) * sizeof(char *))
    cdef Py_ssize_t index
    for index in range(len(texts)):
        array[index] = PyBytes_AS_STRING(<bytes?>texts[index])
    array[len(texts)] = NULL
    return array


cdef void *_room(size_t size) except NULL:
    cdef void *room = malloc(size + sizeof(void *))
    if room == NULL:
        raise MemoryError
    return room


def spawn(paths, argv, env, **how):
    """Start a program in a new session and return its process id; see the stub."""
    cdef _Start start = _Start(paths, argv, env, **how)
    cdef int status
    if not start.c.paths[0]:
        raise ValueError("a program needs a path")
    cdef pid_t pid = psng_spawn(&start.c)
    if start.c.stage:
        if pid > 0 and not start.c.is_sibling:
            waitpid(pid, &status, 0)
        raise start.problem()
    return pid


cdef class Background:
    """Starts programs, one after another, without a wait for any; see the stub."""

    cdef int ours
    cdef _Start start

    def __cinit__(self):
        self.ours = psng_rest(-1)
        if self.ours < 0:
            raise OSError("eventfd")

    def fileno(self):
        return self.ours

    @property
    def pid(self):
        return 0 if self.start is None or self.start.c.pid < 0 else self.start.c.pid

    def begin(self, paths, argv, env, **how):
        if self.start is not None:
            raise RuntimeError("one after another")
        cdef _Start start = _Start(paths, argv, env, **how)
        if psng_begin(&start.c, self.ours):
            raise start.problem()
        self.start = start

    def take(self):
        cdef int fds[PSNG_MOST_OPENS]
        cdef int count, kind
        cdef _Start start = self.start
        if start is None:
            return None
        kind = psng_take(self.ours, fds, &count)
        if not kind:
            return None
        if kind != c"e":
            return [fds[index] for index in range(count)]
        self.start = None
        psng_rest(self.ours)
        problem = start.problem()
        return start.c.pid if problem is None else problem

    def go_on(self, paths, argv, env, bytes report=b""):
        if self.start is None or not self.start.c.holds:
            raise RuntimeError("nothing holds")
        self.start.begins(paths, argv, env, report)
        psng_go_on(self.ours)

    def cancel(self):
        if self.start is not None:
            psng_cancel(&self.start.c)

    def close(self):
        if self.start is not None:
            # A process that cannot be ended still reads it.
            Py_INCREF(self.start)
            self.start = None
        if self.ours >= 0:
            close(self.ours)
        self.ours = -1


def become_subreaper():
    """Let processes whose parents died become our children."""
    if psng_prctl(PR_SET_CHILD_SUBREAPER, 1):
        raise OSError("PR_SET_CHILD_SUBREAPER")


def set_name(bytes name):
    """Set what `ps -o comm` shows, at most 15 bytes."""
    psng_prctl(PR_SET_NAME, <unsigned long><char *>PyBytes_AS_STRING(name))


def set_dumpable(bint dumpable):
    """Allow or forbid core files of, and tracing by others of, this process."""
    psng_prctl(PR_SET_DUMPABLE, dumpable)


def unshare(int kinds):
    """Move this process to new namespaces (CLONE_NEW*)."""
    if psng_unshare(kinds):
        raise OSError(errno, _words(errno))


def enter_namespace(int descriptor, int kind):
    """Move this process to the namespace of a file."""
    if psng_setns(descriptor, kind):
        raise OSError(errno, _words(errno))


def mount(bytes source, bytes target, bytes kind, unsigned long flags, bytes data=b""):
    """mount(2); see the stub."""
    cdef int result
    cdef const char *where = target
    cdef const char *what = source
    cdef const char *how = kind
    cdef const char *words = data
    with nogil:
        result = psng_mount(what, where, how, flags, words)
    if result:
        raise OSError(errno, _words(errno), target)


def umount(bytes target, int flags):
    """umount2(2)."""
    cdef int result
    cdef const char *where = target
    with nogil:
        result = psng_umount(where, flags)
    if result:
        raise OSError(errno, _words(errno), target)


def _words(int number):
    from posix import strerror

    return strerror(number)
