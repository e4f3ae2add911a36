/*
 * progress - shows how a run gets on: a bar redrawn in place on a terminal, plain lines elsewhere.
 *
 * Owns:     what is on the terminal's last line; the smoothed step time behind the ETA.
 * Does not: read a clock or the environment; the caller passes both in.
 * Threads:  none of its own; one caller.
 *
 * A bar is one write of one line no wider than the terminal, at most ten times a second. Plain
 * lines come for each phase, the first steps, then at most once a second, and the last step. A
 * write that fails (a closed pipe) ends the display, not the run.
 */
#ifndef SC_CLI_PROGRESS_H
#define SC_CLI_PROGRESS_H

#include "proto/messages.h"

#include <stddef.h>
#include <stdint.h>

enum {
    SC_PROGRESS_LINE_MAX = 512,
    SC_PROGRESS_PHASE_MAX = 32
};

typedef struct sc_progress {
    int fd; // -1: quiet
    bool is_terminal;
    bool has_color;
    bool has_bar;                      // the terminal's last line is ours
    bool is_pending;                   // `last` has not been shown
    char phase[SC_PROGRESS_PHASE_MAX]; // of `last`, copied
    sc_msg_progress last;              // its phase points to the copy
    double step_ms;                    // smoothed; 0: no step yet
    int64_t shown_ns;                  // of the last bar or line of a step
    int n_lines;                       // of steps
} sc_progress;

/* fd -1 shows nothing. A terminal is one where fd is a tty and `term` (TERM, may be NULL) is not
   "dumb"; it has colours unless `no_color` (NO_COLOR, may be NULL) is a non-empty text. */
void sc_progress_init(sc_progress *progress, int fd, const char *term, const char *no_color);
/* Shows a message, if it is due. */
void sc_progress_update(sc_progress *progress, const sc_msg_progress *msg, int64_t now_ns);
/* Shows the last message if it was not, and leaves the cursor at the start of an empty line, ready
   for other text. */
void sc_progress_finish(sc_progress *progress);

/* The bar for a terminal `width` columns wide, without control characters but colour; step_ms is
   the smoothed time of a step. Returns out. */
char *sc_progress_format_bar(const sc_msg_progress *msg, double step_ms, int width, bool has_color,
                             char *out, size_t n);
/* The plain line. Returns out. */
char *sc_progress_format_line(const sc_msg_progress *msg, double step_ms, char *out, size_t n);

#endif
