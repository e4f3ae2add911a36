#include "schedules/csv_scan.h"

#include "schedules/csv.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* One line under way. */
typedef struct sc_line {
    sc_csv_scan *scan;
    const char *path;
    const char *text; // without the line's end
    size_t n;
    int number; // from 1
} sc_line;

static const char KEYS[] = "version, name, p, stages, m, placement, odd_placement";

static sc_status fail_at(const sc_line *line, size_t at, sc_status status, sc_err *err)
{
    return sc_status_prefix(err, status, "%s:%d:%zu", line->path, line->number, at + 1);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static sc_status grow(void **list, size_t item_bytes, size_t capacity, sc_err *err)
{
    void *grown = realloc(*list, capacity * item_bytes);
    if (grown == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %zu cells", capacity);
    }
    *list = grown;
    return SC_OK;
}

static sc_status add_cell(const sc_line *line, size_t at, sc_action action, sc_err *err)
{
    sc_csv_scan *scan = line->scan;
    if (scan->n_cells == SC_CSV_CELLS_MAX) {
        (void)sc_status_fail(err, SC_LIMIT, "more than %d actions", SC_CSV_CELLS_MAX);
        return fail_at(line, at, SC_LIMIT, err);
    }
    if (scan->n_cells == scan->capacity) {
        size_t capacity = scan->capacity == 0 ? 256 : 2 * scan->capacity;
        SC_TRY(grow((void **)&scan->cells, sizeof *scan->cells, capacity, err));
        scan->capacity = capacity;
    }
    scan->cells[scan->n_cells++] =
        (sc_csv_cell){action, scan->n_rows - 1, line->number, (int)(at + 1)};
    return SC_OK;
}

static sc_status add_row(const sc_line *line, sc_err *err)
{
    sc_csv_scan *scan = line->scan;
    if (scan->n_rows == SC_CSV_ROWS_MAX) {
        (void)sc_status_fail(err, SC_LIMIT, "more than %d rows", SC_CSV_ROWS_MAX);
        return fail_at(line, 0, SC_LIMIT, err);
    }
    if (scan->n_rows == scan->row_capacity) {
        int capacity = scan->row_capacity == 0 ? 16 : 2 * scan->row_capacity;
        SC_TRY(grow((void **)&scan->row_lines, sizeof(int), (size_t)capacity, err));
        scan->row_capacity = capacity;
    }
    scan->row_lines[scan->n_rows++] = line->number;
    return SC_OK;
}

/* Parses one action of [at, end) and adds it. */
static sc_status scan_action(const sc_line *line, size_t at, size_t end, sc_err *err)
{
    while (at < end && is_space(line->text[at])) {
        at++;
    }
    sc_action action;
    sc_status status = sc_action_parse(line->text + at, end - at, &action, err);
    if (status != SC_OK) {
        return fail_at(line, at, status, err);
    }
    return add_cell(line, at, action, err);
}

/* "(a;b)OVERLAP_F_B": two actions that may overlap; here a then b. */
static sc_status scan_pair(const sc_line *line, size_t at, size_t end, sc_err *err)
{
    static const char TAIL[] = "OVERLAP_F_B";
    const char *text = line->text;
    const char *close = memchr(text + at, ')', end - at);
    const char *semicolon = memchr(text + at, ';', end - at);
    char quoted[64];
    bool is_pair = close != NULL && semicolon != NULL && semicolon < close &&
                   (size_t)(text + end - close - 1) == sizeof TAIL - 1 &&
                   memcmp(close + 1, TAIL, sizeof TAIL - 1) == 0;
    if (!is_pair) {
        (void)sc_status_fail(err, SC_INVALID, "%s: a pair is written (0F7;7B3)OVERLAP_F_B",
                             sc_action_quote(text + at, end - at, quoted, sizeof quoted));
        return fail_at(line, at, SC_INVALID, err);
    }
    SC_TRY(scan_action(line, at + 1, (size_t)(semicolon - text), err));
    SC_TRY(scan_action(line, (size_t)(semicolon - text) + 1, (size_t)(close - text), err));
    const sc_csv_cell *cells = line->scan->cells + line->scan->n_cells - 2;
    if (cells[0].action.op != SC_OP_F ||
        (cells[1].action.op != SC_OP_B && cells[1].action.op != SC_OP_I)) {
        (void)sc_status_fail(err, SC_INVALID, "%s: a pair is an F, then a B or I",
                             sc_action_quote(text + at, end - at, quoted, sizeof quoted));
        return fail_at(line, at, SC_INVALID, err);
    }
    return SC_OK;
}

/* "3UNSHARD" and "3RESHARD" are about where parameters live: nothing to schedule here. */
static bool is_ignored(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n && text[at] >= '0' && text[at] <= '9') {
        at++;
    }
    return at > 0 && at <= 4 && n - at == 7 &&
           (memcmp(text + at, "UNSHARD", 7) == 0 || memcmp(text + at, "RESHARD", 7) == 0);
}

