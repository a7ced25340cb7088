/* Processes from clone to exec, for `kernels/process.pyx`.

   A child shares its parent's memory until exec, so it takes no lock, allocates nothing, and uses the
   errno of a thread that is waiting for it. */
#ifndef PYSLURM_PROCESS_START_H
#define PYSLURM_PROCESS_START_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum psng_stage { PSNG_OK, PSNG_FORK, PSNG_CGROUP, PSNG_AFFINITY, PSNG_MEMORY, PSNG_LIMITS,
                  PSNG_FILES, PSNG_GROUPS, PSNG_GID, PSNG_UID, PSNG_CHDIR, PSNG_EXEC,
                  PSNG_OPEN, PSNG_KEYRING };

#define PSNG_MOST_OPENS 4

struct psng_start {
    char **paths, **argv, **env;
    int stdio[3];                /* below 0: -1 is the first of `opens`, -2 the second ... */
    int open_count, which;       /* `which` could not be opened */
    const char *opens[PSNG_MOST_OPENS];
    int open_flags[PSNG_MOST_OPENS], passes[PSNG_MOST_OPENS];
    int channel;                 /* receives passed descriptors; -1: not in background */
    int is_cancelled, is_open;   /* it begins no program; the user's files are open */
    int holds;                   /* before the program it waits for a word in its channel */
    pid_t pid;
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
    int kept;                    /* open in the program, too, with the same number; -1: none */
    pid_t parent;
    char *pid_entry;             /* SLURM_TASK_PID= with room for the digits, in env */
    volatile int stage, error;
};

/* It returns only if in place, so every caller returns directly after it. */
static int psng_fail(struct psng_start *s, int stage)
{
    s->stage = stage;
    s->error = errno;
    if (!s->in_place)
        _exit(127);
    return -1;
}

/* After the identity: the user may lower the node's limits, but no one may raise them. */
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

/* A session keyring is inherited, so all users' programs would have that of the daemon's own session
 * in common, and could read each other's keys there. One that PAM has made for the user stays.
 * Kernels and containers without keyrings refuse, and then nothing is inherited, either.
 * Returns -1 where the daemon's user may have no more keys, so that the session is still in common.
 */
static int psng_own_keyring(struct psng_start *s)
{
    static const char kind[] = "keyring;";  /* its owner follows */
    char text[256] = "";
    long ring = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
    if (ring >= 0 && syscall(SYS_keyctl, KEYCTL_DESCRIBE, ring, text, sizeof text - 1) > 0
        && !strncmp(text, kind, strlen(kind))
        && strtoul(text + strlen(kind), NULL, 10) == (unsigned long)s->uid)
        return 0;
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
        return 0;
    return errno == EDQUOT || errno == ENOMEM ? -1 : 0;
}

static int psng_identity(struct psng_start *s)
{
    uid_t r, e, v;
    int is_common;
    if (s->uid < 0)
        return 0;
    is_common = psng_own_keyring(s);
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
    /* The user's own keys are counted then, and only that user's programs do not begin. */
    if (is_common && syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0)
        return psng_fail(s, PSNG_KEYRING);
    /* As after a login: the user's own keys are found from the session. */
    syscall(SYS_keyctl, KEYCTL_LINK, KEY_SPEC_USER_KEYRING, KEY_SPEC_SESSION_KEYRING);
    /* Until exec we share our parent's memory: the user must not read it, with any
     * fs.suid_dumpable.
     */
    prctl(PR_SET_DUMPABLE, 0);
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
    char line[12288], digits[24];
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
    /* The task must run even if no one reads it. */
    if (used && write(2, line, used) < 0)
        return;
}

static void psng_close(unsigned first, unsigned last)
{
    if (first > last || !syscall(SYS_close_range, first, last, 0))
        return;
    for (unsigned fd = first; fd <= last && fd < 4096; fd++)
        close(fd);
}

/* Close all above the standard streams but two, each of which may be -1. */
static void psng_close_above(int one, int other)
{
    int low = one < other ? one : other, high = one < other ? other : one;
    unsigned after = 3;
    if (low >= 3) {
        psng_close(after, low - 1);
        after = low + 1;
    }
    if (high >= 3 && high != low) {
        psng_close(after, high - 1);
        after = high + 1;
    }
    psng_close(after, ~0U);
}

/* While it waits for a user's file it must hold no other file: otherwise a process that waits for
 * the end of a connection would wait for that, too.
 */
