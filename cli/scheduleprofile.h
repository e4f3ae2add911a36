/*
 * scheduleprofile - what a run measured, as costs for simulating other schedules.
 *
 * Owns: the times of each stage and of an edge, from a run folder's summary.json and plan.json.
 */
#ifndef SC_CLI_SCHEDULEPROFILE_H
#define SC_CLI_SCHEDULEPROFILE_H

#include "schedules/simulate.h"

typedef struct sc_scheduleprofile {
    char schedule[48]; // the run's
    int n_ranks;
    int n_stages;
    int n_mb;
    sc_stage_cost *stages; // (n_stages) ms of one microbatch
    int *rank_of_stage;    // (n_stages)
    double comm_ms;        // of an edge between two ranks
    double message_bytes;  // of one microbatch between two stages, the largest
} sc_scheduleprofile;

/* How measured stages became a table's stages. */
typedef enum sc_scheduleprofile_fit {
    SC_SCHEDULEPROFILE_BY_STAGE, // each stage's own times
    SC_SCHEDULEPROFILE_BY_RANK,  // a rank's times, split evenly over its stages
    SC_SCHEDULEPROFILE_EVENLY    // the whole model's times, split evenly over all stages
} sc_scheduleprofile_fit;

/* Reads a run folder. Errors name the file and the key. sc_scheduleprofile_done frees. */
sc_status sc_scheduleprofile_read(const char *run_dir, sc_scheduleprofile *out, sc_err *err);
/* Accepts a zeroed one. */
void sc_scheduleprofile_done(sc_scheduleprofile *profile);

/* Times for a table. out: (table->n_stages). */
sc_scheduleprofile_fit sc_scheduleprofile_apply(const sc_scheduleprofile *profile,
                                                const sc_table *table, sc_stage_cost *out);
/* Times of one microbatch on an average rank of n_ranks. */
sc_stage_cost sc_scheduleprofile_average(const sc_scheduleprofile *profile, int n_ranks);

#endif
