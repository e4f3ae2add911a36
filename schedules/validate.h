/*
 * validate - the rules a table must keep, one function a rule.
 */
#ifndef SC_SCHEDULES_VALIDATE_H
#define SC_SCHEDULES_VALIDATE_H

#include "schedules/cover.h"

typedef struct sc_validate_limits {
    int peak_mb_max; // live activations allowed on a rank, in (stage, microbatch) pairs; 0: no cap
} sc_validate_limits;

typedef struct sc_validate_report {
    bool is_blocking_deadlock; // deadlocks where every SEND and RECV blocks in place (naive
                               // transports)
    sc_err blocking;           // who waits for whom, when it does
    /* W (or B) of every stage in rising microbatch order; never where parameters are replicated,
       since the sums of two replicas are added. */
    bool has_ordered_w;
} sc_validate_report;

/* Checks every rule; the first one broken is the error, with rank and cell ("rank 2 cell 17: ...";
   both count from 0). Works on compute-only and lowered tables (a compute-only one is lowered for
   the deadlock checks). Deadlock under the engine's rule (see executor.h: sends never block,
   receives are posted ahead in channel order) is an error; under blocking sends it is reported.
   limits and report may be NULL.
 */
sc_status sc_validate_table(const sc_table *table, const sc_validate_limits *limits,
                            sc_validate_report *report, sc_err *err);

/* The same, but the error's text has no place in front: *place gets it, for callers that know
   better names for cells (csv: line and column). */
sc_status sc_validate_locate(const sc_table *table, const sc_validate_limits *limits,
                             sc_validate_report *report, sc_place *place, sc_err *err);

/* Largest number of live (stage, microbatch) activations on `rank`: F to the end of B or W.
   For stage >= 0 only that stage's are counted. */
int sc_validate_peak(const sc_table *table, int rank, int stage);
/* Largest number of (stage, microbatch) pairs of `stage` between I and W (kept dy). 0 without a
 * split. */
int sc_validate_peak_pending_w(const sc_table *table, int rank, int stage);

#endif