static void psng_close_others(struct psng_start *s)
{
    unsigned after = 3;
    for (;;) {
        unsigned next = ~0U;
        for (int i = 0; i < 5 + s->cgroup_count; i++) {
            int fd = i < 3 ? s->stdio[i] : i < 4 ? s->channel : i < 5 ? s->kept :
                s->cgroup_fds[i - 5];
            if (fd >= (int)after && (unsigned)fd < next)
                next = fd;
        }
        if (next == ~0U)
            break;
        psng_close(after, next - 1);
        after = next + 1;
    }
    psng_close(after, ~0U);
}

/* The user's rights for some system calls. The user's signals do not reach us, because the real id
 * decides about those.
 */
static int psng_borrow(struct psng_start *s, int is_on)
{
    long uid = is_on ? s->uid : 0, gid = is_on ? s->gid : 0;
    if (s->uid < 0)
        return 0;
    if (is_on && syscall(SYS_setgroups, s->group_count, s->groups))
        return psng_fail(s, PSNG_GROUPS);
    if (!is_on && syscall(SYS_setresuid, -1, uid, -1))
        return psng_fail(s, PSNG_UID);
    if (syscall(SYS_setresgid, -1, gid, -1))
        return psng_fail(s, PSNG_GID);
    if (is_on && syscall(SYS_setresuid, -1, uid, -1))
        return psng_fail(s, PSNG_UID);
    return 0;
}

/* The folders above a file that is to be made; with the user's rights and umask. */
static int psng_make_folders(const char *path)
{
    char above[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof above) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (size_t i = 0; i < length; i++) {
        if (i && path[i] == '/') {
            above[i] = 0;
            if (mkdir(above, 0755) && errno != EEXIST)
                return -1;
        }
        above[i] = path[i];
    }
    return 0;
}

/* A FIFO that is read has no end of file before it has had a writer. Only in background. */
static int psng_await_writer(int fd)
{
    struct pollfd reading = {fd, POLLIN, 0};
    int ready;
    do
        ready = poll(&reading, 1, -1);
    while (ready < 0 && errno == EINTR);
    return ready < 0 ? -1 : 0;
}

/* A FIFO without a reader, a directory or a socket is refused instead of waited for. */
static int psng_open(const char *path, int flags)
{
    struct stat found;
    flags |= O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, flags, 0666);
    if (fd < 0 && errno == ENOENT && flags & O_CREAT && !psng_make_folders(path))
        fd = open(path, flags, 0666);
    if (fd < 0 || fstat(fd, &found))
        return -1;
    if (S_ISDIR(found.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    if (S_ISFIFO(found.st_mode) && (flags & O_ACCMODE) == O_RDONLY && psng_await_writer(fd))
        return -1;
    /* Only to open without waiting; a program expects its files to block. */
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK))
        return -1;
    return fd;
}

/* All that a child in background reports, except the end of its channel, which says that it has
 * begun or failed.
 */
static int psng_pass(struct psng_start *s, const int *fds, int count)
{
    char room[CMSG_SPACE(PSNG_MOST_OPENS * sizeof(int))] = {0};
    struct iovec body = {"o", 1};
    struct msghdr message = {0};
    message.msg_iov = &body;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    return sendmsg(s->channel, &message, MSG_NOSIGNAL);
}

/* Only in background: any access to the user's files here may take for ever. */
static int psng_prepare(struct psng_start *s)
{
    int fds[PSNG_MOST_OPENS], passed[PSNG_MOST_OPENS], count = 0;
    if (__atomic_load_n(&s->is_cancelled, __ATOMIC_SEQ_CST))
        _exit(127);
    psng_close_others(s);
    if (s->umask >= 0)
        umask(s->umask);
    if (psng_borrow(s, 1))
        return -1;
    if (s->cwd[0] && chdir(s->cwd))
        return psng_fail(s, PSNG_CHDIR);
    for (int i = 0; i < s->open_count; i++) {
        s->which = i;
        if ((fds[i] = psng_open(s->opens[i], s->open_flags[i])) < 0)
            return psng_fail(s, PSNG_OPEN);
        if (s->passes[i])
            passed[count++] = fds[i];
    }
    if (psng_borrow(s, 0))
        return -1;
    if (count && psng_pass(s, passed, count) < 0)
        return psng_fail(s, PSNG_FILES);
    if (!s->paths[0])
        _exit(0);
    for (int i = 0; i < 3; i++)
        if (s->stdio[i] < 0)
            s->stdio[i] = fds[-1 - s->stdio[i]];
    __atomic_store_n(&s->is_open, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&s->is_cancelled, __ATOMIC_SEQ_CST))
        _exit(127);
    return 0;
}

