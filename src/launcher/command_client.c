/* The launcher's side of the command server (command_server.c; ADR 0086).
 *
 * Why: an interpreter needs 7 ms to start, which is most of a squeue. A server of the same user that
 * has started already forks children; one of them takes over what this process was called with
 * and runs the command, while this process waits and forwards signals.
 *
 * No result may depend on it. Whatever differs between this process and a child of the server, and
 * cannot be handed over, is part of the name of the server's socket (`print_of_process`) or leads
 * to a direct start: then run_by_server returns RUN_DIRECTLY, before anything has happened.
 */
#define _GNU_SOURCE
#include "command_client.h"
#include "command_protocol.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* For a child to be ready, on a loaded machine: there a direct start takes far longer. Where many
 * commands begin at once and the server takes one after the other, each waits longer for its turn. */
#define PATIENCE_MS 200
#define LONGEST_WAIT_MS 3000
#define SECOND_USE_S 60 /* a server is started for a user who has just used another command */
#define SWEEP_S 600     /* files that nobody has used for so long go, and are looked for as often */

/* Descriptors of the process that runs the command, and of the pipe whose end is its end. */
static int child[2] = {-1, -1};
static volatile sig_atomic_t last; /* the last signal that it was sent */

extern char **environ;

static void mix(uint64_t *print, const void *bytes, size_t count)
{
    const unsigned char *next = bytes;
    while (count--)
        *print = (*print ^ *next++) * 0x100000001b3u; /* FNV-1a */
}

static int mix_file_facts(uint64_t *print, const char *path, int with_time)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return -1;
    mix(print, &facts.st_dev, sizeof facts.st_dev);
    mix(print, &facts.st_ino, sizeof facts.st_ino);
    if (with_time)
        mix(print, &facts.st_mtim, sizeof facts.st_mtim);
    return 0;
}

/* A number for all that a child has of its server and cannot take over from us: the program,
 * groups, capabilities, namespaces, control groups, root directory, hard limits, security label and
 * who logged in: of two users who became root by sudo, each has a server of root's. A step's
 * commands have a server of their own, which ends with the step. */
static int print_of_process(uint64_t *print)
{
    static const char *const variables[] = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SUDO_UID"};
    static const char *const texts[] = {"/proc/self/loginuid", "/proc/self/attr/current",
                                        "/proc/self/cgroup"};
    static const char *const same[] = {
        "/proc/self/ns/mnt", "/proc/self/ns/pid", "/proc/self/ns/net",    "/proc/self/ns/user",
        "/proc/self/ns/uts", "/proc/self/ns/ipc", "/proc/self/ns/cgroup", "/",
    };
    gid_t groups[256];
    char text[4096];
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct capabilities[2];
    struct rlimit limit;
    int count, fd, more;
    ssize_t size;

    *print = 0xcbf29ce484222325u;
    if (mix_file_facts(print, "/proc/self/exe", 1) != 0)
        return -1;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (mix_file_facts(print, same[i], 0) != 0 && strcmp(same[i] + 14, "cgroup") != 0)
            return -1;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if ((fd = open(texts[i], O_RDONLY | O_CLOEXEC)) < 0) {
            if (strcmp(texts[i], "/proc/self/cgroup") == 0)
                return -1;
            continue; /* a kernel without audit or without labels */
        }
        while ((size = read(fd, text, sizeof text)) > 0)
            mix(print, text, size);
        close(fd);
    }
    count = getgroups(sizeof groups / sizeof groups[0], groups);
    if (count < 0)
        return -1;
    mix(print, groups, count * sizeof groups[0]);
    if (syscall(SYS_capget, &head, capabilities) != 0)
        return -1;
    mix(print, capabilities, sizeof capabilities);
    for (more = 0; more < RLIM_NLIMITS; more++)
        if (getrlimit(more, &limit) == 0)
            mix(print, &limit.rlim_max, sizeof limit.rlim_max);
    count = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) * 16 + prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    mix(print, &count, sizeof count);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (getenv(variables[i]) != NULL)
            mix(print, getenv(variables[i]), strlen(getenv(variables[i])) + 1);
        else
            mix(print, "", 1);
    count = getgid();
    mix(print, &count, sizeof count);
    return 0;
}

static int is_own_directory(const char *path, int is_private)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
           (!is_private || (facts.st_mode & 077) == 0);
}

