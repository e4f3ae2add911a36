#include "schedules/table.h"

#include "schedules/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sc_status sc_table_new(const char *name, int n_ranks, int n_stages, int n_mb, sc_table **out,
                       sc_err *err)
{
    if (n_stages < 1 || n_stages > SC_STAGES_MAX || n_ranks < 1 || n_ranks > n_stages) {
        return sc_status_fail(err, SC_INVALID,
                              "a schedule of %d stages on %d ranks: needs 1 to %d stages and at "
                              "most as many ranks",
                              n_stages, n_ranks, SC_STAGES_MAX);
    }
    if (n_mb < 1 || n_mb > SC_MICROBATCHES_MAX || n_mb > SC_TABLE_PAIRS_MAX / n_stages) {
        return sc_status_fail(err, SC_INVALID,
                              "a schedule of %d microbatches on %d stages: needs 1 to %d "
                              "microbatches and at most %d pairs of stage and microbatch",
                              n_mb, n_stages, SC_MICROBATCHES_MAX, SC_TABLE_PAIRS_MAX);
    }
    sc_table *table = calloc(1, sizeof *table);
    if (table == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "a schedule: out of memory");
    }
    sc_arena_init(&table->arena, 0);
    (void)snprintf(table->name, sizeof table->name, "%s", name);
    table->n_ranks = n_ranks;
    table->n_stages = n_stages;
    table->n_mb = n_mb;
    table->rank_of_stage = sc_arena_alloc(&table->arena, (size_t)n_stages, sizeof(int));
    table->rows = sc_arena_alloc(&table->arena, (size_t)n_ranks, sizeof(sc_row));
    if (table->rank_of_stage == NULL || table->rows == NULL) {
        sc_table_free(&table);
        return sc_status_fail(err, SC_NO_MEMORY, "a schedule of %d stages: out of memory",
                              n_stages);
    }
    for (int stage = 0; stage < n_stages; stage++) {
        table->rank_of_stage[stage] = stage % n_ranks;
    }
    *out = table;
    return SC_OK;
}

static sc_status alloc_odd_ranks(sc_table *table, sc_err *err)
{
    table->odd_rank_of_stage = sc_arena_alloc(&table->arena, (size_t)table->n_stages, sizeof(int));
    if (table->odd_rank_of_stage == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "a schedule of %d stages: out of memory",
                              table->n_stages);
    }
    return SC_OK;
}

sc_status sc_table_replicate(sc_table *table, sc_err *err)
{
    SC_TRY(alloc_odd_ranks(table, err));
    for (int stage = 0; stage < table->n_stages; stage++) {
        table->odd_rank_of_stage[stage] = table->n_ranks - 1 - table->rank_of_stage[stage];
    }
    return SC_OK;
}

sc_status sc_table_place_like(sc_table *to, const sc_table *from, sc_err *err)
{
    assert(to->n_stages == from->n_stages && to->n_ranks == from->n_ranks);
    size_t n_bytes = (size_t)from->n_stages * sizeof(int);
    memcpy(to->rank_of_stage, from->rank_of_stage, n_bytes);
    if (from->odd_rank_of_stage == NULL) {
        to->odd_rank_of_stage = NULL;
        return SC_OK;
    }
    SC_TRY(alloc_odd_ranks(to, err));
    memcpy(to->odd_rank_of_stage, from->odd_rank_of_stage, n_bytes);
    return SC_OK;
}

int sc_table_rank(const sc_table *table, int stage, int mb)
{
    bool is_odd_way = table->odd_rank_of_stage != NULL && (mb & 1) != 0;
    return is_odd_way ? table->odd_rank_of_stage[stage] : table->rank_of_stage[stage];
}

int sc_table_n_replicas(const sc_table *table)
{
    return table->odd_rank_of_stage == NULL ? table->n_stages : 2 * table->n_stages;
}

int sc_table_replica(const sc_table *table, int stage, int rank)
{
    bool is_second = table->odd_rank_of_stage != NULL && rank == table->odd_rank_of_stage[stage];
    return is_second ? table->n_stages + stage : stage;
}

