#include "cli/comparison.h"

#include "schedules/text.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CELL_MAX = 64,
    COLUMNS_MAX = 32,
    GAP = 2 // spaces between columns
};

struct sc_comparison {
    cJSON *schedules; // the summary's list
};

typedef enum cell_type {
    CELL_COUNT,
    CELL_MS,
    CELL_RATE,
    CELL_SHARE,
    CELL_BYTES,
    CELL_LOSS,
    CELL_SPREAD // from key to key_high; neither need be there
} cell_type;

typedef struct column {
    const char *title;
    const char *section; // object that holds the key; NULL: the entry itself
    const char *key;
    cell_type type;
    const char *key_high; // of a spread
} column;

static const column COLUMNS[] = {
    {"v", NULL, "v", CELL_COUNT, NULL},
    {"step ms", NULL, "step_ms", CELL_MS, NULL},
    {"tokens/s", NULL, "tokens_per_second", CELL_RATE, NULL},
    {"bubble", "bubble", "measured", CELL_SHARE, NULL},
    {"min..max", "bubble", "measured_min", CELL_SPREAD, "measured_max"},
    {"simulated", "bubble", "simulated", CELL_SHARE, NULL},
    {"closed form", "bubble", "closed_form", CELL_SHARE, NULL},
    {"peak activations", "activation_bytes", "measured", CELL_BYTES, NULL},
    {"planned", "activation_bytes", "planned", CELL_BYTES, NULL},
    {"final loss", NULL, "final_loss", CELL_LOSS, NULL},
};

enum {
    N_COLUMNS = sizeof COLUMNS / sizeof COLUMNS[0]
};

static const cJSON *find(const cJSON *row, const char *section, const char *key)
{
    const cJSON *from = section == NULL ? row : cJSON_GetObjectItemCaseSensitive(row, section);
    return cJSON_GetObjectItemCaseSensitive(from, key);
}

static const cJSON *find_causes(const cJSON *row)
{
    return find(row, NULL, "causes_ms");
}

static const char *name_of(const cJSON *row)
{
    return cJSON_GetStringValue(find(row, NULL, "name"));
}

/* The causes are those of `first`, in its order. */
static sc_status check_causes(const cJSON *row, const cJSON *first, sc_err *err)
{
    const cJSON *causes = find_causes(row);
    int n = cJSON_GetArraySize(causes);
    if (!cJSON_IsObject(causes) || n < 1 || n > COLUMNS_MAX) {
        return sc_status_fail(err, SC_INVALID, "causes_ms is no list of 1 to %d times",
                              (int)COLUMNS_MAX);
    }
    const cJSON *expected = find_causes(first)->child;
    for (const cJSON *cause = causes->child; cause != NULL; cause = cause->next) {
        if (!cJSON_IsNumber(cause) || expected == NULL ||
            strcmp(cause->string, expected->string) != 0) {
            return sc_status_fail(err, SC_INVALID, "causes_ms.%s is no number or out of place",
                                  cause->string);
        }
        expected = expected->next;
    }
    return expected == NULL
               ? SC_OK
               : sc_status_fail(err, SC_INVALID, "causes_ms.%s is missing", expected->string);
}

static sc_status check_row(const cJSON *row, const cJSON *first, sc_err *err)
{
    if (name_of(row) == NULL) {
        return sc_status_fail(err, SC_INVALID, "name is missing");
    }
    for (size_t i = 0; i < N_COLUMNS; i++) {
        const column *c = &COLUMNS[i];
        const cJSON *item = find(row, c->section, c->key);
        if (c->type != CELL_SPREAD && !cJSON_IsNumber(item) && !cJSON_IsNull(item)) {
            return sc_status_fail(err, SC_INVALID, "%s%s%s is missing or no number",
                                  c->section != NULL ? c->section : "",
                                  c->section != NULL ? "." : "", c->key);
        }
    }
    return check_causes(row, first, err);
}

