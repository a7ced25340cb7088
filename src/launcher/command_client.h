/* Let the user's command server run a command, where there is one; see command_client.c. */
#ifndef PYSLURM_COMMAND_CLIENT_H
#define PYSLURM_COMMAND_CLIENT_H

/* In the environment of the launcher: the descriptor that `run_by_server` gave for a server. */
#define LOCK_VARIABLE "PYSLURM_COMMAND_LOCK"

/* What the caller does next. */
#define RUN_DIRECTLY (-1)

/* Hand the command to the user's server and wait for its end.
 *
 * Returns the command's exit code, or RUN_DIRECTLY where no server has begun it; `*lock` is then a
 * descriptor to pass to a server that shall be started, or -1. Does not return where the command
 * ended by a signal: this process then ends by the same one. */
int run_by_server(const char *name, int argc, char **argv, int *lock);

#endif
