# cython: language_level=3
"""Start processes natively: the supervisor's one need that Python is too slow and too big for.

Everything between clone and exec runs in C and touches no Python object, so a task starts in some
0.1 ms whatever the supervisor's size, and no interpreter state leaks into user code. The caller
stands still until then, as after vfork: whoever must never wait for a file system of a user's has
a process of its own call this.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdlib cimport free, malloc

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <fcntl.h>
    #include <grp.h>
    #include <sched.h>
    #include <signal.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/ioctl.h>
    #include <sys/prctl.h>
    #include <sys/resource.h>
    #include <sys/stat.h>
    #include <sys/syscall.h>
    #include <sys/types.h>
    #include <sys/wait.h>
    #include <unistd.h>

    #ifndef SYS_close_range
    #define SYS_close_range 436
    #endif

    enum psng_stage { PSNG_OK, PSNG_FORK, PSNG_CGROUP, PSNG_AFFINITY, PSNG_MEMORY, PSNG_LIMITS,
                      PSNG_FILES, PSNG_GROUPS, PSNG_GID, PSNG_UID, PSNG_CHDIR, PSNG_EXEC };

    struct psng_start {
        char **paths, **argv, **env;
        int stdio[3];
        const char *cwd;
        long uid, gid;
        int group_count;
        gid_t *groups;
        int umask;
        int limit_count;
        int *limit_names;
        long long *limits;           /* soft, hard, soft, hard ... */
        const unsigned char *cpus;
        int cpu_bytes;
        int memory_mode;             /* MPOL_*, -1: as it is */
        const unsigned char *memory_nodes;
        int memory_bytes;
        const char *report;          /* for stderr; \1 stands for the process id */
        int cgroup_count;
        int *cgroup_fds;
        int terminal, nice, die_with_parent;
        int is_sibling;              /* becomes a child of our parent instead of ours */
        int in_place;                /* no new process: this one becomes the program */
        pid_t parent;
        char *pid_entry;             /* SLURM_TASK_PID= with room for the digits, in env */
        volatile int stage, error;
    };

    /* Returns in place only, so every caller returns at once after it. */
    static int psng_fail(struct psng_start *s, int stage)
    {
        s->stage = stage;
        s->error = errno;
        if (!s->in_place)
            _exit(127);
        return -1;
    }

    /* After the identity: the user may lower what the node has, and nobody may raise it. */
    static int psng_limits(struct psng_start *s)
    {
        for (int i = 0; i < s->limit_count; i++) {
            struct rlimit now, want;
            long long soft = s->limits[2 * i], hard = s->limits[2 * i + 1];
            want.rlim_cur = soft < 0 ? RLIM_INFINITY : (rlim_t)soft;
            want.rlim_max = hard < 0 ? RLIM_INFINITY : (rlim_t)hard;
            if (getrlimit(s->limit_names[i], &now))
                return psng_fail(s, PSNG_LIMITS);
            if (want.rlim_max > now.rlim_max)
                want.rlim_max = now.rlim_max;
            if (want.rlim_cur > want.rlim_max)
                want.rlim_cur = want.rlim_max;
            if (setrlimit(s->limit_names[i], &want))
                return psng_fail(s, PSNG_LIMITS);
        }
        return 0;
    }

    static int psng_identity(struct psng_start *s)
    {
        uid_t r, e, v;
        if (s->uid < 0)
            return 0;
        /* The raw calls: a child that shares our memory must not meet glibc's signalling of other
           threads. */
        if (syscall(SYS_setgroups, s->group_count, s->groups))
            return psng_fail(s, PSNG_GROUPS);
        if (syscall(SYS_setresgid, s->gid, s->gid, s->gid))
            return psng_fail(s, PSNG_GID);
        if (syscall(SYS_setresuid, s->uid, s->uid, s->uid))
            return psng_fail(s, PSNG_UID);
        if (getresuid(&r, &e, &v) || r != s->uid || e != s->uid || v != s->uid) {
            errno = EPERM;
            return psng_fail(s, PSNG_UID);
        }
        if (s->uid != 0 && syscall(SYS_setresuid, 0, 0, 0) == 0) {
            errno = EPERM;
            return psng_fail(s, PSNG_UID);
        }
        return 0;
    }

    static void psng_own_pid(char *entry)
    {
        char digits[24];
        int count = 0;
        for (pid_t pid = getpid(); pid; pid /= 10)
            digits[count++] = '0' + pid % 10;
        entry = strchr(entry, '=') + 1;
        while (count)
            *entry++ = digits[--count];
        *entry = 0;
    }

    static void psng_report(const char *text)
    {
        char line[4096], digits[24];
        size_t used = 0;
        for (; *text && used < sizeof line - sizeof digits; text++) {
            if (*text != '\1') {
                line[used++] = *text;
                continue;
            }
            int count = 0;
            for (pid_t pid = getpid(); pid; pid /= 10)
                digits[count++] = '0' + pid % 10;
            while (count)
                line[used++] = digits[--count];
        }
        /* Whether anybody reads it must not decide whether the task runs. */
        if (used && write(2, line, used) < 0)
            return;
    }

    static int psng_child(struct psng_start *s)
    {
        /* The kernel's own record, all zero: SIG_DFL. glibc would not touch signals 32 and 33. */
        static const char plain[64];
        for (int i = 0; i < s->cgroup_count; i++)
            if (write(s->cgroup_fds[i], "0", 1) < 0)
                return psng_fail(s, PSNG_CGROUP);
        if (s->cpu_bytes && syscall(SYS_sched_setaffinity, 0, s->cpu_bytes, s->cpus) < 0)
            return psng_fail(s, PSNG_AFFINITY);
        if (s->memory_mode >= 0 &&
            syscall(SYS_set_mempolicy, s->memory_mode, s->memory_bytes ? s->memory_nodes : NULL,
                    s->memory_bytes * 8 + 1))
            return psng_fail(s, PSNG_MEMORY);
        if (s->nice <= 19)
            setpriority(PRIO_PROCESS, 0, s->nice);
        setsid();
        /* Above all others first, so that no dup2 closes what another still needs. */
        int high[3];
        for (int i = 0; i < 3; i++)
            if ((high[i] = fcntl(s->stdio[i], F_DUPFD_CLOEXEC, 64)) < 0)
                return psng_fail(s, PSNG_FILES);
        for (int i = 0; i < 3; i++)
            if (dup2(high[i], i) < 0)
                return psng_fail(s, PSNG_FILES);
        /* In place the caller still has to say how it failed, and all it opened is O_CLOEXEC. */
        if (!s->in_place && syscall(SYS_close_range, 3, ~0U, 0))
            for (int fd = 3; fd < 4096; fd++)
                close(fd);
        if (s->terminal)
            ioctl(0, TIOCSCTTY, 0);
        if (psng_identity(s) || psng_limits(s))
            return -1;
        if (s->umask >= 0)
            umask(s->umask);
        if (s->cwd[0] && chdir(s->cwd))
            return psng_fail(s, PSNG_CHDIR);
        if (s->die_with_parent) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != s->parent)
                _exit(127);
        }
        for (int number = 1; number <= 64; number++)
            if (number != SIGKILL && number != SIGSTOP)
                syscall(SYS_rt_sigaction, number, plain, NULL, 8);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (s->pid_entry)
            psng_own_pid(s->pid_entry);
        psng_report(s->report);
        int problem = ENOENT;
        for (char **path = s->paths; *path; path++) {
            execve(*path, s->argv, s->env);
            if (errno != ENOENT && errno != ENOTDIR)
                problem = errno;
        }
        errno = problem;
        return psng_fail(s, PSNG_EXEC);
    }

    static int psng_entry(void *start)
    {
        return psng_child((struct psng_start *)start);
    }

    #define PSNG_STACK (128 << 10)

    static pid_t psng_spawn(struct psng_start *s)
    {
        sigset_t all, old;
        pid_t pid = -1;
        if (s->in_place) {
            s->parent = getppid();
            return psng_child(s);
        }
        s->parent = s->is_sibling ? getppid() : getpid();
        char *stack = (char *)malloc(PSNG_STACK);
        /* A handler must not run in the child, which shares our memory until exec. */
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &old);
        errno = ENOMEM;
        if (stack)
            pid = clone(psng_entry, stack + PSNG_STACK,
                        CLONE_VM | CLONE_VFORK | SIGCHLD | (s->is_sibling ? CLONE_PARENT : 0), s);
        int error = errno;
        sigprocmask(SIG_SETMASK, &old, NULL);
        free(stack);
        if (pid < 0) {
            s->stage = PSNG_FORK;
            s->error = error;
        }
        return pid;
    }

    static int psng_prctl(int option, unsigned long value)
    {
        return prctl(option, value, 0, 0, 0);
    }
    """
    ctypedef unsigned int gid_t
    ctypedef int pid_t
    cdef struct psng_start:
        char **paths
        char **argv
        char **env
        int stdio[3]
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
        char *pid_entry
        int stage
        int error
    pid_t psng_spawn(psng_start *start) nogil
    int psng_prctl(int option, unsigned long value) nogil
    pid_t waitpid(pid_t pid, int *status, int options) nogil
    int PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_NAME

