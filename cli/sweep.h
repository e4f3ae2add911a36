/*
 * sweep - contests over many sizes, as CSV and as a chart of the bubble.
 */
#ifndef SC_CLI_SWEEP_H
#define SC_CLI_SWEEP_H

#include "cli/contest.h"
#include "cli/scheduleargs.h"

/* Runs a contest at each size of args->sweep, under `rules` otherwise. The CSV goes to args->csv,
   or to standard output unless a picture goes there; the chart to args->svg and args->png. */
sc_status sc_sweep_run(const sc_scheduleargs *args, const sc_contest_rules *rules, sc_err *err);

#endif
