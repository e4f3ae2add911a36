/*
 * contest - every schedule at one size, simulated with the same costs.
 *
 * Owns:     one entry a schedule: its numbers, or the constraint that it does not keep.
 * Does not: print (standings does).
 */
#ifndef SC_CLI_CONTEST_H
#define SC_CLI_CONTEST_H

#include "cli/scheduleprofile.h"
#include "cli/scheduleview.h"
#include "schedules/gen.h"

/* All borrowed. */
typedef struct sc_contest_rules {
    sc_gen_params params;              // n_ranks and n_mb set; f, i, w, comm are filled from costs
    sc_scheduleview_costs costs;       // without a profile
    const sc_scheduleprofile *profile; // NULL: costs
    double memory_cap;                 // microbatches a rank; 0: none
    bool is_by_peak;                   // order of the entries: peak, not cost
} sc_contest_rules;

typedef struct sc_contest_entry {
    const sc_gen_info *info;
    bool is_fit;
    sc_err why; // when not fit
    double cost;
    double makespan;
    double ideal;
    sc_scheduleview_bubbles bubbles;
    double peak;       // microbatches, of the rank that holds most
    double v;          // stages a rank
    size_t n_messages; // of one step, all ranks
    double bytes;      // of these; 0 without a profile
    bool has_ordered_w;
    bool is_blocking_deadlock;
    sc_scheduleprofile_fit fit; // with a profile
} sc_contest_entry;

typedef struct sc_contest {
    sc_contest_entry *entries; // (n_entries) those that fit first, best first
    size_t n_entries;
    size_t n_fit;
} sc_contest;

/* Runs every schedule of gen's list. One that refuses the size, or is above the cap, is an entry
   that does not fit; anything else that fails is an error. sc_contest_done frees. */
sc_status sc_contest_run(const sc_contest_rules *rules, sc_contest *out, sc_err *err);
/* Accepts a zeroed one. */
void sc_contest_done(sc_contest *contest);

#endif