_STAGES = (
    "", "fork", "cgroup", "affinity", "memory policy", "limits", "files", "groups", "gid", "uid",
    "chdir", "exec",
)  # fmt: skip


cdef char **_strings(list texts) except NULL:
    """Return a NULL-terminated array that borrows the bytes of `texts`."""
    cdef char **array = <char **>malloc((len(texts) + 1) * sizeof(char *))
    if array == NULL:
        raise MemoryError
    cdef Py_ssize_t index
    for index in range(len(texts)):
        array[index] = PyBytes_AS_STRING(<bytes?>texts[index])
    array[len(texts)] = NULL
    return array


def spawn(
    paths, argv, env, *, int stdin, int stdout, int stderr, bytes cwd=b"", long uid=-1,
    long gid=-1, groups=(), int umask=-1, rlimits=(), bytes cpus=b"", cgroup_fds=(),
    bint terminal=False, int nice=100, bint die_with_parent=True, bytes pid_name=b"",
    int memory_mode=-1, bytes memory_nodes=b"", bytes report=b"", bint is_sibling=False,
    bint in_place=False,
):
    """Start a program in a session of its own and return its process id; see the stub."""
    cdef psng_start start
    cdef list path_list = list(paths), argv_list = list(argv), env_list = list(env)
    cdef pid_t pid
    cdef int status
    cdef bytes pid_entry = b"%s=%s" % (pid_name, b"0" * 24)
    if pid_name:
        env_list.append(pid_entry)
    for text in (*path_list, *argv_list, *env_list, cwd, report):
        if b"\0" in text:
            raise ValueError("NUL in an argument, path or environment entry")
    if not argv_list or not path_list:
        raise ValueError("a program needs a path and an argv")
    start.paths = start.argv = start.env = NULL
    start.groups = NULL
    start.limit_names = start.cgroup_fds = NULL
    start.limits = NULL
    start.stage = start.error = 0
    start.pid_entry = PyBytes_AS_STRING(pid_entry) if pid_name else NULL
    start.stdio[0], start.stdio[1], start.stdio[2] = stdin, stdout, stderr
    start.cwd = PyBytes_AS_STRING(cwd)
    start.uid, start.gid, start.umask = uid, gid, umask
    start.cpus = <const unsigned char *>PyBytes_AS_STRING(cpus)
    start.cpu_bytes = len(cpus)
    start.memory_mode = memory_mode
    start.memory_nodes = <const unsigned char *>PyBytes_AS_STRING(memory_nodes)
    start.memory_bytes = len(memory_nodes)
    start.report = PyBytes_AS_STRING(report)
    start.terminal, start.nice, start.die_with_parent = terminal, nice, die_with_parent
    start.is_sibling, start.in_place = is_sibling, in_place
    start.group_count, start.limit_count = len(groups), len(rlimits)
    start.cgroup_count = len(cgroup_fds)
    try:
        start.paths = _strings(path_list)
        start.argv = _strings(argv_list)
        start.env = _strings(env_list)
        start.groups = <gid_t *>malloc((len(groups) + 1) * sizeof(gid_t))
        start.limit_names = <int *>malloc((len(rlimits) + 1) * sizeof(int))
        start.limits = <long long *>malloc((2 * len(rlimits) + 1) * sizeof(long long))
        start.cgroup_fds = <int *>malloc((len(cgroup_fds) + 1) * sizeof(int))
        if (start.groups == NULL or start.limit_names == NULL or start.limits == NULL
                or start.cgroup_fds == NULL):
            raise MemoryError
        for index, group in enumerate(groups):
            start.groups[index] = group
        for index, (name, soft, hard) in enumerate(rlimits):
            start.limit_names[index] = name
            start.limits[2 * index] = soft
            start.limits[2 * index + 1] = hard
        for index, descriptor in enumerate(cgroup_fds):
            start.cgroup_fds[index] = descriptor
        pid = psng_spawn(&start)
        if start.stage:
            if pid > 0 and not is_sibling:
                waitpid(pid, &status, 0)
            raise OSError(start.error, _error_text(start.error), _STAGES[start.stage])
        return pid
    finally:
        free(start.paths)
        free(start.argv)
        free(start.env)
        free(start.groups)
        free(start.limit_names)
        free(start.limits)
        free(start.cgroup_fds)


def _error_text(int number):
    from posix import strerror

    return strerror(number)


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
