/*
 * gantt - a timeline as a text picture: a line a rank, time to the right.
 *
 *     rank 0 |F0 F1 F2 F3          B0    F4 B1
 *
 * A box shows its operation, and its microbatch where that fits; in a rank's second, fourth, ...
 * stage the letters are small. '.' is idle time.
 */
#ifndef SC_SCHEDULES_GANTT_H
#define SC_SCHEDULES_GANTT_H

#include "schedules/simulate.h"

typedef struct sc_gantt_options {
    int width;       // columns of the whole line, at least 40
    bool has_colour; // ANSI colours, as a terminal shows them
} sc_gantt_options;

/* Lines with newlines: one a rank and a time axis. malloc, caller frees. */
sc_status sc_gantt_write(const sc_timeline *timeline, const sc_gantt_options *options, char **out,
                         sc_err *err);

#endif
