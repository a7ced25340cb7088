/* The user's command server; see command_server.c. */
#ifndef PYSLURM_COMMAND_SERVER_H
#define PYSLURM_COMMAND_SERVER_H

/* Serve the socket argv[2] under the lock of descriptor argv[1], in an interpreter that has
 * started. Returns the exit code of this process; a child that runs a command does not return. */
int serve_commands(int argc, char **argv);

#endif
