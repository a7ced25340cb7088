/* The command server: a process of the user in which the interpreter has started already.
 *
 * It keeps children ready that wait for a launcher (command_client.c). One of them takes over what
 * the launcher was called with, and runs the command (`run_command` of
 * src/pyslurm_ng/command_server.py). The server itself runs no command and keeps nothing of any
 * but the names of the modules that it needed: they are imported before the next child is forked.
 * A child whose command left nothing behind may run the next one, too (ADR 0114).
 *
 * Why in C: done in Python, taking over cost more than a squeue's own work, since each object that
 * is touched after a fork costs a copy of its page. See ADR 0086.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "command_protocol.h"
#include "command_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* headers before 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define READY_CHILDREN 2
#define QUEUE 128
#define IDLE_MS (300 * 1000)
#define MOST_MEMORY (256u << 20)
#define MOST_SOURCES 1024
#define MOST_CHILDREN 2048
#define MOST_COMMANDS 200     /* of one child: what its commands did not free ends with it */
#define MOST_GROWTH_KIB 16384 /* of one child's memory */
#define NEXT_MS 1000          /* a child that has run a command waits no longer for another */
#define MOST_SPANS 2048
#define MOST_NAMED (1 << 15)
#define LESSONS 5 /* how many commands say which memory they wrote, after each new module */

struct server {
    const char *path; /* of its socket */
    ino_t number;     /* of that file */
    int listener, lock;
    int told, tell;  /* packets of children: "taken", "stale" or "import NAME ..." */
    int ends, alive; /* a pipe nobody writes to: its end is that of the server */
    int ended;       /* readable when a child has ended */
    int ready;       /* how many of `children` wait */
    int lessons;     /* how many more commands are to say which memory they wrote */
    PyObject *module;
};

/* The files of the modules that are imported: a child that finds one changed runs nothing. */
struct source {
    char *path;
    struct timespec changed;
    ino_t number;
};
static struct source sources[MOST_SOURCES];
static int source_count;

/* Memory that commands write to, as they said, or read as code. A child that waits takes its own copy
 * of these pages before a launcher comes: copied one by one at the first write, they were a fifth of
 * a command's time. */
struct span {
    uint64_t start, bytes;
};
static struct span written[MOST_SPANS], code[16];
static int written_count, code_count;
static uint64_t named[MOST_NAMED]; /* addresses of pages, as lessons name them */
static int named_count;

/* The children, and the connections of those launchers whose commands they run: a child that ends by
 * a signal reports nothing, so the server does. */
static struct {
    pid_t pid;
    int launcher; /* -1: it waits for one */
    int has_run;
} children[MOST_CHILDREN];
static int child_count;

extern char **environ;

/* ---- In a child --------------------------------------------------------------------------- */

/* Only where no launcher waits already. It has no effect on kernels before 5.14, and none where a span
 * is no longer mapped. */
static void bring_pages(const struct server *server)
{
    struct pollfd waiting = {server->listener, POLLIN, 0};

    if (poll(&waiting, 1, 0) != 0)
        return;
    for (const struct span *span = written; span < written + written_count; span++)
        madvise((void *)span->start, span->bytes, MADV_POPULATE_WRITE);
    for (const struct span *span = code; span < code + code_count; span++)
        madvise((void *)span->start, span->bytes, MADV_POPULATE_READ);
}

