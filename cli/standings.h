/*
 * standings - a contest's entries as a table or as JSON, to standard output.
 */
#ifndef SC_CLI_STANDINGS_H
#define SC_CLI_STANDINGS_H

#include "cli/contest.h"

/* The table of schedules that fit, best first, then those that do not, each with its reason. `run`
   is the profile's folder, NULL without one. */
void sc_standings_print(const sc_contest *contest, const sc_contest_rules *rules, const char *run);
sc_status sc_standings_print_json(const sc_contest *contest, const sc_contest_rules *rules,
                                  const char *run, sc_err *err);

#endif