void sc_table_free(sc_table **table)
{
    if (*table != NULL) {
        sc_arena_done(&(*table)->arena);
        free(*table);
        *table = NULL;
    }
}

sc_status sc_table_append(sc_table *table, int rank, sc_action action, sc_err *err)
{
    assert(rank >= 0 && rank < table->n_ranks);
    sc_row *row = &table->rows[rank];
    if (row->n_actions == row->capacity) {
        // The arena keeps the old row: doubling bounds the loss by the final size.
        size_t capacity = row->capacity == 0 ? 16 : 2 * row->capacity;
        sc_action *grown = sc_arena_alloc(&table->arena, capacity, sizeof *grown);
        if (grown == NULL) {
            return sc_status_fail(err, SC_NO_MEMORY, "row of rank %d: out of memory", rank);
        }
        if (row->n_actions > 0) {
            memcpy(grown, row->actions, row->n_actions * sizeof *grown);
        }
        row->actions = grown;
        row->capacity = capacity;
    }
    row->actions[row->n_actions++] = action;
    return SC_OK;
}

static bool rows_equal(const sc_row *a, const sc_row *b)
{
    if (a->n_actions != b->n_actions) {
        return false;
    }
    for (size_t i = 0; i < a->n_actions; i++) {
        if (!sc_action_equals(a->actions[i], b->actions[i])) {
            return false;
        }
    }
    return true;
}

bool sc_table_equals(const sc_table *a, const sc_table *b)
{
    if (a->n_ranks != b->n_ranks || a->n_stages != b->n_stages || a->n_mb != b->n_mb ||
        a->is_lowered != b->is_lowered || a->is_forward_only != b->is_forward_only) {
        return false;
    }
    if ((a->odd_rank_of_stage == NULL) != (b->odd_rank_of_stage == NULL)) {
        return false;
    }
    // All microbatches go the way of microbatch 0 or of microbatch 1.
    for (int stage = 0; stage < a->n_stages; stage++) {
        if (sc_table_rank(a, stage, 0) != sc_table_rank(b, stage, 0) ||
            sc_table_rank(a, stage, 1) != sc_table_rank(b, stage, 1)) {
            return false;
        }
    }
    for (int rank = 0; rank < a->n_ranks; rank++) {
        if (!rows_equal(&a->rows[rank], &b->rows[rank])) {
            return false;
        }
    }
    return true;
}

sc_status sc_table_row_format(const sc_table *table, int rank, char **out, sc_err *err)
{
    assert(rank >= 0 && rank < table->n_ranks);
    const sc_row *row = &table->rows[rank];
    sc_text text = {0};
    for (size_t i = 0; i < row->n_actions; i++) {
        char cell[SC_ACTION_TEXT_MAX];
        sc_text_add(&text, "%s%s", i == 0 ? "" : ",",
                    sc_action_format(row->actions[i], cell, sizeof cell));
    }
    return sc_text_take(&text, out, err);
}

/* Appends the cell of [first, end) unless it is idle. */
static sc_status parse_cell(sc_table *table, int rank, const char *text, size_t first, size_t end,
                            sc_err *err)
{
    while (first < end && (text[first] == ' ' || text[first] == '\t')) {
        first++;
    }
    if (first == end) {
        return SC_OK;
    }
    sc_action action;
    sc_status status = sc_action_parse(text + first, end - first, &action, err);
    if (status != SC_OK) {
        return sc_status_prefix(err, status, "row of rank %d column %zu", rank, first + 1);
    }
    return sc_table_append(table, rank, action, err);
}

sc_status sc_table_row_parse(sc_table *table, int rank, const char *text, size_t n, sc_err *err)
{
    size_t at = 0;
    while (at < n) {
        const char *comma = memchr(text + at, ',', n - at);
        size_t end = comma == NULL ? n : (size_t)(comma - text);
        SC_TRY(parse_cell(table, rank, text, at, end, err));
        at = end + 1;
    }
    return SC_OK;
}
