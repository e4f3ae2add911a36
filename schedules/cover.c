#include "schedules/cover.h"

#include <limits.h>
#include <stdlib.h>

size_t sc_cover_pair(const sc_table *table, int stage, int mb)
{
    return (size_t)stage * (size_t)table->n_mb + (size_t)mb;
}

void sc_cover_done(sc_cover *cover)
{
    free(cover->f);
    free(cover->back);
    free(cover->w);
    *cover = (sc_cover){0};
}

/* Notes the rank of one stage in one of the placements. */
static sc_status check_rank(const sc_table *table, int stage, int rank, bool *has_stage,
                            sc_err *err)
{
    if (rank < 0 || rank >= table->n_ranks) {
        return sc_status_fail(err, SC_INVALID, "stage %d is placed on rank %d of %d ranks", stage,
                              rank, table->n_ranks);
    }
    has_stage[rank] = true;
    return SC_OK;
}

/* Both replicas of a stage, on two ranks. */
static sc_status check_replicas(const sc_table *table, int stage, bool *has_stage, sc_err *err)
{
    if (table->odd_rank_of_stage == NULL) {
        return SC_OK;
    }
    SC_TRY(check_rank(table, stage, table->odd_rank_of_stage[stage], has_stage, err));
    if (table->odd_rank_of_stage[stage] == table->rank_of_stage[stage]) {
        return sc_status_fail(err, SC_INVALID,
                              "both replicas of stage %d are placed on rank %d; even and odd "
                              "microbatches need one each",
                              stage, table->rank_of_stage[stage]);
    }
    return SC_OK;
}

/* Every stage on an existing rank, every rank with a stage. */
static sc_status check_placement(const sc_table *table, sc_place *place, sc_err *err)
{
    *place = (sc_place){-1, -1};
    bool *has_stage = calloc((size_t)table->n_ranks, sizeof *has_stage);
    if (has_stage == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d ranks", table->n_ranks);
    }
    sc_status status = SC_OK;
    for (int stage = 0; stage < table->n_stages && status == SC_OK; stage++) {
        status = check_rank(table, stage, table->rank_of_stage[stage], has_stage, err);
        if (status == SC_OK) {
            status = check_replicas(table, stage, has_stage, err);
        }
    }
    for (int rank = 0; rank < table->n_ranks && status == SC_OK; rank++) {
        if (!has_stage[rank]) {
            *place = (sc_place){rank, -1};
            status = sc_status_fail(err, SC_INVALID, "no stage is placed on rank %d", rank);
        }
    }
    free(has_stage);
    return status;
}

static bool is_op_allowed(const sc_table *table, sc_op op)
{
    if (!table->is_lowered && !sc_action_is_compute(op)) {
        return false;
    }
    if (table->is_forward_only) {
        return op == SC_OP_F || op == SC_OP_SEND_F || op == SC_OP_RECV_F;
    }
    return true;
}

/* Kind, ranges and rank of one action. */
static sc_status check_action(const sc_table *table, int rank, sc_action action, sc_err *err)
{
    if ((unsigned)action.op >= SC_OP_COUNT) {
        return sc_status_fail(err, SC_INVALID, "operation %d does not exist", (int)action.op);
    }
    char text[SC_ACTION_TEXT_MAX];
    if (!is_op_allowed(table, action.op)) {
        return sc_status_fail(err, SC_INVALID, "%s: a %s table has no %s",
                              sc_action_format(action, text, sizeof text),
                              table->is_forward_only ? "forward-only" : "compute-only",
                              sc_action_op_text(action.op));
    }
    if (action.stage < 0 || action.stage >= table->n_stages) {
        return sc_status_fail(err, SC_INVALID, "%s: unknown stage %d; the stages are 0 to %d",
                              sc_action_format(action, text, sizeof text), action.stage,
                              table->n_stages - 1);
    }
    if (action.op != SC_OP_REDUCE_GRAD && (action.mb < 0 || action.mb >= table->n_mb)) {
        return sc_status_fail(
            err, SC_INVALID, "%s: microbatch %d is out of range; the microbatches are 0 to %d",
            sc_action_format(action, text, sizeof text), action.mb, table->n_mb - 1);
    }
    // Without a microbatch it is the business of each replica.
    int stage_rank = sc_table_rank(table, action.stage, action.mb);
    bool is_second = action.op == SC_OP_REDUCE_GRAD && table->odd_rank_of_stage != NULL &&
                     table->odd_rank_of_stage[action.stage] == rank;
    if (action.op == SC_OP_REDUCE_GRAD) {
        stage_rank = is_second ? rank : table->rank_of_stage[action.stage];
    }
    if (stage_rank != rank) {
        return sc_status_fail(err, SC_INVALID, "%s: stage %d is placed on rank %d, not on rank %d",
                              sc_action_format(action, text, sizeof text), action.stage, stage_rank,
                              rank);
    }
    return SC_OK;
}

