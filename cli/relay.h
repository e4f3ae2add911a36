/*
 * relay - carries a child's output to the terminal and into a log file that exists only later.
 *
 * Owns:     the reading end of the pipe and the log file.
 * Does not: wait.
 * Threads:  none of its own; one caller.
 *
 * The coordinator makes the run folder, so what it says before that is kept here, up to
 * SC_RELAY_HELD_MAX bytes, and written when sc_relay_set_log names the file.
 */
#ifndef SC_CLI_RELAY_H
#define SC_CLI_RELAY_H

#include "base/status.h"

#include <stdbool.h>

enum {
    SC_RELAY_HELD_MAX = 65536
};

typedef struct sc_relay {
    int in_fd; // -1 once the pipe has ended
    int log_fd;
    int shown_fd;  // copy of everything, -1 for none
    bool is_shown; // something was copied there, or by sc_relay_show
    size_t n_held;
    char held[SC_RELAY_HELD_MAX];
} sc_relay;

/* Nothing to carry. Cannot fail. */
void sc_relay_init(sc_relay *relay);
/* Makes the pipe; *out_fd is the child's end, which the caller closes. Output is also copied to
   shown_fd, unless that is -1. */
sc_status sc_relay_open(sc_relay *relay, int shown_fd, int *out_fd, sc_err *err);
/* Closes the pipe and the log. Accepts one that is done. */
void sc_relay_done(sc_relay *relay);

/* Appends what was held and all that follows to `path`. */
sc_status sc_relay_set_log(sc_relay *relay, const char *path, sc_err *err);
/* Copies what is held to `fd`, unless it was shown. Returns true when there is something there to
   read. */
bool sc_relay_show(sc_relay *relay, int fd);
/* Carries what the pipe has now. Output that cannot be written is lost, the child goes on. */
void sc_relay_pump(sc_relay *relay);

#endif
