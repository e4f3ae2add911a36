#include "schedules/csv.h"

#include "schedules/csv_scan.h"
#include "schedules/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct sc_reading {
    sc_csv_scan scan;
    const sc_csv_options *options;
    sc_table *table; // all cells of the file, communication too
    size_t *firsts;  // (n_rows) index of each row's first cell in scan.cells
    int *ranks;      // (n_stages) placement
} sc_reading;

static sc_status fail_at(const sc_reading *reading, int line, int column, sc_status status,
                         sc_err *err)
{
    return sc_status_prefix(err, status, "%s:%d:%d", reading->options->path, line, column);
}

static sc_status fail_at_cell(const sc_reading *reading, const sc_csv_cell *cell, sc_err *err)
{
    return fail_at(reading, cell->line, cell->column, SC_INVALID, err);
}

/* Sort key of a stage and microbatch. */
static uint64_t key_of(sc_action action)
{
    return (uint64_t)action.stage << 32 | (uint64_t)(uint32_t)action.mb;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorted keys of the file's cells of one operation; duplicates stay. malloc, caller frees. */
static sc_status sort_keys(const sc_csv_scan *scan, sc_op op, uint64_t **out, size_t *n_out,
                           sc_err *err)
{
    uint64_t *keys = malloc((scan->n_cells + 1) * sizeof *keys);
    if (keys == NULL) {
        (void)sc_status_fail(err, SC_NO_MEMORY, "out of memory for %zu cells", scan->n_cells);
        return SC_NO_MEMORY;
    }
    size_t n = 0;
    for (size_t i = 0; i < scan->n_cells; i++) {
        if (scan->cells[i].action.op == op) {
            keys[n++] = key_of(scan->cells[i].action);
        }
    }
    qsort(keys, n, sizeof *keys, compare_keys);
    *out = keys;
    *n_out = n;
    return SC_OK;
}

static const sc_csv_cell *find_op(const sc_csv_scan *scan, sc_op op)
{
    for (size_t i = 0; i < scan->n_cells; i++) {
        if (scan->cells[i].action.op == op) {
            return &scan->cells[i];
        }
    }
    return NULL;
}

/* Turns an older file's B into I. */
static sc_status read_as_legacy(sc_reading *reading, sc_err *err)
{
    sc_csv_scan *scan = &reading->scan;
    const sc_csv_cell *cell = find_op(scan, SC_OP_I);
    if (cell != NULL) {
        (void)sc_status_fail(
            err, SC_INVALID,
            "I beside the legacy dialect, in which B is the input gradient: a file "
            "with I is a new one; read it without --legacy");
        return fail_at_cell(reading, cell, err);
    }
    cell = find_op(scan, SC_OP_B);
    if (cell != NULL && find_op(scan, SC_OP_W) == NULL) {
        (void)sc_status_fail(err, SC_INVALID,
                             "B, but no W anywhere: B is the whole backward here; read the file "
                             "without --legacy");
        return fail_at_cell(reading, cell, err);
    }
    for (size_t i = 0; i < scan->n_cells; i++) {
        if (scan->cells[i].action.op == SC_OP_B) {
            scan->cells[i].action.op = SC_OP_I;
        }
    }
    return SC_OK;
}

/* Tells the dialects apart: refuses an older file unless it is read as one. */
static sc_status check_dialect(sc_reading *reading, sc_err *err)
{
    const sc_csv_scan *scan = &reading->scan;
    if (reading->options->is_legacy) {
        return read_as_legacy(reading, err);
    }
    if (find_op(scan, SC_OP_I) != NULL || find_op(scan, SC_OP_W) == NULL) {
        return SC_OK;
    }
    uint64_t *keys = NULL;
    size_t n = 0;
    SC_TRY(sort_keys(scan, SC_OP_B, &keys, &n, err));
    sc_status status = SC_OK;
    for (size_t i = 0; i < scan->n_cells && status == SC_OK; i++) {
        const sc_csv_cell *cell = &scan->cells[i];
        uint64_t key = key_of(cell->action);
        if (cell->action.op == SC_OP_W &&
            bsearch(&key, keys, n, sizeof *keys, compare_keys) != NULL) {
            char text[SC_ACTION_TEXT_MAX];
            (void)sc_status_fail(
                err, SC_INVALID,
                "%s beside %dB%d, and no I in the file: in older PyTorch files B is the input "
                "gradient, today it is the whole backward; read it with --legacy, or write I for B",
                sc_action_format(cell->action, text, sizeof text), cell->action.stage,
                cell->action.mb);
            status = fail_at_cell(reading, cell, err);
        }
    }
    free(keys);
    return status;
}

/* m of a file that does not say: what most stages have of different forwards; when several counts
   are as frequent, the one that the largest microbatch fits, or else the smallest. So one wrong
   cell is blamed, and not all the others. */
static sc_status guess_n_mb(const sc_csv_scan *scan, int n_stages, int *out, sc_err *err)
{
    uint64_t *keys = NULL;
    size_t n = 0;
    SC_TRY(sort_keys(scan, SC_OP_F, &keys, &n, err));
    uint64_t *counts = calloc((size_t)n_stages + 1, sizeof *counts);
    if (counts == NULL) {
        free(keys);
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages", n_stages);
    }
    uint64_t n_all = 1; // largest microbatch + 1
    for (size_t i = 0; i < n && keys[i] >> 32 < (uint64_t)n_stages; i++) {
        counts[keys[i] >> 32] += i == 0 || keys[i] != keys[i - 1];
        uint64_t needed = (keys[i] & UINT32_MAX) + 1;
        n_all = needed > n_all ? needed : n_all;
    }
    qsort(counts, (size_t)n_stages, sizeof *counts, compare_keys);
    uint64_t best = 1;
    int best_run = 0;
    int run = 0;
    for (int i = 0; i < n_stages; i++) {
        run = i > 0 && counts[i] == counts[i - 1] ? run + 1 : 1;
        bool is_better = run > best_run || (run == best_run && counts[i] == n_all);
        if (counts[i] > 0 && is_better) {
            best = counts[i];
            best_run = run;
        }
    }
    free(counts);
    free(keys);
    *out = (int)best;
    return SC_OK;
}

/* Number of stages of a file that does not say: what its cells name, without a gap and as many on
   each rank. */
static sc_status guess_n_stages(const sc_reading *reading, int *out, sc_err *err)
{
    const sc_csv_scan *scan = &reading->scan;
    bool *is_named = calloc(SC_STAGES_MAX, sizeof *is_named);
    if (is_named == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages", SC_STAGES_MAX);
    }
    const sc_csv_cell *last = NULL;
    for (size_t i = 0; i < scan->n_cells; i++) {
        is_named[scan->cells[i].action.stage] = true;
        if (last == NULL || scan->cells[i].action.stage > last->action.stage) {
            last = &scan->cells[i];
        }
    }
    int n_named = 0;
    while (n_named < SC_STAGES_MAX && is_named[n_named]) {
        n_named++;
    }
    free(is_named);
    if (last == NULL) {
        (void)sc_status_fail(err, SC_INVALID, "no action in any row");
        return fail_at(reading, scan->row_lines[0], 1, SC_INVALID, err);
    }
    char text[SC_ACTION_TEXT_MAX];
    (void)sc_action_format(last->action, text, sizeof text);
    int stage = last->action.stage;
    if (n_named <= stage) {
        (void)sc_status_fail(err, SC_INVALID,
                             "%s: unknown stage %d: stages count from 0, and no row has stage %d",
                             text, stage, n_named);
        return fail_at_cell(reading, last, err);
    }
    if (n_named % scan->n_rows != 0) {
        (void)sc_status_fail(err, SC_INVALID,
                             "%s: unknown stage %d: stages 0 to %d do not divide over %d ranks; if "
                             "they need not, say so in a line \"# stages: %d\"",
                             text, stage, stage, scan->n_rows, n_named);
        return fail_at_cell(reading, last, err);
    }
    *out = n_named;
    return SC_OK;
}

/* Fills reading->ranks from the header, or from the row in which each stage is found first. */
static sc_status find_placement(sc_reading *reading, int n_stages, sc_err *err)
{
    const sc_csv_scan *scan = &reading->scan;
    reading->ranks = malloc((size_t)n_stages * sizeof(int));
    if (reading->ranks == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages", n_stages);
    }
    if (scan->placement.line != 0) {
        if (scan->placement.number != n_stages) {
            (void)sc_status_fail(err, SC_INVALID, "placement of %d stages, but there are %d",
                                 scan->placement.number, n_stages);
            return fail_at(reading, scan->placement.line, scan->placement.column, SC_INVALID, err);
        }
        memcpy(reading->ranks, scan->placement_ranks, (size_t)n_stages * sizeof(int));
        return SC_OK;
    }
    for (int stage = 0; stage < n_stages; stage++) {
        reading->ranks[stage] = -1;
    }
    for (size_t i = 0; i < scan->n_cells; i++) {
        const sc_csv_cell *cell = &scan->cells[i];
        if (cell->action.stage < n_stages && reading->ranks[cell->action.stage] < 0) {
            reading->ranks[cell->action.stage] = cell->rank;
        }
    }
    for (int stage = 0; stage < n_stages; stage++) {
        if (reading->ranks[stage] < 0) {
            (void)sc_status_fail(err, SC_INVALID, "%d stages, but no row has stage %d", n_stages,
                                 stage);
            return fail_at(reading, scan->stages.line, scan->stages.column, SC_INVALID, err);
        }
    }
    return SC_OK;
}

/* The second placement, where the header has one. */
static sc_status set_odd_placement(const sc_reading *reading, sc_err *err)
{
    const sc_csv_scan *scan = &reading->scan;
    const sc_csv_key *key = &scan->odd_placement;
    sc_table *table = reading->table;
    if (key->line == 0) {
        return SC_OK;
    }
    if (scan->placement.line == 0 || key->number != table->n_stages) {
        (void)sc_status_fail(err, SC_INVALID,
                             scan->placement.line == 0
                                 ? "odd_placement of %d of %d stages without a placement, which is "
                                   "then that of even microbatches"
                                 : "odd_placement of %d stages, but there are %d",
                             key->number, table->n_stages);
        return fail_at(reading, key->line, key->column, SC_INVALID, err);
    }
    SC_TRY(sc_table_replicate(table, err));
    memcpy(table->odd_rank_of_stage, scan->odd_placement_ranks,
           (size_t)table->n_stages * sizeof(int));
    return SC_OK;
}

/* Sizes and placement, then an empty table of them. */
static sc_status make_table(sc_reading *reading, sc_err *err)
{
    const sc_csv_scan *scan = &reading->scan;
    if (scan->p.line != 0 && scan->p.number != scan->n_rows) {
        (void)sc_status_fail(err, SC_INVALID, "p is %d, but the file has %d rows", scan->p.number,
                             scan->n_rows);
        return fail_at(reading, scan->p.line, scan->p.column, SC_INVALID, err);
    }
    int n_stages = scan->stages.number;
    if (n_stages < 0) {
        n_stages = scan->placement.number;
    }
    if (n_stages < 0) {
        SC_TRY(guess_n_stages(reading, &n_stages, err));
    }
    int n_mb = scan->m.number;
    if (n_mb < 0) {
        SC_TRY(guess_n_mb(scan, n_stages, &n_mb, err));
    }
    const char *slash = strrchr(reading->options->path, '/');
    const char *name = slash != NULL ? slash + 1 : reading->options->path;
    name = scan->name[0] != '\0' ? scan->name : name;
    sc_status status = sc_table_new(name, scan->n_rows, n_stages, n_mb, &reading->table, err);
    if (status == SC_INVALID) {
        return fail_at(reading, scan->row_lines[0], 1, status, err);
    }
    SC_TRY(status);
    SC_TRY(find_placement(reading, n_stages, err));
    memcpy(reading->table->rank_of_stage, reading->ranks, (size_t)n_stages * sizeof(int));
    return set_odd_placement(reading, err);
}

/* All cells of the file into the table. */
static sc_status fill_table(sc_reading *reading, sc_err *err)
{
    const sc_csv_scan *scan = &reading->scan;
    sc_table *table = reading->table;
    reading->firsts = calloc((size_t)scan->n_rows, sizeof *reading->firsts);
    if (reading->firsts == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d rows", scan->n_rows);
    }
    bool has_backward = false;
    for (size_t i = 0; i < scan->n_cells; i++) {
        const sc_csv_cell *cell = &scan->cells[i];
        if (table->rows[cell->rank].n_actions == 0) {
            reading->firsts[cell->rank] = i;
        }
        has_backward = has_backward || sc_action_is_backward(cell->action.op);
        table->is_lowered = table->is_lowered || !sc_action_is_compute(cell->action.op);
        SC_TRY(sc_table_append(table, cell->rank, cell->action, err));
    }
    table->is_forward_only = !has_backward;
    return SC_OK;
}

/* Checks every rule; the place of a broken one becomes line and column. */
static sc_status check_table(const sc_reading *reading, sc_validate_report *report, sc_err *err)
{
    sc_place place;
    sc_status status = sc_validate_locate(reading->table, NULL, report, &place, err);
    if (status == SC_OK) {
        return SC_OK;
    }
    const sc_csv_scan *scan = &reading->scan;
    if (place.rank < 0) {
        int line = scan->placement.line != 0 ? scan->placement.line : scan->row_lines[0];
        int column = scan->placement.line != 0 ? scan->placement.column : 1;
        return fail_at(reading, line, column, status, err);
    }
    if (place.cell < 0) {
        return fail_at(reading, scan->row_lines[place.rank], 1, status, err);
    }
    const sc_csv_cell *cell = &scan->cells[reading->firsts[place.rank] + (size_t)place.cell];
    return fail_at(reading, cell->line, cell->column, status, err);
}

static sc_status copy_compute(const sc_row *row, int rank, sc_table *to, sc_err *err)
{
    sc_status status = SC_OK;
    for (size_t i = 0; i < row->n_actions && status == SC_OK; i++) {
        if (sc_action_is_compute(row->actions[i].op)) {
            status = sc_table_append(to, rank, row->actions[i], err);
        }
    }
    return status;
}

/* The table without its communication cells. */
static sc_status drop_communication(const sc_table *from, sc_table **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_table *table = NULL;
    SC_GOTO(sc_table_new(from->name, from->n_ranks, from->n_stages, from->n_mb, &table, err));
    table->is_forward_only = from->is_forward_only;
    SC_GOTO(sc_table_place_like(table, from, err));
    for (int rank = 0; rank < from->n_ranks; rank++) {
        SC_GOTO(copy_compute(&from->rows[rank], rank, table, err));
    }
    *out = table;
    table = NULL;
out:
    sc_table_free(&table);
    return status;
}

sc_status sc_csv_read(const char *text, size_t n, const sc_csv_options *options, sc_table **out,
                      sc_validate_report *report, sc_err *err)
{
    sc_status status = SC_OK;
    sc_reading reading = {.options = options};
    sc_validate_report found = {0};
    SC_GOTO(sc_csv_scan_run(text, n, options->path, &reading.scan, err));
    SC_GOTO(check_dialect(&reading, err));
    SC_GOTO(make_table(&reading, err));
    SC_GOTO(fill_table(&reading, err));
    SC_GOTO(check_table(&reading, report == NULL ? NULL : &found, err));
    if (reading.table->is_lowered) {
        SC_GOTO(drop_communication(reading.table, out, err));
    } else {
        *out = reading.table;
        reading.table = NULL;
    }
    if (report != NULL) {
        *report = found;
    }
out:
    free(reading.ranks);
    free(reading.firsts);
    sc_table_free(&reading.table);
    sc_csv_scan_done(&reading.scan);
    return status;
}

static void write_placement(const char *key, const int *ranks, int n_stages, sc_text *text)
{
    sc_text_add(text, "# %s:", key);
    for (int stage = 0; stage < n_stages; stage++) {
        sc_text_add(text, " %d", ranks[stage]);
    }
    sc_text_add(text, "\n");
}

static void write_header(const sc_table *table, sc_text *text)
{
    sc_text_add(text, "# Stagecoach schedule, one row a rank\n# version: 1\n");
    if (table->name[0] != '\0') {
        char name[sizeof table->name];
        memcpy(name, table->name, sizeof name);
        for (char *c = name; *c != '\0'; c++) {
            if (*c < 0x20 || *c >= 0x7f) {
                *c = '?'; // the name may be a file's
            }
        }
        sc_text_add(text, "# name: %s\n", name);
    }
    sc_text_add(text, "# p: %d\n# stages: %d\n# m: %d\n", table->n_ranks, table->n_stages,
                table->n_mb);
    write_placement("placement", table->rank_of_stage, table->n_stages, text);
    if (table->odd_rank_of_stage != NULL) {
        write_placement("odd_placement", table->odd_rank_of_stage, table->n_stages, text);
    }
}

sc_status sc_csv_write(const sc_table *table, bool has_header, char **out, sc_err *err)
{
    sc_text text = {0};
    if (has_header) {
        write_header(table, &text);
    } else if (table->odd_rank_of_stage != NULL) {
        return sc_status_fail(err, SC_UNSUPPORTED,
                              "%s has each stage on two ranks: rows alone cannot say so; write the "
                              "file with its comment lines",
                              table->name);
    }
    for (int rank = 0; rank < table->n_ranks; rank++) {
        char *row = NULL;
        sc_status status = sc_table_row_format(table, rank, &row, err);
        if (status != SC_OK) {
            sc_text_free(&text);
            return status;
        }
        sc_text_add_bytes(&text, row, strlen(row));
        sc_text_add(&text, "\n");
        free(row);
    }
    return sc_text_take(&text, out, err);
}
