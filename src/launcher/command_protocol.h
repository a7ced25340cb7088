/* What a launcher and its user's command server say to each other; ADR 0086. */
#ifndef PYSLURM_COMMAND_PROTOCOL_H
#define PYSLURM_COMMAND_PROTOCOL_H

#include <stdint.h>

#define PROTOCOL_MAGIC 0x32736370u  /* changes with the structures below */
#define MOST_REQUEST_BYTES (128 << 10) /* of one packet; longer command lines are run directly */
#define MOST_LIMITS 16
#define GO "go"

/* A request is one packet: this, then the name, the arguments and the variables, each ended by a
 * NUL. With it come descriptors 0, 1, 2 and the working directory. */
struct command_request {
    uint32_t magic, argument_count, variable_count, umask; /* the name is an argument, too */
    int32_t niceness, session;
    uint64_t ignored, blocked; /* signals: bit N - 1 for signal N */
    uint64_t limits[MOST_LIMITS][2];
    uint64_t cpus[16];
};

/* A child that has accepted the connection says so by a first report; only then is the request sent,
 * since descriptors in the queue of a server that hangs would keep pipes open. A second report says
 * that all is taken over; with it come a descriptor of the process and the writing end of a pipe, by
 * whose end the process notices the launcher's. The launcher answers GO. The last report says how the
 * command ended. */
struct command_report {
    uint32_t magic;
    int32_t is_signal, number; /* the exit code, or the signal's number */
};

#endif
