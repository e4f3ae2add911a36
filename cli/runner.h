/*
 * runner - one job on this machine: starts its daemons, follows it to the end, leaves no process.
 *
 * Owns:     the daemons, the connection to the coordinator, the signals INT, TERM and HUP while it
 *           runs.
 * Does not: print, but for the progress and the error with which a coordinator ends the job; the
 *           caller gets the other texts.
 * Threads:  one, which polls; the process's first.
 *
 * The first signal asks the coordinator to stop and gives everybody SC_RUNNER_LEAVE_MS to end, then
 * sends SIGTERM, then SIGKILL; the second kills at once.
 */
#ifndef SC_CLI_RUNNER_H
#define SC_CLI_RUNNER_H

#include "cli/daemons.h"
#include "cli/progress.h"

enum {
    SC_RUNNER_READY_MS = 30000,     // default for the coordinator to be ready
    SC_RUNNER_LEAVE_MS = 5000,      // for everybody to end by themselves
    SC_RUNNER_LAST_LEAVE_MS = 1000, // for workers that are there when the coordinator has ended
    SC_RUNNER_TERM_MS = 2000,       // for everybody to end after SIGTERM
    SC_RUNNER_JOIN_MS = 1000,       // for news of a worker that ended before the job was complete
    SC_RUNNER_VERDICT_MS = 6000,    // for the coordinator to name a dead worker
    SC_RUNNER_LAST_WORD_MS = 500    // for the last message of a coordinator that has ended
};

/* What to run. All of it is borrowed. */
typedef struct sc_runner_options {
    sc_daemons_job job;    // its mask is the runner's to set
    int ready_ms;          // longest wait for the coordinator; 0: SC_RUNNER_READY_MS
    sc_progress *progress; // shown there
} sc_runner_options;

/* How it ended; texts are NULL where there is none. */
typedef struct sc_runner_result {
    char *run_dir;
    char *summary; // table to print
    char *detail;  // lines about a daemon that failed: how it ended, the end of its log
    bool is_told;  // the error is already on the terminal
} sc_runner_result;

/* Runs a job to its end. *out is filled in any case; sc_runner_done frees it. */
sc_status sc_runner_run(const sc_runner_options *options, sc_runner_result *out, sc_err *err);
/* Accepts a zeroed result. */
void sc_runner_done(sc_runner_result *result);

#endif
