/*
 * daemons - the command lines of a local run's coordinator and workers.
 *
 * Owns:     nothing; the children are sc_launch's.
 * Threads:  none of its own; one caller, the process's first thread.
 */
#ifndef SC_CLI_DAEMONS_H
#define SC_CLI_DAEMONS_H

#include "cli/announce.h"
#include "cli/launch.h"
#include "cli/relay.h"

/* What to run. All of it is borrowed. */
typedef struct sc_daemons_job {
    const char *job_path;
    const char *const *sets; // (n_sets) "key=value", on top of the job file
    size_t n_sets;
    const char *name;      // of the run folder; NULL: as the job says
    const char *runs_dir;  // NULL: as the job says
    const char *path_list; // PATH, may be NULL
    const char *rotate;    // schedules that take turns, with commas between; NULL: none do
    int rotate_every;      // steps of a turn
    const char *resume;    // checkpoint or run folder to go on from, "": the newest; NULL: none
    bool is_dry_run;       // print the plan only
    bool is_json;          // the plan as JSON
    bool is_verbose;       // the daemons log more
    const sigset_t *mask;  // signals the daemons block
} sc_daemons_job;

/* Starts the coordinator as the launch's child. Its output goes to `relay`, and its announcement
   to *announce_fd_p, which does not block and which the caller closes; a dry run has neither, it
   writes to our own output (*announce_fd_p = -1). */
sc_status sc_daemons_start_coordinator(const sc_daemons_job *job, sc_launch *launch,
                                       sc_relay *relay, int *announce_fd_p, sc_err *err);
/* Starts announce->n_workers workers, "worker 0" and so on, on devices cpu:0 and so on, each with
   its output in run_dir/log/worker-N.log. */
sc_status sc_daemons_start_workers(const sc_daemons_job *job, const sc_announce *announce,
                                   sc_launch *launch, sc_err *err);

/* run_dir/log/NAME.log, making the log folder if there is none. */
sc_status sc_daemons_log_path(const char *run_dir, const char *name, char *out, size_t n,
                              sc_err *err);

#endif
