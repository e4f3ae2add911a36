/*
 * scheduleargs - the command line of `stagecoach schedule`.
 *
 * What does not go together is refused here, so that the commands find only what they can use.
 */
#ifndef SC_CLI_SCHEDULEARGS_H
#define SC_CLI_SCHEDULEARGS_H

#include "cli/scheduleview.h"
#include "schedules/gen.h"

#include <stdbool.h>

/* What is asked for, as bits, so that an option can say which of them it goes with. */
typedef enum sc_scheduleargs_verb {
    SC_SCHEDULEARGS_LIST = 1,
    SC_SCHEDULEARGS_SHOW = 2,
    SC_SCHEDULEARGS_CHECK = 4,
    SC_SCHEDULEARGS_SIMULATE = 8,
    SC_SCHEDULEARGS_COMPARE = 16
} sc_scheduleargs_verb;

/* --sweep: from, from + step, ... up to `to`. */
typedef struct sc_scheduleargs_sweep {
    char axis; // 'p' or 'm'; 0: no sweep
    int from;
    int to;
    int step;
} sc_scheduleargs_sweep;

/* All texts are argv's. */
typedef struct sc_scheduleargs {
    sc_scheduleargs_verb verb;
    const char *subject; // NAME or FILE
    sc_gen_params params;
    sc_scheduleview_costs costs;
    bool has_costs; // given, not the default
    const char *svg;
    const char *png;
    const char *trace;
    const char *csv;
    const char *profile; // run folder
    double memory_cap;   // microbatches a rank; 0: none
    sc_scheduleargs_sweep sweep;
    int width; // 0: the terminal's
    bool is_plain;
    bool is_json;
    bool is_lowered;
    bool is_legacy;
    bool is_by_peak; // --sort peak
    bool has_sort;
} sc_scheduleargs;

/* Parses, and ends the process as argp does when the command line is wrong or asks for --help.
   False when there is no memory for it. */
bool sc_scheduleargs_parse(int argc, char **argv, sc_scheduleargs *out);
/* True for "-": standard output. */
bool sc_scheduleargs_is_stdout(const char *path);

#endif