/* Find or make the directory of the user's servers, which is only the user's. */
static int find_directory(char *path, size_t room)
{
    snprintf(path, room, "/run/user/%u", (unsigned)geteuid());
    if (is_own_directory(path, 1))
        snprintf(path, room, "/run/user/%u/pyslurm-ng", (unsigned)geteuid());
    else
        snprintf(path, room, "/tmp/.pyslurm-ng-%u", (unsigned)geteuid());
    if (is_own_directory(path, 1))
        return 0;
    return mkdir(path, 0700) == 0 && is_own_directory(path, 1) ? 0 : -1;
}

static int is_old(int fd)
{
    struct stat facts;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
           llabs((long long)now.tv_sec - facts.st_mtim.tv_sec) > SWEEP_S;
}

/* Remove the lock and socket of a server that is gone. A server holds its lock, and a command that
 * is about to start one has just written to it. */
static void sweep_server(int directory, const char *lock)
{
    char name[64];
    int length = (int)strlen(lock) - (int)strlen(".lock");
    int fd;

    if (length <= 0 || length > 40 || strcmp(lock + length, ".lock") != 0)
        return;
    fd = openat(directory, lock, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (is_old(fd) && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_old(fd)) {
        snprintf(name, sizeof name, "%.*s.socket", length, lock);
        unlinkat(directory, name, 0);
        unlinkat(directory, lock, 0);
    }
    close(fd);
}

/* Servers of steps are killed with their step and leave their files, which no later command uses. */
static void sweep(const char *base)
{
    char path[128];
    DIR *entries;
    struct dirent *entry;
    struct stat facts;
    int mark;

    snprintf(path, sizeof path, "%.*s/swept", (int)(strrchr(base, '/') - base), base);
    mark = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (mark < 0)
        return;
    if (fstat(mark, &facts) != 0 || (facts.st_size > 0 && !is_old(mark)) ||
        pwrite(mark, "swept\n", 6, 0) != 6) {
        close(mark);
        return;
    }
    close(mark);
    *strrchr(path, '/') = '\0';
    entries = opendir(path);
    while (entries != NULL && (entry = readdir(entries)) != NULL)
        sweep_server(dirfd(entries), entry->d_name);
    if (entries != NULL)
        closedir(entries);
}

/* Take the lock of a server that is to be started: if this user has used another command within
 * a minute, and nobody else is starting one. */
static int lock_for_start(const char *base)
{
    char path[128];
    struct stat facts = {0};
    struct timespec now;
    int fd;

    snprintf(path, sizeof path, "%s.lock", base);
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    clock_gettime(CLOCK_REALTIME, &now);
    if (fstat(fd, &facts) == 0 && facts.st_size > 0 &&
        llabs((long long)now.tv_sec - facts.st_mtim.tv_sec) < SECOND_USE_S &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    if (pwrite(fd, "used\n", 5, 0) != 5)
        unlink(path);
    close(fd);
    if (facts.st_size == 0)
        sweep(base);
    return -1;
}

#define NO_SERVER (-1)
#define BUSY_SERVER (-2)

static int connect_to(const char *base)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    int result = NO_SERVER;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return NO_SERVER;
    snprintf(address.sun_path, sizeof address.sun_path, "%s.socket", base);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        result = errno == EAGAIN ? BUSY_SERVER : NO_SERVER;
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid())
        return fd;
    close(fd);
    return result;
}

/* The server writes the time to its lock whenever a command begins. */
static int is_at_work(const char *base)
{
    char path[128];
    struct stat facts;
    struct timespec now;

    snprintf(path, sizeof path, "%s.lock", base);
    clock_gettime(CLOCK_REALTIME, &now);
    return stat(path, &facts) == 0 &&
           llabs((now.tv_sec - facts.st_mtim.tv_sec) * 1000ll +
                 (now.tv_nsec - facts.st_mtim.tv_nsec) / 1000000) <= PATIENCE_MS;
}

/* Whether a process is using a processor or waiting for one. */
static int is_running(long pid)
{
    char path[64], text[512], *end;
    ssize_t size;
    int fd;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size < 0 ? 0 : size] = '\0';
    end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' && end[2] == 'R';
}

/* Whether a server or one of its children would answer if it got a processor: on a machine with
 * many more programs than processors both children may wait for one. */
