/*
 * swapping - a job of jobs.h whose schedule is swapped while it runs.
 *
 * Swaps are asked for as `stagecoach swap` does. When they happen depends on how fast steps are;
 * what they change must not. Whatever goes wrong fails the test, with the programs' output.
 *
 * Owns:     the running job's process, a client connection.
 * Threads:  one caller.
 */
#ifndef SC_TESTS_MULTIPROC_SWAPPING_H
#define SC_TESTS_MULTIPROC_SWAPPING_H

#include "cli/client.h"
#include "tests/multiproc/tensor_files.h"
#include "tests/support/proc.h"

enum {
    SC_SWAPPING_TEXT_MAX = 4096,
    SC_SWAPPING_NAMES_MAX = 32
};

typedef struct sc_swapping {
    sc_jobs *jobs;
    sc_jobs_layout layout;
    sc_proc *run;
    sc_client *client;
} sc_swapping;

/* The schedules that can run at these sizes and add gradients in the same order as the others;
   returns how many. Names live as long as the program. */
size_t sc_swapping_names(int p, int m, const char *names[SC_SWAPPING_NAMES_MAX]);

/* Starts `stagecoach run` with more arguments (NULL-terminated, or NULL) and waits until its
   coordinator listens. `jobs` is borrowed until the end. */
void sc_swapping_start(sc_jobs *jobs, const sc_jobs_layout *layout, const char *const *more,
                       sc_swapping *out);
/* Sends a request and waits for its reply, *status_p and text; false when the job ended first. */
bool sc_swapping_ask(sc_swapping *s, const char *verb, const char *argument, sc_status *status_p,
                     char text[SC_SWAPPING_TEXT_MAX]);
/* Asks for a swap until none waits and the job trains; false when the job ended first, or has no
   step left. Any other refusal fails the test. */
bool sc_swapping_swap(sc_swapping *s, const char *argument, char text[SC_SWAPPING_TEXT_MAX]);
/* Waits until the swap that was asked for last has begun. */
void sc_swapping_await(sc_swapping *s, const char *schedule);
/* As sc_swapping_swap, but it must be refused with a text that has this part, and the job goes on.
 */
void sc_swapping_expect_refusal(sc_swapping *s, const char *argument, const char *part);
/* The job must end with this exit code; its output stays readable until sc_swapping_close. */
void sc_swapping_expect_exit(sc_swapping *s, int code);
void sc_swapping_close(sc_swapping *s);
/* The job must end well; what it left. Closes. */
void sc_swapping_finish(sc_swapping *s, sc_jobs_result *out);

/* A run that was not swapped, on one rank: what every other must equal. */
typedef struct sc_swapping_reference {
    sc_registry *registry;
    sc_jobs_result result;
    sc_tensor_files weights;
} sc_swapping_reference;

void sc_swapping_reference_make(sc_jobs *jobs, sc_swapping_reference *out);
void sc_swapping_reference_free(sc_swapping_reference *reference);
/* Losses and norms of every step and the final weights have the same bits. */
void sc_swapping_reference_expect(const sc_swapping_reference *reference,
                                  const sc_jobs_result *result);

#endif