static sc_status check_schedules(const cJSON *schedules, sc_err *err)
{
    int i = 0;
    if (!cJSON_IsArray(schedules) || schedules->child == NULL) {
        return sc_status_fail(err, SC_INVALID, "no list of schedules that ran");
    }
    for (const cJSON *row = schedules->child; row != NULL; row = row->next) {
        sc_status status = check_row(row, schedules->child, err);
        if (status != SC_OK) {
            return sc_status_prefix(err, status, "schedules[%d]", i);
        }
        i++;
    }
    return SC_OK;
}

sc_status sc_comparison_read(const char *json, size_t n, sc_comparison **out, sc_err *err)
{
    sc_status status = SC_OK;
    cJSON *summary = cJSON_ParseWithLength(json, n);
    cJSON *schedules = cJSON_GetObjectItemCaseSensitive(summary, "schedules");
    SC_GOTO(check_schedules(schedules, err));
    sc_comparison *comparison = calloc(1, sizeof *comparison);
    if (comparison == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "comparison: out of memory");
        goto out;
    }
    comparison->schedules = cJSON_DetachItemViaPointer(summary, schedules);
    *out = comparison;
out:
    cJSON_Delete(summary);
    return status;
}

void sc_comparison_free(sc_comparison **comparison)
{
    if (*comparison != NULL) {
        cJSON_Delete((*comparison)->schedules);
        free(*comparison);
        *comparison = NULL;
    }
}

/* One table: cells (n_rows)(n_columns), row by row; the first row is the titles. */
typedef struct grid {
    char (*cells)[CELL_MAX];
    size_t n_rows;
    size_t n_columns;
} grid;

static sc_status init_grid(grid *g, size_t n_rows, size_t n_columns, sc_err *err)
{
    g->cells = calloc(n_rows * n_columns, sizeof *g->cells);
    g->n_rows = n_rows;
    g->n_columns = n_columns;
    return g->cells != NULL ? SC_OK
                            : sc_status_fail(err, SC_NO_MEMORY, "comparison: out of memory");
}

static void set_cell(grid *g, size_t row, size_t at, const char *text)
{
    snprintf(g->cells[row * g->n_columns + at], CELL_MAX, "%s", text);
}

static int column_width(const grid *g, size_t at)
{
    size_t width = 0;
    for (size_t row = 0; row < g->n_rows; row++) {
        size_t n = strlen(g->cells[row * g->n_columns + at]);
        width = n > width ? n : width;
    }
    return (int)width;
}

/* Texts in the first column stand left, numbers right. */
static void add_grid(sc_text *text, const grid *g)
{
    assert(g->cells != NULL);
    for (size_t row = 0; row < g->n_rows; row++) {
        for (size_t at = 0; at < g->n_columns; at++) {
            const char *cell = g->cells[row * g->n_columns + at];
            int width = column_width(g, at);
            if (at == 0) {
                sc_text_add(text, "%-*s", width, cell);
            } else {
                sc_text_add(text, "%*s", width + GAP, cell);
            }
        }
        sc_text_add(text, "\n");
    }
}

static void format_bytes(double bytes, char *out, size_t n)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024.0 && unit + 1 < sizeof UNITS / sizeof UNITS[0]) {
        bytes /= 1024.0;
        unit++;
    }
    snprintf(out, n, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, UNITS[unit]);
}

static void format_cell(const cJSON *item, cell_type type, char *out, size_t n)
{
    if (!cJSON_IsNumber(item)) {
        snprintf(out, n, "-");
        return;
    }
    double value = item->valuedouble;
    switch (type) {
    case CELL_COUNT:
        snprintf(out, n, "%g", value);
        break;
    case CELL_MS:
        snprintf(out, n, "%.2f", value);
        break;
    case CELL_RATE:
        snprintf(out, n, "%.1f", value);
        break;
    case CELL_SPREAD:
    case CELL_SHARE:
        snprintf(out, n, "%.2f %%", 100.0 * value);
        break;
    case CELL_BYTES:
        format_bytes(value, out, n);
        break;
    case CELL_LOSS:
        snprintf(out, n, "%.6f", value);
        break;
    }
}