static sc_status check_row(const sc_table *table, int rank, sc_place *place, sc_err *err)
{
    const sc_row *row = &table->rows[rank];
    *place = (sc_place){rank, -1};
    if (row->n_actions > INT_MAX - 1) {
        return sc_status_fail(err, SC_LIMIT, "a row of more than %d cells", INT_MAX - 1);
    }
    for (size_t i = 0; i < row->n_actions; i++) {
        *place = (sc_place){rank, (int)i};
        SC_TRY(check_action(table, rank, row->actions[i], err));
    }
    return SC_OK;
}

/* Enters one compute action; refuses a second one of its kind. */
static sc_status enter(const sc_table *table, sc_cover *cover, sc_action action, int cell,
                       sc_err *err)
{
    if (!sc_action_is_compute(action.op)) {
        return SC_OK;
    }
    size_t pair = sc_cover_pair(table, action.stage, action.mb);
    int *slot = &cover->f[pair];
    if (action.op == SC_OP_B || action.op == SC_OP_I) {
        slot = &cover->back[pair];
    } else if (action.op == SC_OP_W) {
        slot = &cover->w[pair];
    }
    int other = *slot;
    if (other == 0 && action.op == SC_OP_W) {
        other = cover->back[pair];
    } else if (other == 0 && action.op == SC_OP_B) {
        other = cover->w[pair];
    }
    if (other != 0) {
        const sc_row *row = &table->rows[sc_table_rank(table, action.stage, action.mb)];
        sc_action first = row->actions[other - 1];
        char text[SC_ACTION_TEXT_MAX];
        char first_text[SC_ACTION_TEXT_MAX];
        (void)sc_action_format(action, text, sizeof text);
        if (first.op == action.op) {
            return sc_status_fail(err, SC_INVALID, "duplicate %s; cell %d has it already", text,
                                  other - 1);
        }
        bool is_clash = first.op == SC_OP_B || action.op == SC_OP_B;
        if (is_clash) {
            return sc_status_fail(
                err, SC_INVALID, "%s beside %s of cell %d: a backward is either B, or I and then W",
                text, sc_action_format(first, first_text, sizeof first_text), other - 1);
        }
    }
    *slot = cell + 1;
    return SC_OK;
}

static sc_status enter_row(const sc_table *table, sc_cover *cover, int rank, sc_place *place,
                           sc_err *err)
{
    const sc_row *row = &table->rows[rank];
    for (size_t i = 0; i < row->n_actions; i++) {
        *place = (sc_place){rank, (int)i};
        SC_TRY(enter(table, cover, row->actions[i], (int)i, err));
    }
    return SC_OK;
}

/* Exactly one F of every stage and microbatch. */
static sc_status check_forwards(const sc_table *table, const sc_cover *cover, sc_place *place,
                                sc_err *err)
{
    for (int stage = 0; stage < table->n_stages; stage++) {
        for (int mb = 0; mb < table->n_mb; mb++) {
            size_t pair = sc_cover_pair(table, stage, mb);
            if (cover->f[pair] != 0) {
                continue;
            }
            int cell = cover->back[pair] != 0 ? cover->back[pair] : cover->w[pair];
            *place = (sc_place){sc_table_rank(table, stage, mb), cell - 1};
            return sc_status_fail(err, SC_INVALID,
                                  "missing forward: stage %d has no %dF%d; it needs one of each "
                                  "microbatch 0 to %d",
                                  stage, stage, mb, table->n_mb - 1);
        }
    }
    return SC_OK;
}