/* Return the connection of a launcher; -1 at the server's end, or when none has come in time. */
static int accept_launcher(const struct server *server, int limit_ms)
{
    struct pollfd both[2] = {{server->listener, POLLIN, 0}, {server->ends, POLLIN, 0}};
    struct ucred peer;
    socklen_t size = sizeof peer;
    int launcher, ready;

    for (;;) {
        ready = poll(both, 2, limit_ms);
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return -1;
        launcher = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        if (launcher >= 0) {
            if (getsockopt(launcher, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                peer.uid == geteuid())
                return launcher;
            close(launcher);
        } else if (both[1].revents) {
            return -1;
        }
    }
}

static int are_sources_fresh(void)
{
    struct stat facts;
    for (const struct source *source = sources; source < sources + source_count; source++)
        if (stat(source->path, &facts) != 0 || facts.st_ino != source->number ||
            facts.st_mtim.tv_sec != source->changed.tv_sec ||
            facts.st_mtim.tv_nsec != source->changed.tv_nsec)
            return 0;
    return 1;
}

/* Receive a request and its four descriptors; returns its size, 0 where it is none. */
static size_t receive_request(int launcher, char *packet, int *descriptors)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec piece = {packet, MOST_REQUEST_BYTES};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    struct cmsghdr *head;
    ssize_t size = recvmsg(launcher, &message, MSG_CMSG_CLOEXEC);

    head = CMSG_FIRSTHDR(&message);
    if (size <= (ssize_t)sizeof(struct command_request) || head == NULL ||
        message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || head->cmsg_type != SCM_RIGHTS ||
        head->cmsg_len != CMSG_LEN(4 * sizeof(int)) || packet[size - 1] != '\0' ||
        ((struct command_request *)packet)->magic != PROTOCOL_MAGIC)
        return 0;
    memcpy(descriptors, CMSG_DATA(head), 4 * sizeof(int));
    return size;
}

/* Point at each of the texts behind a request; NULL where their number is another. */
static char **split_texts(char *packet, size_t size)
{
    const struct command_request *request = (struct command_request *)packet;
    size_t count = (size_t)request->argument_count + request->variable_count, found = 0;
    char *next = packet + sizeof *request, *end = packet + size;
    char **texts;

    if (request->argument_count == 0 || count > MOST_REQUEST_BYTES)
        return NULL;
    texts = calloc(count + 1, sizeof *texts);
    for (; texts != NULL && next < end; next += strlen(next) + 1) {
        if (found == count)
            return NULL;
        texts[found++] = next;
    }
    return found == count ? texts : NULL;
}

static int take_limits(const struct command_request *request)
{
    struct rlimit limit, now;
    for (int kind = 0; kind < RLIM_NLIMITS && kind < MOST_LIMITS; kind++) {
        limit.rlim_cur = request->limits[kind][0];
        limit.rlim_max = request->limits[kind][1];
        if (getrlimit(kind, &now) != 0 || now.rlim_max != limit.rlim_max)
            return -1;
        if (now.rlim_cur != limit.rlim_cur && setrlimit(kind, &limit) != 0)
            return -1;
    }
    return 0;
}

static int take_blocked_signals(const struct command_request *request)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int number = 1; number < 65; number++)
        if (request->blocked >> (number - 1) & 1)
            sigaddset(&blocked, number);
    return sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/* Become like the launcher; a child that cannot lets it start the command itself. */
static int take_over(const struct command_request *request, const int *descriptors)
{
    cpu_set_t cpus;

    for (int number = 0; number < 3; number++)
        if (dup2(descriptors[number], number) < 0)
            return -1;
    if (fchdir(descriptors[3]) != 0)
        return -1;
    for (int number = 0; number < 4; number++)
        if (descriptors[number] > 2)
            close(descriptors[number]);
    umask(request->umask);
    if (take_limits(request) != 0)
        return -1;
    if (getpriority(PRIO_PROCESS, 0) != request->niceness &&
        setpriority(PRIO_PROCESS, 0, request->niceness) != 0)
        return -1;
    memset(&cpus, 0, sizeof cpus);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 ||
        (memcmp(&cpus, request->cpus, sizeof cpus) != 0 &&
         sched_setaffinity(0, sizeof cpus, (const cpu_set_t *)request->cpus) != 0))
        return -1;
    return take_blocked_signals(request);
}

/* Send a packet, and with it one or two descriptors. */
static int send_with(int socket, const void *bytes, size_t count, const int *given, size_t number)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof *given)];
    } control = {0};
    struct iovec piece = {(void *)bytes, count};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = CMSG_SPACE(number * sizeof *given)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(number * sizeof *given);
    memcpy(CMSG_DATA(head), given, number * sizeof *given);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)count ? 0 : -1;
}

