/* Processes that a thread starts and waits for instead of the caller, for `kernels/process.pyx`.

   What a child has to say comes over its channel, so the caller never waits for a user's files. */
#ifndef PYSLURM_PROCESS_BACKGROUND_H
#define PYSLURM_PROCESS_BACKGROUND_H

#include "process_start.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>

/* The thread that waits instead of the caller. A process has one, which lives as long as the
 * process: tasks die with the thread that made them.
 */
static struct {
    pid_t process;
    sem_t asked;
    struct psng_start *start;
    char stack[PSNG_STACK];
} psng_background;

static void *psng_serve(void *nothing)
{
    for (;;) {
        while (sem_wait(&psng_background.asked))
            ;
        struct psng_start *s = psng_background.start;
        psng_clone(s, psng_background.stack);
        /* Then the caller sees the end and may free `s`. */
        close(s->channel);
    }
    return nothing;
}

static int psng_thread(void)
{
    sigset_t all, old;
    pthread_t thread;
    pthread_attr_t how;
    sem_init(&psng_background.asked, 0, 0);
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, PSNG_STACK);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int error = pthread_create(&thread, &how, psng_serve, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&how);
    if (!error)
        psng_background.process = getpid();
    return error;
}

/* Returns a descriptor without anything to read, or makes `ours` one. */
static int psng_rest(int ours)
{
    int quiet = eventfd(0, EFD_CLOEXEC);
    if (ours < 0 || quiet < 0)
        return quiet;
    dup3(quiet, ours, O_CLOEXEC);
    close(quiet);
    return ours;
}

/* Returns 0, or -1 with stage and error; `ours` becomes our end of the channel. */
static int psng_begin(struct psng_start *s, int ours)
{
    int fds[2];
    s->stage = PSNG_FORK;
    /* A forked child of ours does not have this thread. */
    if (psng_background.process != getpid() && (s->error = psng_thread()))
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
        s->error = errno;
        return -1;
    }
    s->stage = PSNG_OK;
    dup3(fds[0], ours, O_CLOEXEC);
    close(fds[0]);
    s->channel = fds[1];
    s->parent = s->is_sibling ? getppid() : getpid();
    psng_background.start = s;
    sem_post(&psng_background.asked);
    return 0;
}

/* Returns 'o' with descriptors that were passed, 'h': it holds, 'e' at the end, 0: nothing yet. */
static int psng_take(int channel, int *fds, int *count)
{
    char room[CMSG_SPACE(PSNG_MOST_OPENS * sizeof(int))];
    char said;
    struct iovec body = {&said, 1};
    struct msghdr message = {0};
    *count = 0;
    message.msg_iov = &body;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    ssize_t got = recvmsg(channel, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got < 1)
        return 'e';
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at))
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS) {
            *count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(at), *count * sizeof(int));
        }
    return said;
}

/* It is no matter if the child has died. */
static void psng_go_on(int channel)
{
    send(channel, "g", 1, MSG_NOSIGNAL);
}

/* A child that has its files may already be the program, so it is not killed. */
static void psng_cancel(struct psng_start *s)
{
    __atomic_store_n(&s->is_cancelled, 1, __ATOMIC_SEQ_CST);
    pid_t pid = __atomic_load_n(&s->pid, __ATOMIC_SEQ_CST);
    if (pid > 0 && !__atomic_load_n(&s->is_open, __ATOMIC_SEQ_CST))
        kill(pid, SIGKILL);
}

#endif