/* What stands between two commas. */
static sc_status scan_cell(const sc_line *line, size_t at, size_t end, sc_err *err)
{
    while (at < end && is_space(line->text[at])) {
        at++;
    }
    while (end > at && is_space(line->text[end - 1])) {
        end--;
    }
    if (at == end || is_ignored(line->text + at, end - at)) {
        return SC_OK;
    }
    if (line->text[at] == '(') {
        return scan_pair(line, at, end, err);
    }
    return scan_action(line, at, end, err);
}

static sc_status scan_row(const sc_line *line, sc_err *err)
{
    SC_TRY(add_row(line, err));
    size_t at = 0;
    while (at < line->n) {
        const char *comma = memchr(line->text + at, ',', line->n - at);
        size_t next = comma == NULL ? line->n : (size_t)(comma - line->text);
        SC_TRY(scan_cell(line, at, next, err));
        at = next + 1;
    }
    return SC_OK;
}

/* A number of [*at, n) with spaces or a comma behind it; at most `max`. */
static sc_status scan_number(const sc_line *line, size_t *at, int max, int *out, sc_err *err)
{
    size_t first = *at;
    int value = 0;
    bool is_number = false;
    while (*at < line->n && line->text[*at] >= '0' && line->text[*at] <= '9' && value <= max) {
        value = 10 * value + (line->text[(*at)++] - '0');
        is_number = true;
    }
    bool ends = *at == line->n || is_space(line->text[*at]) || line->text[*at] == ',';
    if (!is_number || !ends || value > max) {
        char quoted[64];
        (void)sc_status_fail(
            err, SC_INVALID, "%s: expected a number of at most %d",
            sc_action_quote(line->text + first, line->n - first, quoted, sizeof quoted), max);
        return fail_at(line, first, SC_INVALID, err);
    }
    while (*at < line->n && is_space(line->text[*at])) {
        (*at)++;
    }
    *out = value;
    return SC_OK;
}

/* A key's only number, from 1 on: versions and sizes begin there. */
static sc_status set_number(const sc_line *line, size_t at, int max, sc_csv_key *key, sc_err *err)
{
    size_t first = at;
    SC_TRY(scan_number(line, &at, max, &key->number, err));
    if (at != line->n) {
        (void)sc_status_fail(err, SC_INVALID, "one number expected, and nothing behind it");
        return fail_at(line, at, SC_INVALID, err);
    }
    if (key->number == 0) {
        (void)sc_status_fail(err, SC_INVALID, "0: expected a number from 1 to %d", max);
        return fail_at(line, first, SC_INVALID, err);
    }
    key->line = line->number;
    key->column = (int)(first + 1);
    return SC_OK;
}

/* "0 1 1 0" or "0,1,1,0": the rank of stage 0, 1, ... */
static sc_status set_placement(const sc_line *line, size_t at, sc_csv_key *key, int **ranks,
                               sc_err *err)
{
    *key = (sc_csv_key){0, line->number, (int)(at + 1)};
    *ranks = calloc(SC_STAGES_MAX, sizeof(int));
    if (*ranks == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for a placement");
    }
    while (at < line->n || key->number == 0) {
        int rank = 0;
        size_t first = at;
        SC_TRY(scan_number(line, &at, SC_STAGES_MAX - 1, &rank, err));
        if (key->number == SC_STAGES_MAX) {
            (void)sc_status_fail(err, SC_LIMIT, "more than %d stages", SC_STAGES_MAX);
            return fail_at(line, first, SC_LIMIT, err);
        }
        (*ranks)[key->number++] = rank;
        if (at < line->n && line->text[at] == ',') {
            at++;
            while (at < line->n && is_space(line->text[at])) {
                at++;
            }
        }
    }
    return SC_OK;
}

static sc_status set_name(const sc_line *line, size_t at, sc_err *err)
{
    sc_csv_scan *scan = line->scan;
    size_t n = line->n - at;
    bool is_plain = n > 0 && n < sizeof scan->name;
    for (size_t i = 0; i < n && is_plain; i++) {
        is_plain = line->text[at + i] >= 0x20 && line->text[at + i] < 0x7f;
    }
    if (!is_plain) {
        (void)sc_status_fail(err, SC_INVALID, "a name is 1 to %zu printable characters",
                             sizeof scan->name - 1);
        return fail_at(line, at, SC_INVALID, err);
    }
    memcpy(scan->name, line->text + at, n);
    scan->name[n] = '\0';
    return SC_OK;
}

static bool is_key(const char *text, size_t n, const char *key)
{
    return strlen(key) == n && memcmp(text, key, n) == 0;
}

