/*
 * saves - runs that save checkpoints or go on from one, and the numbers they leave.
 *
 * On top of jobs.h. Whatever goes wrong fails the test, with the programs' output.
 *
 * Threads: one caller.
 */
#ifndef SC_TESTS_MULTIPROC_SAVES_H
#define SC_TESTS_MULTIPROC_SAVES_H

#include "tests/multiproc/jobs.h"
#include "tests/support/proc.h"

enum {
    SC_SAVES_STEPS_MAX = 4096,
    SC_SAVES_WORDS_MAX = 32
};

/* Losses and norms by step; NAN where there is none. */
typedef struct sc_saves_numbers {
    double losses[SC_SAVES_STEPS_MAX];
    double norms[SC_SAVES_STEPS_MAX];
    int first; // step
    int end;   // behind the last
} sc_saves_numbers;

/* Starts `stagecoach run JOB more...` of the layout, a new job of the folder; more:
 * NULL-terminated. */
sc_proc *sc_saves_start(sc_jobs *jobs, const sc_jobs_layout *layout, const char *const *more);
/* The same to its end, which must be with this exit code; caller frees the program. */
sc_proc *sc_saves_run(sc_jobs *jobs, const sc_jobs_layout *layout, const char *const *more,
                      int exit_code);
/* Any `stagecoach` command to its end in the jobs' folder; words: NULL-terminated. */
sc_proc *sc_saves_command(const sc_jobs *jobs, const char *const *words, int exit_code);

/* "runs/job-N" of the job started last, in the jobs' folder; caller frees. */
char *sc_saves_run_dir(const sc_jobs *jobs);
/* RUN_DIR/checkpoints/step-N. Caller frees. */
char *sc_saves_path(const char *run_dir, int step);
/* Names of a folder's entries, sorted, with a space behind each; caller frees. */
char *sc_saves_list(const char *folder);

void sc_saves_read(const char *run_dir, sc_saves_numbers *out);
/* Every step of `part` has the same bits in `whole`. */
void sc_saves_expect_part(const sc_saves_numbers *whole, const sc_saves_numbers *part,
                          const char *text);

#endif