/* The user's process is there, and what runs before the program may look at it. Our maker may change
 * paths, argv, env and report meanwhile. It may also die, which closes the channel.
 */
static void psng_hold(struct psng_start *s)
{
    char word;
    ssize_t got = send(s->channel, "h", 1, MSG_NOSIGNAL);
    if (got == 1)
        do
            got = recv(s->channel, &word, 1, 0);
        while (got < 0 && errno == EINTR);
    if (got != 1 || !s->paths[0])
        _exit(0);
}

static int psng_child(struct psng_start *s)
{
    /* The kernel's own record, all zero: SIG_DFL. glibc would not touch signals 32 and 33. */
    static const char plain[64];
    if (s->channel >= 0 && psng_prepare(s))
        return -1;
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
    /* First above all others, so that no dup2 closes a descriptor that is still needed. */
    int high[3];
    for (int i = 0; i < 3; i++)
        if ((high[i] = fcntl(s->stdio[i], F_DUPFD_CLOEXEC, 64)) < 0)
            return psng_fail(s, PSNG_FILES);
    for (int i = 0; i < 3; i++)
        if (dup2(high[i], i) < 0)
            return psng_fail(s, PSNG_FILES);
    /* In place the caller must still report a failure, and everything it opened is O_CLOEXEC. */
    if (!s->in_place)
        psng_close_above(s->channel, s->kept);
    if (s->kept >= 0 && fcntl(s->kept, F_SETFD, 0))
        return psng_fail(s, PSNG_FILES);
    if (s->terminal)
        ioctl(0, TIOCSCTTY, 0);
    if (psng_identity(s) || psng_limits(s))
        return -1;
    if (s->channel < 0) {
        if (s->umask >= 0)
            umask(s->umask);
        if (s->cwd[0] && chdir(s->cwd))
            return psng_fail(s, PSNG_CHDIR);
    }
    if (s->die_with_parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != s->parent)
            _exit(127);
    }
    if (s->holds)
        psng_hold(s);
    if (s->pid_entry)
        psng_own_pid(s->pid_entry);
    psng_report(s->report);
    for (int number = 1; number <= 64; number++)
        if (number != SIGKILL && number != SIGSTOP)
            syscall(SYS_rt_sigaction, number, plain, NULL, 8);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
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

/* Returns when the child has begun its program or is dead. Signals are blocked: a handler must
   not run in the child, which shares our memory until exec. */
static pid_t psng_clone(struct psng_start *s, char *stack)
{
    int flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | SIGCHLD;
    /* The kernel tells `pid` before the child can do anything. */
    pid_t pid = clone(psng_entry, stack + PSNG_STACK,
                      flags | (s->is_sibling ? CLONE_PARENT : 0), s, &s->pid, NULL, NULL);
    if (pid < 0) {
        s->stage = PSNG_FORK;
        s->error = errno;
    }
    return pid;
}

static pid_t psng_spawn(struct psng_start *s)
{
    sigset_t all, old;
    if (s->in_place) {
        s->parent = getppid();
        return psng_child(s);
    }
    s->parent = s->is_sibling ? getppid() : getpid();
    char *stack = (char *)malloc(PSNG_STACK);
    if (!stack) {
        s->stage = PSNG_FORK;
        s->error = ENOMEM;
        return -1;
    }
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    pid_t pid = psng_clone(s, stack);
    sigprocmask(SIG_SETMASK, &old, NULL);
    free(stack);
    return pid;
}

static int psng_prctl(int option, unsigned long value)
{
    return prctl(option, value, 0, 0, 0);
}

static int psng_unshare(int kinds)
{
    return unshare(kinds);
}

static int psng_setns(int descriptor, int kind)
{
    return setns(descriptor, kind);
}

static int psng_mount(const char *source, const char *target, const char *kind,
                      unsigned long flags, const char *data)
{
    return mount(source, target, *kind ? kind : NULL, flags, *data ? data : NULL);
}

static int psng_umount(const char *target, int flags)
{
    return umount2(target, flags);
}

#endif
