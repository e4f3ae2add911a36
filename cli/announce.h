/*
 * announce - what a coordinator says when it is ready: one JSON line on a pipe.
 *
 * {"endpoint":"tcp://127.0.0.1:41233","run_dir":"runs/x","n_workers":2,"threads":1,"pin":true}
 *
 * Owns:     the bytes read so far.
 * Does not: wait.
 * Threads:  none of its own; one caller.
 */
#ifndef SC_CLI_ANNOUNCE_H
#define SC_CLI_ANNOUNCE_H

#include "base/status.h"

#include <limits.h>
#include <stdbool.h>

enum {
    SC_ANNOUNCE_LINE_MAX = 8192,
    SC_ANNOUNCE_ENDPOINT_MAX = 256,
    SC_ANNOUNCE_WORKERS_MAX = 1024,
    SC_ANNOUNCE_THREADS_MAX = 1024
};

typedef struct sc_announce {
    char endpoint[SC_ANNOUNCE_ENDPOINT_MAX]; // of the control socket
    char run_dir[PATH_MAX];
    int n_workers; // that the job needs
    int n_threads; // of each worker
    bool is_pinned;
} sc_announce;

/* The line while it arrives. */
typedef struct sc_announce_reader {
    char line[SC_ANNOUNCE_LINE_MAX];
    size_t n;
    bool is_ended; // nothing more will come
} sc_announce_reader;

/* Takes what the pipe has; *is_whole_p tells that *out was filled. The end of the pipe before a
   whole line is no error: the coordinator's exit tells why. `fd` does not block. */
sc_status sc_announce_read(sc_announce_reader *reader, int fd, bool *is_whole_p, sc_announce *out,
                           sc_err *err);
/* Parses the n bytes of a line, without its newline. */
sc_status sc_announce_parse(const char *line, size_t n, sc_announce *out, sc_err *err);

#endif