/* Say that all is taken over, and wait for the launcher's word. From then on this process ends
 * with the launcher: the kernel kills it when nobody is left who could write to `life`. It would kill
 * for a packet, too, even for GO if that is announced a moment after it was received; so this is a
 * pipe of its own, and nothing is ever written to it. Returns its reading end, -1 where the command is
 * not to begin. */
static int begin(int launcher)
{
    struct command_report report = {PROTOCOL_MAGIC, 0, 0};
    int life[2], given[2];
    struct pollfd gone = {.events = POLLIN};
    char word[sizeof GO];

    if (pipe2(life, O_CLOEXEC) != 0)
        return -1;
    given[0] = (int)syscall(SYS_pidfd_open, getpid(), 0);
    given[1] = life[1];
    if (given[0] < 0 || send_with(launcher, &report, sizeof report, given, 2) != 0)
        return -1;
    close(given[0]);
    close(given[1]);
    if (recv(launcher, word, sizeof word, 0) != sizeof word || memcmp(word, GO, sizeof word) != 0)
        return -1;
    fcntl(life[0], F_SETOWN, getpid());
    fcntl(life[0], F_SETSIG, SIGKILL);
    fcntl(life[0], F_SETFL, fcntl(life[0], F_GETFL) | O_ASYNC);
    gone.fd = life[0];
    return poll(&gone, 1, 0) == 0 ? life[0] : -1;
}

/* Return the texts from `first` on as a list of bytes. */
static PyObject *as_list(char **texts, size_t count)
{
    PyObject *list = PyList_New(count);
    for (size_t i = 0; list != NULL && i < count; i++)
        PyList_SET_ITEM(list, i, PyBytes_FromString(texts[i]));
    return list;
}

/* Give the server the connection, too, so that it can report how this process was ended. */
static int tell_taken(const struct server *server, int launcher)
{
    char word[32];
    int size = snprintf(word, sizeof word, "taken %d", (int)getpid());
    return send_with(server->tell, word, size, &launcher, 1);
}

/* How many entries a directory of /proc/self has. */
static int count_entries(const char *path)
{
    DIR *entries = opendir(path);
    int count = 0;

    while (entries != NULL && readdir(entries) != NULL)
        count++;
    if (entries != NULL)
        closedir(entries);
    return count;
}

/* What a command may leave behind that the next one would meet, and that is not taken over anew. */
struct traces {
    int descriptors, threads, niceness;
    long most_kib;
};

static struct traces find_traces(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (struct traces){count_entries("/proc/self/fd"), count_entries("/proc/self/task"),
                           getpriority(PRIO_PROCESS, 0), used.ru_maxrss};
}

/* Whether a command has left nothing, of what can be seen from outside of Python. */
static int left_nothing(const struct traces *first)
{
    const struct itimerval none = {0};
    struct traces now = find_traces();

    setitimer(ITIMER_REAL, &none, NULL);
    return now.descriptors == first->descriptors && now.threads == first->threads &&
           now.niceness == first->niceness && now.most_kib <= first->most_kib + MOST_GROWTH_KIB &&
           waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

/* Give back all that belongs to the command before its launcher hears of its end: whoever waits for the
 * end of its output, or unmounts its directory, finds nothing of it here. */
static int let_go(int life)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0 || chdir("/") != 0)
        return -1;
    for (int number = 0; number < 3; number++)
        if (dup2(null, number) < 0)
            return -1;
    close(null);
    close(life);
    return 0;
}

/* Wait until the launcher has ended. It may forward a signal until then, which is not for the next
 * command. Returns -1 where one has come. */
static int see_off(int launcher)
{
    struct pollfd gone = {launcher, POLLIN, 0};

    while (poll(&gone, 1, -1) < 0 && errno == EINTR)
        ;
    close(launcher);
    return PyErr_CheckSignals();
}

/* Whether the process may run another command after this one, if nothing is left of it. Where it may
 * not, it holds nothing of the server any more: what the command forks would hold it, too. */