static void format_column(const cJSON *row, const column *c, char *out, size_t n)
{
    const cJSON *item = find(row, c->section, c->key);
    const cJSON *high = c->type == CELL_SPREAD ? find(row, c->section, c->key_high) : NULL;
    if (high != NULL && cJSON_IsNumber(item) && cJSON_IsNumber(high)) {
        snprintf(out, n, "%.2f..%.2f %%", 100.0 * item->valuedouble, 100.0 * high->valuedouble);
    } else {
        format_cell(item, c->type, out, n);
    }
}

static sc_status add_results(const cJSON *schedules, sc_text *text, sc_err *err)
{
    grid g;
    SC_TRY(init_grid(&g, (size_t)cJSON_GetArraySize(schedules) + 1, N_COLUMNS + 1, err));
    set_cell(&g, 0, 0, "schedule");
    for (size_t i = 0; i < N_COLUMNS; i++) {
        size_t at = 0;
        set_cell(&g, 0, i + 1, COLUMNS[i].title);
        for (const cJSON *row = schedules->child; row != NULL; row = row->next) {
            char cell[CELL_MAX];
            format_column(row, &COLUMNS[i], cell, sizeof cell);
            at++;
            set_cell(&g, at, 0, name_of(row));
            set_cell(&g, at, i + 1, cell);
        }
    }
    add_grid(text, &g);
    free(g.cells);
    return SC_OK;
}

static sc_status add_causes(const cJSON *schedules, sc_text *text, sc_err *err)
{
    grid g;
    size_t n_causes = (size_t)cJSON_GetArraySize(find_causes(schedules->child));
    SC_TRY(init_grid(&g, (size_t)cJSON_GetArraySize(schedules) + 1, n_causes + 1, err));
    set_cell(&g, 0, 0, "ms by cause");
    size_t at = 0;
    for (const cJSON *row = schedules->child; row != NULL; row = row->next) {
        size_t i = 0;
        set_cell(&g, ++at, 0, name_of(row));
        for (const cJSON *cause = find_causes(row)->child; cause != NULL; cause = cause->next) {
            char cell[CELL_MAX];
            format_cell(cause, CELL_MS, cell, sizeof cell);
            set_cell(&g, 0, ++i, cause->string);
            set_cell(&g, at, i, cell);
        }
    }
    add_grid(text, &g);
    free(g.cells);
    return SC_OK;
}

sc_status sc_comparison_format(const sc_comparison *comparison, char **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_text text = {0};
    SC_GOTO(add_results(comparison->schedules, &text, err));
    sc_text_add(&text, "\n");
    SC_GOTO(add_causes(comparison->schedules, &text, err));
    SC_GOTO(sc_text_take(&text, out, err));
out:
    sc_text_free(&text);
    return status;
}

/* Gives numbers the shortest text that reads back as the same bits; cJSON's own drops the last one.
   False when out of memory. */
static bool keep_bits(cJSON *item)
{
    for (cJSON *child = item->child; child != NULL; child = child->next) {
        if (!keep_bits(child)) {
            return false;
        }
    }
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) {
        return true;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, item->valuedouble);
        if (strtod(text, NULL) == item->valuedouble) {
            break;
        }
    }
    item->valuestring = strdup(text);
    item->type = cJSON_Raw;
    return item->valuestring != NULL;
}

sc_status sc_comparison_json(const sc_comparison *comparison, const char *run_dir, char **out,
                             sc_err *err)
{
    sc_status status = SC_OK;
    cJSON *object = cJSON_CreateObject();
    char *text = NULL;
    cJSON *schedules = cJSON_Duplicate(comparison->schedules, 1);
    if (cJSON_AddStringToObject(object, "run_dir", run_dir) != NULL && schedules != NULL &&
        keep_bits(schedules) && cJSON_AddItemToObject(object, "schedules", schedules)) {
        schedules = NULL;
        text = cJSON_Print(object);
    }
    cJSON_Delete(schedules);
    if (text == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "comparison: out of memory");
    } else {
        *out = text; // cJSON's allocator is malloc unless somebody hooks it
    }
    cJSON_Delete(object);
    return status;
}
