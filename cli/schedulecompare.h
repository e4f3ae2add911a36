/*
 * schedulecompare - `stagecoach schedule compare`: all schedules at one size, or over a sweep.
 */
#ifndef SC_CLI_SCHEDULECOMPARE_H
#define SC_CLI_SCHEDULECOMPARE_H

#include "cli/scheduleargs.h"

/* Prints, and writes the files that were asked for. */
sc_status sc_schedulecompare_run(const sc_scheduleargs *args, sc_err *err);

#endif