static int may_repeat(const struct server *server, PyObject *argv)
{
    PyObject *answer = PyObject_CallMethod(server->module, "may_repeat", "O", argv);
    int is_true = answer != NULL && PyObject_IsTrue(answer) == 1;

    Py_XDECREF(answer);
    if (!is_true) {
        close(server->listener);
        close(server->ends);
    }
    return is_true;
}

/* Run one command; returns only if the next may be run here. */
static void run_one(struct server *server, int launcher, const struct traces *first, int teaches)
{
    static char packet[MOST_REQUEST_BYTES] __attribute__((aligned(16)));
    const struct command_request *request = (struct command_request *)packet;
    const struct command_report accepted = {PROTOCOL_MAGIC, 0, 0}, failed = {PROTOCOL_MAGIC, 0, 1};
    struct command_report ended = accepted;
    static char **texts;
    int descriptors[4], life;
    char word[32];
    PyObject *code, *argv;
    size_t size;
    int repeats;

    if (tell_taken(server, launcher) != 0 || send(launcher, &accepted, sizeof accepted, MSG_NOSIGNAL) < 0)
        _exit(1);
    size = receive_request(launcher, packet, descriptors);
    free(texts);
    if (size == 0 || (texts = split_texts(packet, size)) == NULL ||
        take_over(request, descriptors) != 0 || (life = begin(launcher)) < 0)
        _exit(1);
    environ = texts + request->argument_count;
    argv = as_list(texts, request->argument_count);
    repeats = may_repeat(server, argv);
    code = PyObject_CallMethod(server->module, "run_command", "NNKiiiii", argv,
                               as_list(texts + request->argument_count, request->variable_count),
                               (unsigned long long)request->ignored, (int)request->session,
                               launcher, server->tell, teaches, repeats);
    if (code == NULL) {
        PyErr_Print();
        send(launcher, &failed, sizeof failed, MSG_NOSIGNAL);
        _exit(1);
    }
    ended.number = (int)PyLong_AsLong(code);
    Py_DECREF(code);
    if (let_go(life) != 0 || send(launcher, &ended, sizeof ended, MSG_NOSIGNAL) < 0 ||
        see_off(launcher) != 0 || !left_nothing(first))
        _exit(0);
    size = snprintf(word, sizeof word, "free %d", (int)getpid());
    if (send(server->tell, word, size, MSG_NOSIGNAL) != (ssize_t)size)
        _exit(0);
}

static void run_child(struct server *server)
{
    struct traces first;
    int launcher;

    close(server->lock);
    close(server->alive);
    close(server->told);
    close(server->ended);
    for (int i = 0; i < child_count; i++)
        if (children[i].launcher >= 0)
            close(children[i].launcher);
    bring_pages(server);
    first = find_traces();
    for (int count = 0; count < MOST_COMMANDS; count++) {
        launcher = accept_launcher(server, count == 0 ? -1 : NEXT_MS);
        if (launcher < 0)
            _exit(0);
        if (!are_sources_fresh()) {
            send(server->tell, "stale", 5, MSG_NOSIGNAL);
            _exit(1);
        }
        run_one(server, launcher, &first, count == 0 && server->lessons > 0);
    }
    _exit(0);
}

/* ---- In the server ------------------------------------------------------------------------ */

static void close_all_but(int kept)
{
    syscall(SYS_close_range, 3u, (unsigned)kept - 1, 0);
    syscall(SYS_close_range, (unsigned)kept + 1, ~0u, 0);
    fcntl(kept, F_SETFD, FD_CLOEXEC);
}

static void limit_memory(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_DATA, &limit);
    limit.rlim_cur = limit.rlim_max < MOST_MEMORY ? limit.rlim_max : MOST_MEMORY;
    setrlimit(RLIMIT_DATA, &limit);
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    strcpy(address.sun_path, path);
    unlink(path); /* of a server that was killed: the lock is ours */
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, QUEUE) != 0)
        return -1;
    return listener;
}

