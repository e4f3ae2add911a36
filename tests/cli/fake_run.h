/*
 * fake_run - starts `stagecoach` among the fake daemons, in a folder of its own.
 */
#ifndef SC_TESTS_CLI_FAKE_RUN_H
#define SC_TESTS_CLI_FAKE_RUN_H

#include "tests/support/proc.h"

/* How the daemons behave (NULL: well) and what the terminal is. */
typedef struct sc_fake_run {
    const char *coordinator;
    const char *stage;
    bool is_terminal;
    const char *dir; // working folder
} sc_fake_run;

/* Starts "stagecoach ARGS...". args ends with NULL. */
sc_proc *sc_fake_run_start(const sc_fake_run *run, const char *const *args);

#endif