static sc_status set_key(const sc_line *line, size_t at, size_t n_key, size_t value, sc_err *err)
{
    sc_csv_scan *scan = line->scan;
    const char *key = line->text + at;
    const struct {
        const char *name;
        sc_csv_key *key;
        int max;
    } numbers[] = {
        {"version", &scan->version, 1},
        {"p", &scan->p, SC_CSV_ROWS_MAX},
        {"stages", &scan->stages, SC_STAGES_MAX},
        {"m", &scan->m, SC_MICROBATCHES_MAX},
    };
    bool is_second = (is_key(key, n_key, "name") && scan->name[0] != '\0') ||
                     (is_key(key, n_key, "placement") && scan->placement.line != 0) ||
                     (is_key(key, n_key, "odd_placement") && scan->odd_placement.line != 0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        is_second = is_second || (is_key(key, n_key, numbers[i].name) && numbers[i].key->line != 0);
    }
    if (is_second) {
        (void)sc_status_fail(err, SC_INVALID, "key \"%.*s\" a second time", (int)n_key, key);
        return fail_at(line, at, SC_INVALID, err);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (is_key(key, n_key, numbers[i].name)) {
            return set_number(line, value, numbers[i].max, numbers[i].key, err);
        }
    }
    if (is_key(key, n_key, "placement")) {
        return set_placement(line, value, &scan->placement, &scan->placement_ranks, err);
    }
    if (is_key(key, n_key, "odd_placement")) {
        return set_placement(line, value, &scan->odd_placement, &scan->odd_placement_ranks, err);
    }
    if (is_key(key, n_key, "name")) {
        return set_name(line, value, err);
    }
    char quoted[64];
    (void)sc_status_fail(err, SC_INVALID,
                         "unknown key %s; the keys are %s (write other comments without a colon)",
                         sc_action_quote(key, n_key, quoted, sizeof quoted), KEYS);
    return fail_at(line, at, SC_INVALID, err);
}

/* A comment; "word:" at its beginning makes it a key with a value. */
static sc_status scan_comment(sc_line *line, sc_err *err)
{
    size_t at = 1;
    while (at < line->n && is_space(line->text[at])) {
        at++;
    }
    while (line->n > at && is_space(line->text[line->n - 1])) {
        line->n--;
    }
    size_t end = at;
    while (end < line->n &&
           ((line->text[end] >= 'a' && line->text[end] <= 'z') ||
            (line->text[end] >= 'A' && line->text[end] <= 'Z') || line->text[end] == '_')) {
        end++;
    }
    if (end == at || end == line->n || line->text[end] != ':') {
        return SC_OK;
    }
    size_t value = end + 1;
    while (value < line->n && is_space(line->text[value])) {
        value++;
    }
    return set_key(line, at, end - at, value, err);
}

static bool is_blank(const sc_line *line)
{
    for (size_t i = 0; i < line->n; i++) {
        if (!is_space(line->text[i])) {
            return false;
        }
    }
    return true;
}

/* One line; *blank remembers a blank line, behind which no row may come. */
static sc_status scan_line(sc_line *line, int *blank, sc_err *err)
{
    if (is_blank(line)) {
        if (*blank == 0 && line->scan->n_rows > 0) {
            *blank = line->number;
        }
        return SC_OK;
    }
    if (line->text[0] == '#') {
        return scan_comment(line, err);
    }
    if (*blank != 0) {
        line->number = *blank;
        (void)sc_status_fail(err, SC_INVALID,
                             "empty line between rows: each rank has a row of actions; remove it");
        return fail_at(line, 0, SC_INVALID, err);
    }
    return scan_row(line, err);
}

sc_status sc_csv_scan_run(const char *text, size_t n, const char *path, sc_csv_scan *out,
                          sc_err *err)
{
    *out = (sc_csv_scan){.version = {-1, 0, 0},
                         .p = {-1, 0, 0},
                         .stages = {-1, 0, 0},
                         .m = {-1, 0, 0},
                         .placement = {-1, 0, 0},
                         .odd_placement = {-1, 0, 0}};
    sc_line line = {.scan = out, .path = path};
    if (n > SC_CSV_BYTES_MAX) {
        line.number = 1;
        (void)sc_status_fail(err, SC_LIMIT, "more than %d bytes", SC_CSV_BYTES_MAX);
        return fail_at(&line, 0, SC_LIMIT, err);
    }
    int blank = 0;
    size_t at = 0;
    while (at < n) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t next = end == NULL ? n : (size_t)(end - text);
        line.text = text + at;
        line.n = next - at;
        line.number++;
        if (end != NULL && line.n > 0 && line.text[line.n - 1] == '\r') {
            line.n--;
        }
        SC_TRY(scan_line(&line, &blank, err));
        at = next + 1;
    }
    if (out->n_rows == 0) {
        line.number = line.number == 0 ? 1 : line.number;
        (void)sc_status_fail(err, SC_INVALID,
                             "no rows: one line a rank is expected, as in 0F0,0B0");
        return fail_at(&line, 0, SC_INVALID, err);
    }
    return SC_OK;
}

void sc_csv_scan_done(sc_csv_scan *scan)
{
    free(scan->cells);
    free(scan->row_lines);
    free(scan->placement_ranks);
    free(scan->odd_placement_ranks);
    *scan = (sc_csv_scan){0};
}
