/* pam_pyslurm_adopt.so: lets users with a job in, and into its control groups and directories.

       account  required  pam_pyslurm_adopt.so
       session  required  pam_pyslurm_adopt.so

   All decisions are made by the program pam_pyslurm_adopt, which pam_exec can run as well. A program
   beside a session cannot move it to another mount namespace, and nothing but that is done here: the
   program's answer names the job's namespace, and this process enters it. It is the process that the
   session descends from.

   Words: program=PATH of the program, else it is in ../../sbin as seen from here; all others are
   the program's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

/* What PAM promises to modules and has kept since 1997. With its headers a package more would be
   needed for these few lines. */
typedef struct pam_handle pam_handle_t;
struct pam_message { int msg_style; const char *msg; };
struct pam_response { char *resp; int resp_retcode; };
struct pam_conv {
    int (*conv)(int, const struct pam_message **, struct pam_response **, void *);
    void *appdata_ptr;
};
extern int pam_get_item(const pam_handle_t *handle, int item, const void **value);
extern int pam_get_user(pam_handle_t *handle, const char **user, const char *prompt);
enum { PAM_SUCCESS = 0, PAM_PERM_DENIED = 6, PAM_SESSION_ERR = 14, PAM_IGNORE = 25 };
enum { PAM_SERVICE = 1, PAM_CONV = 5, PAM_TEXT_INFO = 4, PAM_SILENT = 0x8000 };

#define NAME "pam_pyslurm_adopt"
#define NAMESPACE "namespace "
#define NS_GET_NSTYPE 0xb703
#define MOST_WORDS 32
#define MOST_PATH 4096
#define PUBLIC __attribute__((visibility("default")))

static void say(pam_handle_t *handle, const char *text)
{
    const struct pam_conv *conv = NULL;
    struct pam_message message = {PAM_TEXT_INFO, text};
    const struct pam_message *messages = &message;
    struct pam_response *response = NULL;
    if (pam_get_item(handle, PAM_CONV, (const void **)&conv) == PAM_SUCCESS && conv && conv->conv)
        conv->conv(1, &messages, &response, conv->appdata_ptr);
    if (response) {
        free(response->resp);
        free(response);
    }
}

/* The program as root of this host: with nothing of what the service has in its environment or
   open. The real user id of a service may be another one. */
static void become_program(const char **words, char **environment, int output)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(null, 2) < 0)
        _exit(127);
    for (int descriptor = 3; descriptor < 4096; descriptor++)
        close(descriptor);
    if (setresgid(0, 0, 0) || setresuid(0, 0, 0))
        _exit(127);
    execve(words[0], (char **)words, environment);
    _exit(127);
}

/* Read the program's output to its end; the rest of a longer one is not kept. */
static void read_all(int descriptor, char *text, size_t room)
{
    size_t used = 0;
    char rest[512];
    for (;;) {
        int is_full = used + 1 >= room;
        ssize_t count = read(descriptor, is_full ? rest : text + used,
                             is_full ? sizeof rest : room - used - 1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        if (!is_full)
            used += count;
    }
    text[used] = 0;
}

/* Write where the program is, beside this module. */
static void find_program(char *path)
{
    Dl_info own;
    const char *file = dladdr((const void *)say, &own) && own.dli_fname ? own.dli_fname : "";
    const char *end = strrchr(file, '/');
    if (snprintf(path, MOST_PATH, "%.*s/../../sbin/" NAME, end ? (int)(end - file) : 0,
                 end ? file : "") >= MOST_PATH)
        path[0] = 0;
}

/* Returns the program's exit code, -1 where it did not run; `text` gets its output. */
static int ask(pam_handle_t *handle, const char *kind, int argc, const char **argv, char *text,
               size_t room)
{
    char usual_program[MOST_PATH];
    const char *words[MOST_WORDS + 2] = {usual_program};
    const char *user = NULL, *service = NULL;
    char of_user[512], of_service[256], of_kind[64];
    char *environment[] = {of_user, of_service, of_kind, "PAM_MODULE=" NAME,
                           "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    int count = 1, pipes[2], status = -1;
    text[0] = 0;
    find_program(usual_program);
    for (int i = 0; i < argc && count <= MOST_WORDS; i++) {
        if (!strncmp(argv[i], "program=", 8))
            words[0] = argv[i] + 8;
        else
            words[count++] = argv[i];
    }
    if (pam_get_user(handle, &user, NULL) != PAM_SUCCESS || !user)
        return -1;
    pam_get_item(handle, PAM_SERVICE, (const void **)&service);
    if (snprintf(of_user, sizeof of_user, "PAM_USER=%s", user) >= (int)sizeof of_user)
        return -1;
    snprintf(of_service, sizeof of_service, "PAM_SERVICE=%s", service ? service : "");
    snprintf(of_kind, sizeof of_kind, "PAM_TYPE=%s", kind);
    if (pipe2(pipes, O_CLOEXEC))
        return -1;
    /* The service may reap all children, or ignore their ends. */
    struct sigaction usual = {0}, before;
    usual.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &usual, &before);
    pid_t child = fork();
    if (child == 0)
        become_program(words, environment, pipes[1]);
    close(pipes[1]);
    if (child > 0) {
        read_all(pipes[0], text, room);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
    close(pipes[0]);
    sigaction(SIGCHLD, &before, NULL);
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 127) {
        syslog(LOG_AUTHPRIV | LOG_ERR, NAME ": %s cannot be run", words[0]);
        return -1;
    }
    return WEXITSTATUS(status);
}

static int has_word(int argc, const char **argv, const char *word)
{
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], word))
            return 1;
    return 0;
}