/* Note the files of our modules that have been imported since. */
static int note_sources(const struct server *server)
{
    PyObject *paths = PyObject_CallMethod(server->module, "new_sources", NULL);
    struct stat facts;

    if (paths == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < PyList_Size(paths) && source_count < MOST_SOURCES; i++) {
        const char *path = PyUnicode_AsUTF8(PyList_GetItem(paths, i));
        if (path == NULL || stat(path, &facts) != 0)
            return -1;
        sources[source_count++] =
            (struct source){strdup(path), facts.st_mtim, facts.st_ino};
    }
    Py_DECREF(paths);
    return source_count < MOST_SOURCES ? 0 : -1;
}

/* Import what commands need; returns -1 where a file has changed meanwhile. */
static int bring_modules(struct server *server, const char *names)
{
    PyObject *done = PyObject_CallMethod(server->module, "bring", "s", names);
    int is_true = done != NULL && PyObject_IsTrue(done);

    Py_XDECREF(done);
    server->lessons = LESSONS;
    named_count = 0;
    return is_true && note_sources(server) == 0 ? 0 : -1;
}

/* Fork children until enough wait. */
static int keep_ready(struct server *server)
{
    pid_t pid;

    while (server->ready < READY_CHILDREN && child_count < MOST_CHILDREN) {
        PyOS_BeforeFork();
        pid = fork();
        if (pid == 0) {
            PyOS_AfterFork_Child();
            run_child(server);
        }
        PyOS_AfterFork_Parent();
        if (pid < 0)
            return server->ready ? 0 : -1;
        children[child_count].pid = pid;
        children[child_count].has_run = 0;
        children[child_count++].launcher = -1;
        server->ready++;
    }
    return 0;
}

static int compare_pages(const void *left, const void *right)
{
    const uint64_t *one = left, *other = right;
    return *one < *other ? -1 : *one > *other;
}

/* Make spans of the pages that most lessons named. */
static void choose_written(uint64_t page_bytes)
{
    qsort(named, named_count, sizeof *named, compare_pages);
    written_count = 0;
    for (int i = 0, times; i < named_count; i += times) {
        struct span *last = &written[written_count - 1];
        for (times = 1; i + times < named_count && named[i + times] == named[i]; times++)
            ;
        if (times <= LESSONS / 2)
            continue;
        if (written_count > 0 && last->start + last->bytes == named[i])
            last->bytes += page_bytes;
        else if (written_count < MOST_SPANS)
            written[written_count++] = (struct span){named[i], page_bytes};
    }
    named_count = 0;
}

/* Take down the memory that a command wrote. */
static void learn(struct server *server, const char *bytes, size_t count)
{
    const uint64_t page_bytes = sysconf(_SC_PAGESIZE);
    struct span span;

    if (server->lessons == 0)
        return;
    for (; count >= sizeof span; count -= sizeof span, bytes += sizeof span) {
        memcpy(&span, bytes, sizeof span);
        for (; span.bytes >= page_bytes && named_count < MOST_NAMED; span.bytes -= page_bytes) {
            named[named_count++] = span.start;
            span.start += page_bytes;
        }
    }
    if (--server->lessons == 0)
        choose_written(page_bytes);
}

/* Where the program and its libraries have their code. */
static void find_code(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long start, end;
    char line[PATH_MAX + 128], mode[8];

    while (maps != NULL && code_count < (int)(sizeof code / sizeof code[0]) &&
           fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) == 3 && strcmp(mode, "r-xp") == 0)
            code[code_count++] = (struct span){start, end - start};
    if (maps != NULL)
        fclose(maps);
}

/* A child runs a command from now on, of this launcher; or waits for another one: -1. */
static void note_child(struct server *server, pid_t pid, int launcher)
{
    for (int i = 0; i < child_count; i++)
        if (children[i].pid == pid) {
            if (children[i].launcher >= 0)
                close(children[i].launcher);
            else
                server->ready--;
            children[i].launcher = launcher;
            children[i].has_run = 1;
            if (launcher < 0)
                server->ready++;
            return;
        }
    if (launcher >= 0)
        close(launcher);
}

