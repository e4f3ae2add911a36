#include "schedules/validate.h"

#include "schedules/lower.h"
#include "schedules/pairing.h"
#include "schedules/walk.h"

#include <stdlib.h>

/* What `live` counts while a row is walked: actions that open or close a pair's life. */
typedef struct sc_life {
    unsigned opens;  // bits 1 << sc_op
    unsigned closes; // bits 1 << sc_op
    int stage;       // -1: all of the rank's
} sc_life;

/* Largest number of open pairs; *cell_out (may be NULL) gets the first cell that has more than
   `limit`, or -1. */
static int peak(const sc_row *row, sc_life life, int limit, int *cell_out)
{
    int live = 0;
    int most = 0;
    int cell = -1;
    for (size_t i = 0; i < row->n_actions; i++) {
        sc_action action = row->actions[i];
        if (life.stage >= 0 && action.stage != life.stage) {
            continue;
        }
        unsigned bit = 1U << action.op;
        live += (life.opens & bit) != 0;
        if (live > most) {
            most = live;
        }
        if (live > limit && cell < 0) {
            cell = (int)i;
        }
        live -= (life.closes & bit) != 0;
    }
    if (cell_out != NULL) {
        *cell_out = cell;
    }
    return most;
}

/* A forward-only table saves nothing: a pair lives during its F. */
static sc_life activation_life(const sc_table *table, int stage)
{
    unsigned f = 1U << SC_OP_F;
    unsigned closes = table->is_forward_only ? f : 1U << SC_OP_B | 1U << SC_OP_W;
    return (sc_life){f, closes, stage};
}

int sc_validate_peak(const sc_table *table, int rank, int stage)
{
    return peak(&table->rows[rank], activation_life(table, stage), 0, NULL);
}

int sc_validate_peak_pending_w(const sc_table *table, int rank, int stage)
{
    sc_life life = {1U << SC_OP_I, 1U << SC_OP_W, stage};
    return peak(&table->rows[rank], life, 0, NULL);
}

/* Live activations within the cap. */
static sc_status check_peak(const sc_table *table, int limit, sc_place *place, sc_err *err)
{
    for (int rank = 0; rank < table->n_ranks; rank++) {
        const sc_row *row = &table->rows[rank];
        int cell = -1;
        int most = peak(row, activation_life(table, -1), limit, &cell);
        if (most > limit) {
            char text[SC_ACTION_TEXT_MAX];
            *place = (sc_place){rank, cell};
            return sc_status_fail(
                err, SC_INVALID, "%s: live activations exceed the cap of %d; this row's peak is %d",
                sc_action_format(row->actions[cell], text, sizeof text), limit, most);
        }
    }
    return SC_OK;
}

/* Weight gradients of every stage in rising microbatch order. */
static sc_status find_ordered_w(const sc_table *table, bool *out, sc_err *err)
{
    int *n_done = calloc((size_t)table->n_stages, sizeof *n_done);
    if (n_done == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages", table->n_stages);
    }
    bool is_ordered = table->odd_rank_of_stage == NULL;
    for (int rank = 0; rank < table->n_ranks; rank++) {
        const sc_row *row = &table->rows[rank];
        for (size_t i = 0; i < row->n_actions; i++) {
            sc_action action = row->actions[i];
            if (action.op == SC_OP_B || action.op == SC_OP_W) {
                is_ordered = is_ordered && action.mb == n_done[action.stage];
                n_done[action.stage]++;
            }
        }
    }
    free(n_done);
    *out = is_ordered;
    return SC_OK;
}

/* Runs the table with SENDs and RECVs that block in place: a deadlock is a finding, no error. */
static sc_status report_blocking(const sc_table *table, sc_validate_report *report, sc_err *err)
{
    sc_status status = SC_OK;
    sc_table *lowered = NULL;
    const sc_table *walked = table;
    if (!table->is_lowered) {
        SC_GOTO(sc_lower_table(table, &lowered, err));
        walked = lowered;
    }
    sc_place place;
    status = sc_walk_run(walked, SC_WALK_BLOCKING, NULL, NULL, &place, &report->blocking);
    report->is_blocking_deadlock = status == SC_INVALID;
    if (status == SC_INVALID) {
        status = SC_OK;
    } else if (status != SC_OK && err != NULL) {
        *err = report->blocking;
    }
out:
    sc_table_free(&lowered);
    return status;
}

sc_status sc_validate_locate(const sc_table *table, const sc_validate_limits *limits,
                             sc_validate_report *report, sc_place *place, sc_err *err)
{
    sc_status status = SC_OK;
    sc_cover cover = {0};
    *place = (sc_place){-1, -1};
    SC_GOTO(sc_cover_make(table, &cover, place, err));
    if (table->is_lowered) {
        SC_GOTO(sc_pairing_check(table, &cover, place, err));
    }
    sc_walk_rule rule = table->is_lowered ? SC_WALK_ENGINE : SC_WALK_COMPUTE;
    SC_GOTO(sc_walk_run(table, rule, NULL, NULL, place, err));
    if (limits != NULL && limits->peak_mb_max > 0) {
        SC_GOTO(check_peak(table, limits->peak_mb_max, place, err));
    }
    if (report != NULL) {
        sc_validate_report found = {0};
        *place = (sc_place){-1, -1};
        SC_GOTO(find_ordered_w(table, &found.has_ordered_w, err));
        SC_GOTO(report_blocking(table, &found, err));
        *report = found;
    }
out:
    sc_cover_done(&cover);
    return status;
}

sc_status sc_validate_table(const sc_table *table, const sc_validate_limits *limits,
                            sc_validate_report *report, sc_err *err)
{
    sc_place place;
    sc_status status = sc_validate_locate(table, limits, report, &place, err);
    if (status == SC_OK || place.rank < 0) {
        return status;
    }
    if (place.cell < 0) {
        return sc_status_prefix(err, status, "rank %d", place.rank);
    }
    return sc_status_prefix(err, status, "rank %d cell %d", place.rank, place.cell);
}