static int waits_for_processor(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    char path[64], text[8192], *next = text, *end;
    ssize_t count;
    long pid;
    int children;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return 0;
    if (is_running(peer.pid))
        return 1;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)peer.pid, (int)peer.pid);
    children = open(path, O_RDONLY | O_CLOEXEC);
    if (children < 0)
        return 0;
    count = read(children, text, sizeof text - 1);
    close(children);
    text[count < 0 ? 0 : count] = '\0';
    while ((pid = strtol(next, &end, 10)) > 0 && end != next) {
        if (is_running(pid))
            return 1;
        next = end;
    }
    return 0;
}

/* A server that does not answer is replaced: it ends when its socket is gone, and the next commands
 * start another. */
static void give_up_server(const char *base)
{
    char path[128];
    snprintf(path, sizeof path, "%s.socket", base);
    unlink(path);
    snprintf(path, sizeof path, "%s.lock", base);
    unlink(path);
}

/* Only daily commands, and none that works with the terminal as its controlling terminal. */
static int is_for_server(const char *name, int argc, char **argv)
{
    static const char *const reading[] = {"sbatch", "scancel", "scontrol", "srun", "sacctmgr"};
    static const char *const others[] = {"squeue", "sinfo", "sacct", "sprio", "sstat",
                                         "sshare", "sdiag", "sreport", "seff"};
    int reads = 0, known = 0;

    for (size_t i = 0; i < sizeof reading / sizeof reading[0]; i++)
        reads |= strcmp(name, reading[i]) == 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        known |= strcmp(name, others[i]) == 0;
    if (!reads && !known)
        return 0;
    if (reads && isatty(0))
        return 0;
    for (int i = 1; i < argc; i++)
        if (strstr(argv[i], "/dev/fd/") || strstr(argv[i], "/proc/self") ||
            strstr(argv[i], "/dev/tty") || strncmp(argv[i], "--pty", 5) == 0)
            return 0;
    return 1;
}

static int is_verbose(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "-v", 2) == 0 || strcmp(argv[i], "--verbose") == 0)
            return 1;
    return 0;
}

static size_t add_text(char *packet, size_t size, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (size == 0 || size + bytes > MOST_REQUEST_BYTES)
        return 0;
    memcpy(packet + size, text, bytes);
    return size + bytes;
}

/* Write down what we were called with; 0 where it does not fit one packet. */
static size_t fill(char *packet, const char *name, int argc, char **argv)
{
    struct command_request *request = (struct command_request *)packet;
    struct rlimit limit;
    struct sigaction action;
    sigset_t blocked;
    size_t size = sizeof *request;
    int i;

    memset(request, 0, sizeof *request);
    request->magic = PROTOCOL_MAGIC;
    request->argument_count = argc;
    request->umask = umask(0);
    umask(request->umask);
    request->niceness = getpriority(PRIO_PROCESS, 0);
    request->session = getsid(0);
    for (i = 0; i < RLIM_NLIMITS && i < MOST_LIMITS; i++) {
        getrlimit(i, &limit);
        request->limits[i][0] = limit.rlim_cur;
        request->limits[i][1] = limit.rlim_max;
    }
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (i = 1; i < 64; i++) {
        if (sigismember(&blocked, i) == 1)
            request->blocked |= 1ull << (i - 1);
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            request->ignored |= 1ull << (i - 1);
    }
    if (sched_getaffinity(0, sizeof request->cpus, (cpu_set_t *)request->cpus) != 0)
        return 0;
    size = add_text(packet, size, name);
    for (i = 1; i < argc; i++)
        size = add_text(packet, size, argv[i]);
    for (i = 0; environ[i] != NULL; i++)
        size = add_text(packet, size, environ[i]);
    request->variable_count = i;
    return size;
}

static int send_request(int fd, char *packet, size_t size)
{
    int descriptors[4] = {0, 1, 2, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof descriptors)];
    } control = {0};
    struct iovec piece = {packet, size};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    ssize_t sent = -1;

    if (descriptors[3] < 0)
        return -1;
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptors);
    memcpy(CMSG_DATA(head), descriptors, sizeof descriptors);
    sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    close(descriptors[3]);
    return sent == (ssize_t)size ? 0 : -1;
}

/* Receive a report; `given` takes the two descriptors that came with it. Returns 0 at the end of the
 * connection. */