/* Take one packet of a child; returns 0 where there is none, -1 where the server is to end. */
static int hear(struct server *server)
{
    static char text[1 << 16];
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec piece = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    ssize_t size = recvmsg(server->told, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int launcher;

    if (size <= 0)
        return 0;
    text[size] = '\0';
    if (strcmp(text, "stale") == 0)
        return -1;
    if (strncmp(text, "taken ", 6) == 0 && head != NULL && head->cmsg_type == SCM_RIGHTS) {
        memcpy(&launcher, CMSG_DATA(head), sizeof launcher);
        note_child(server, atoi(text + 6), launcher);
        futimens(server->lock, NULL); /* launchers that wait see that the server is at work */
    } else if (strncmp(text, "free ", 5) == 0) {
        note_child(server, atoi(text + 5), -1);
    } else if (strncmp(text, "written ", 8) == 0) {
        learn(server, text + 8, size - 8);
    } else if (strncmp(text, "import ", 7) == 0) {
        if (bring_modules(server, text + 7) != 0)
            return -1;
    }
    return 1;
}

/* Reap children, and report those that a signal ended; returns 0 where the server is to end. */
static int reap(struct server *server)
{
    struct signalfd_siginfo unused[8];
    struct command_report report = {PROTOCOL_MAGIC, 1, 0};
    int status, more;
    pid_t pid;

    while (read(server->ended, unused, sizeof unused) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        /* It said that it was taken before it ended, perhaps since we listened. */
        while ((more = hear(server)) > 0)
            ;
        if (more < 0)
            return 0;
        for (int i = 0; i < child_count; i++)
            if (children[i].pid == pid) {
                report.number = WTERMSIG(status);
                if (WIFSIGNALED(status) && children[i].launcher >= 0)
                    send(children[i].launcher, &report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (!children[i].has_run)
                    return 0; /* the next would be killed, too */
                note_child(server, pid, -1);
                server->ready--;
                children[i] = children[--child_count];
            }
    }
    return 1;
}

static int is_path_ours(const struct server *server)
{
    struct stat facts;
    return lstat(server->path, &facts) == 0 && facts.st_ino == server->number;
}

/* Wait for children; returns 0 where the server is to end. */
static int wait_for_children(struct server *server)
{
    struct pollfd both[2] = {{server->told, POLLIN, 0}, {server->ended, POLLIN, 0}};
    int more, ready = poll(both, 2, IDLE_MS);

    if (ready == 0 && child_count == server->ready)
        return 0;
    while ((more = hear(server)) > 0)
        ;
    return more == 0 && reap(server) && is_path_ours(server);
}

/* Make what children and the server tell each other by. */
static int make_channels(struct server *server)
{
    sigset_t only;
    int pair[2];

    sigemptyset(&only);
    sigaddset(&only, SIGCHLD);
    sigprocmask(SIG_BLOCK, &only, NULL);
    server->ended = signalfd(-1, &only, SFD_CLOEXEC | SFD_NONBLOCK);
    if (server->ended < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return -1;
    server->told = pair[0];
    server->tell = pair[1];
    if (pipe2(pair, O_CLOEXEC) != 0)
        return -1;
    server->ends = pair[0];
    server->alive = pair[1];
    return 0;
}

int serve_commands(int argc, char **argv)
{
    struct server server = {0};
    struct stat facts;
    const char *names;

    if (argc != 3) {
        fprintf(stderr, "pyslurm-command-server: error: commands start it, nobody else does\n");
        return 1;
    }
    server.lock = atoi(argv[1]);
    server.path = argv[2];
    close_all_but(server.lock);
    if (chdir("/") != 0 || make_channels(&server) != 0)
        return 1;
    limit_memory();
    server.module = PyImport_ImportModule("pyslurm_ng.command_server");
    names = getenv("MODULES");
    if (server.module == NULL || bring_modules(&server, names == NULL ? "" : names) != 0)
        return 1;
    find_code();
    /* Not before: commands that begin meanwhile start directly instead of waiting. */
    server.listener = listen_at(server.path);
    if (server.listener < 0 || lstat(server.path, &facts) != 0)
        return 1;
    server.number = facts.st_ino;
    while (keep_ready(&server) == 0 && wait_for_children(&server))
        ;
    if (is_path_ours(&server))
        unlink(server.path);
    return 0;
}
