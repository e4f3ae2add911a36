/*
 * failure - one worker of a job under `stagecoach run` is stopped for good at a chosen moment; the
 * others must end, and the report must name it.
 *
 * Threads: one caller.
 */
#ifndef SC_TESTS_MULTIPROC_FAILURE_H
#define SC_TESTS_MULTIPROC_FAILURE_H

#include <stddef.h>

typedef struct sc_failure_case {
    const char *who;    // "rank 1"
    const char *doing;  // waited for in its status, e.g. "action 1F0"
    const char *but;    // not in its status, or NULL
    const char *next;   // what it may have gone on to before the signal came, e.g. "action 1F1"
    int signal;         // sent then
    const char *report; // "is dead: step 0, "
} sc_failure_case;

/* Plays a case: 3 ranks, 2 microbatches, actions of 500 ms under 1f1b. */
void sc_failure_expect_named(const sc_failure_case *failure);

#endif