/* Exactly one B, or one I and one W, of every stage and microbatch. */
static sc_status check_backwards(const sc_table *table, const sc_cover *cover, sc_place *place,
                                 sc_err *err)
{
    for (int stage = 0; stage < table->n_stages; stage++) {
        for (int mb = 0; mb < table->n_mb; mb++) {
            int rank = sc_table_rank(table, stage, mb);
            const sc_row *row = &table->rows[rank];
            size_t pair = sc_cover_pair(table, stage, mb);
            int back = cover->back[pair];
            int w = cover->w[pair];
            *place = (sc_place){rank, cover->f[pair] - 1};
            if (back == 0 && w == 0) {
                return sc_status_fail(
                    err, SC_INVALID,
                    "missing backward: stage %d has %dF%d, but neither %dB%d nor %dI%d with %dW%d",
                    stage, stage, mb, stage, mb, stage, mb, stage, mb);
            }
            if (back == 0) {
                place->cell = w - 1;
                return sc_status_fail(err, SC_INVALID,
                                      "missing backward: stage %d has %dW%d, but no %dI%d", stage,
                                      stage, mb, stage, mb);
            }
            if (w == 0 && row->actions[back - 1].op == SC_OP_I) {
                place->cell = back - 1;
                return sc_status_fail(err, SC_INVALID,
                                      "missing backward: stage %d has %dI%d, but no %dW%d", stage,
                                      stage, mb, stage, mb);
            }
        }
    }
    return SC_OK;
}

/* F before B or I, I before W. */
static sc_status check_order(const sc_table *table, const sc_cover *cover, sc_place *place,
                             sc_err *err)
{
    for (int rank = 0; rank < table->n_ranks; rank++) {
        const sc_row *row = &table->rows[rank];
        for (size_t i = 0; i < row->n_actions; i++) {
            sc_action action = row->actions[i];
            if (!sc_action_is_backward(action.op)) {
                continue;
            }
            size_t pair = sc_cover_pair(table, action.stage, action.mb);
            int before = action.op == SC_OP_W ? cover->back[pair] : cover->f[pair];
            if (before > (int)i) {
                *place = (sc_place){rank, (int)i};
                char text[SC_ACTION_TEXT_MAX];
                char before_text[SC_ACTION_TEXT_MAX];
                return sc_status_fail(
                    err, SC_INVALID, "%s before its %s of cell %d",
                    sc_action_format(action, text, sizeof text),
                    sc_action_format(row->actions[before - 1], before_text, sizeof before_text),
                    before - 1);
            }
        }
    }
    return SC_OK;
}

sc_status sc_cover_make(const sc_table *table, sc_cover *out, sc_place *place, sc_err *err)
{
    sc_status status = SC_OK;
    sc_cover cover = {0};
    SC_GOTO(check_placement(table, place, err));
    for (int rank = 0; rank < table->n_ranks; rank++) {
        SC_GOTO(check_row(table, rank, place, err));
    }
    // calloc leaves pages alone that no action touches, so a short table of a large size is cheap.
    size_t n_pairs = (size_t)table->n_stages * (size_t)table->n_mb;
    cover.f = calloc(n_pairs, sizeof *cover.f);
    cover.back = calloc(n_pairs, sizeof *cover.back);
    cover.w = calloc(n_pairs, sizeof *cover.w);
    if (cover.f == NULL || cover.back == NULL || cover.w == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages x %d microbatches",
                                table->n_stages, table->n_mb);
        goto out;
    }
    for (int rank = 0; rank < table->n_ranks; rank++) {
        SC_GOTO(enter_row(table, &cover, rank, place, err));
    }
    SC_GOTO(check_forwards(table, &cover, place, err));
    if (!table->is_forward_only) {
        SC_GOTO(check_backwards(table, &cover, place, err));
    }
    SC_GOTO(check_order(table, &cover, place, err));
    *out = cover;
    cover = (sc_cover){0};
out:
    sc_cover_done(&cover);
    return status;
}
