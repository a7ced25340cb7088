/* What a daily command is at first: a small program without an interpreter (ADR 0070).
 *
 * It lets the user's command server run the command (command_client.c). Where that is not to be, it
 * becomes the launcher of the same name, which holds the interpreter (launcher.c). The launcher alone
 * took twice the time to start, and most of its pages were for an interpreter that had nothing to do.
 */
#define _GNU_SOURCE
#include "command_client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seen from the directory above our own: of a checkout's environment, and where we are installed. */
static const char *const places[] = {"libexec", "lib/pyslurm-ng/bin"};

/* Tell the launcher the lock with which to start a server. */
static void pass_lock(int lock)
{
    char number[16];

    unsetenv(LOCK_VARIABLE);
    if (lock < 0 || fcntl(lock, F_SETFD, 0) != 0)
        return;
    snprintf(number, sizeof number, "%d", lock);
    setenv(LOCK_VARIABLE, number, 1);
}

int main(int argc, char **argv)
{
    char self[PATH_MAX], path[PATH_MAX + 64];
    const char *name;
    char *slash;
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    int lock, code;

    self[size < 0 ? 0 : size] = '\0';
    slash = strrchr(self, '/');
    if (slash == NULL) {
        fprintf(stderr, "pyslurm-ng: error: cannot read /proc/self/exe; is /proc mounted?\n");
        return 1;
    }
    name = slash + 1;
    *slash = '\0';
    code = run_by_server(name, argc, argv, &lock);
    if (code != RUN_DIRECTLY)
        return code;
    slash = strrchr(self, '/');
    if (slash != NULL)
        *slash = '\0';
    pass_lock(lock);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", self, places[i], name);
        execv(path, argv);
        if (errno != ENOENT && errno != ENOTDIR)
            break;
    }
    fprintf(stderr, "%s: error: cannot start %s: %s\n", name, path, strerror(errno));
    return 1;
}