/* Where nobody could be asked: as the program decides it where slurmd is away. */
static int without_answer(int argc, const char **argv, int refusal)
{
    return has_word(argc, argv, "action_generic_failure=deny") ? refusal : PAM_IGNORE;
}

/* The file is in a directory that only root enters, and what it is the kernel says. */
static int enter(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), problem = 0;
    if (descriptor < 0)
        return errno;
    if (ioctl(descriptor, NS_GET_NSTYPE) != CLONE_NEWNS)
        problem = EINVAL;
    else if (setns(descriptor, CLONE_NEWNS) || chdir("/"))
        problem = errno;
    close(descriptor);
    return problem;
}

PUBLIC int pam_sm_acct_mgmt(pam_handle_t *handle, int flags, int argc, const char **argv)
{
    char text[1024];
    int code = ask(handle, "account", argc, argv, text, sizeof text);
    if (code < 0)
        return without_answer(argc, argv, PAM_PERM_DENIED);
    text[strcspn(text, "\n")] = 0;
    if (text[0] && !(flags & PAM_SILENT))
        say(handle, text);
    return code ? PAM_PERM_DENIED : PAM_SUCCESS;
}

PUBLIC int pam_sm_open_session(pam_handle_t *handle, int flags, int argc, const char **argv)
{
    char text[4352];
    (void)flags;
    int code = ask(handle, "open_session", argc, argv, text, sizeof text);
    if (code < 0)
        return without_answer(argc, argv, PAM_SESSION_ERR);
    if (code)
        return PAM_SESSION_ERR;
    if (strncmp(text, NAMESPACE, strlen(NAMESPACE)))
        return PAM_SUCCESS;
    const char *path = text + strlen(NAMESPACE);
    text[strcspn(text, "\n")] = 0;
    int problem = enter(path);
    if (!problem)
        return PAM_SUCCESS;
    syslog(LOG_AUTHPRIV | LOG_ERR, NAME ": %s: %s", path, strerror(problem));
    return has_word(argc, argv, "action_adopt_failure=deny") ? PAM_SESSION_ERR : PAM_SUCCESS;
}

PUBLIC int pam_sm_close_session(pam_handle_t *handle, int flags, int argc, const char **argv)
{
    (void)handle, (void)flags, (void)argc, (void)argv;
    return PAM_SUCCESS;
}

/* Beside `auth required pam_pyslurm_adopt.so`, which decides nothing. */
PUBLIC int pam_sm_authenticate(pam_handle_t *handle, int flags, int argc, const char **argv)
{
    (void)handle, (void)flags, (void)argc, (void)argv;
    return PAM_IGNORE;
}

PUBLIC int pam_sm_setcred(pam_handle_t *handle, int flags, int argc, const char **argv)
{
    (void)handle, (void)flags, (void)argc, (void)argv;
    return PAM_IGNORE;
}