static int receive_report(int fd, struct command_report *report, int *given)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec piece = {report, sizeof *report};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    struct cmsghdr *head;

    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != sizeof *report || report->magic != PROTOCOL_MAGIC)
        return 0;
    head = CMSG_FIRSTHDR(&message);
    if (given != NULL && head != NULL && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(2 * sizeof *given))
        memcpy(given, CMSG_DATA(head), 2 * sizeof *given);
    return 1;
}

/* Wait until there is something to read, or nobody left who could write. */
static int wait_for(int fd, int limit_ms)
{
    struct pollfd only = {fd, POLLIN, 0};
    int ready;
    while ((ready = poll(&only, 1, limit_ms)) < 0 && errno == EINTR)
        ;
    return ready;
}

static void forward(int number)
{
    int kept = errno;
    if (number == SIGTSTP) {
        /* Both stop; the shell that continues us has us continue the child. */
        syscall(SYS_pidfd_send_signal, child[0], SIGSTOP, NULL, 0);
        raise(SIGSTOP);
        number = SIGCONT;
    }
    syscall(SYS_pidfd_send_signal, child[0], number, NULL, 0);
    last = number;
    errno = kept;
}

/* Set the handler of each signal that a child is sent. */
static void handle_signals(void (*handler)(int))
{
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,  SIGUSR1, SIGUSR2,
                                  SIGALRM, SIGTSTP, SIGCONT, SIGWINCH};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;

    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

static void die_by(int number)
{
    struct rlimit no_core = {0, 0};
    sigset_t only;
    setrlimit(RLIMIT_CORE, &no_core); /* the child has left one, if at all */
    signal(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
    _exit(128 + number);
}

/* Wait for a report before the command begins; 0 where there is none. */
static int is_told(int fd, const char *base, int *given)
{
    struct command_report report;
    for (int waited_ms = 0; wait_for(fd, PATIENCE_MS) == 0;) {
        if (!is_at_work(base) && !waits_for_processor(fd)) {
            give_up_server(base);
            return 0;
        }
        waited_ms += PATIENCE_MS;
        if (waited_ms >= LONGEST_WAIT_MS)
            return 0;
    }
    return receive_report(fd, &report, given) && (given == NULL || *given >= 0);
}

static int let_run(int fd, const char *name)
{
    struct command_report report;

    /* From here on the command is begun once, there. */
    handle_signals(forward);
    if (send(fd, GO, sizeof GO, MSG_NOSIGNAL) != sizeof GO) {
        handle_signals(SIG_DFL);
        return RUN_DIRECTLY;
    }
    wait_for(fd, -1);
    if (!receive_report(fd, &report, NULL)) {
        /* A signal ended it, and the server had ended before. */
        if (!last)
            fprintf(stderr, "%s: error: the process that ran this command was killed\n", name);
        die_by(last ? last : SIGKILL);
    }
    if (report.is_signal)
        die_by(report.number);
    return report.number;
}

int run_by_server(const char *name, int argc, char **argv, int *lock)
{
    static char packet[MOST_REQUEST_BYTES] __attribute__((aligned(16)));
    const char *setting = getenv("PYSLURM_COMMAND_SERVER");
    char directory[64], base[96];
    uint64_t print;
    size_t size;
    int fd, result = RUN_DIRECTLY;

    *lock = -1;
    if ((setting != NULL && strcmp(setting, "0") == 0) || getauxval(AT_SECURE) ||
        !is_for_server(name, argc, argv) || fcntl(0, F_GETFD) < 0 || fcntl(1, F_GETFD) < 0 ||
        fcntl(2, F_GETFD) < 0 || print_of_process(&print) != 0)
        return RUN_DIRECTLY;
    if (find_directory(directory, sizeof directory) != 0) {
        if (is_verbose(argc, argv))
            fprintf(stderr, "%s: %s is not a directory of only this user: no command server\n",
                    name, directory);
        return RUN_DIRECTLY;
    }
    snprintf(base, sizeof base, "%s/%016llx", directory, (unsigned long long)print);
    fd = connect_to(base);
    if (fd == NO_SERVER)
        *lock = lock_for_start(base);
    if (fd < 0)
        return RUN_DIRECTLY;
    size = fill(packet, name, argc, argv);
    if (size != 0 && is_told(fd, base, NULL) && send_request(fd, packet, size) == 0 &&
        is_told(fd, base, child))
        result = let_run(fd, name);
    close(fd);
    return result;
}
