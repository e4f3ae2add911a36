#include "coordinator/job_keys.h"

#include "coordinator/job_scalar.h"
#include "coordinator/job_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATH_MAX_BYTES = 64, // longer unknown paths get no suggestion
    NEAR = 3             // most edits between an unknown path and a suggestion
};

const sc_job_key *sc_job_keys_list(size_t *n_out)
{
    *n_out = SC_JOB_TABLE_ROWS;
    return sc_job_table_rows;
}

int sc_job_keys_find(const char *path)
{
    for (int i = 0; i < SC_JOB_TABLE_ROWS; i++) {
        if (strcmp(sc_job_table_rows[i].path, path) == 0) {
            return i;
        }
    }
    return -1;
}

bool sc_job_keys_is_section(const char *path)
{
    size_t n = strlen(path);
    for (int i = 0; n > 0 && i < SC_JOB_TABLE_ROWS; i++) {
        const char *known = sc_job_table_rows[i].path;
        if (strncmp(known, path, n) == 0 && known[n] == '.') {
            return true;
        }
    }
    return false;
}

/* --- suggestions ------------------------------------------------------------------------------ */

/* Levenshtein distance of two texts of at most PATH_MAX_BYTES bytes. */
static int distance(const char *a, const char *b)
{
    int row[PATH_MAX_BYTES + 1];
    int n = (int)strlen(b);
    for (int j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (int i = 1; a[i - 1] != '\0'; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            int add = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < add ? change : add;
        }
    }
    return row[n];
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot == NULL ? path : dot + 1;
}

/* How far an unknown path is from a known one: a slip in the path, or the right key in the wrong
   section. */
static int path_distance(const char *path, const char *known)
{
    int whole = distance(path, known);
    int part = distance(last_part(path), last_part(known)) + 1;
    return whole < part ? whole : part;
}

const char *sc_job_keys_nearest(const char *path, char *out, size_t n)
{
    int best = NEAR + 1;
    size_t length = strlen(path);
    for (int i = 0; length <= PATH_MAX_BYTES && i < SC_JOB_TABLE_ROWS; i++) {
        const char *known = sc_job_table_rows[i].path;
        int d = path_distance(path, known);
        if (d < best && d < (int)length) {
            best = d;
            (void)snprintf(out, n, "%s", known);
        }
        char section[PATH_MAX_BYTES + 1];
        (void)snprintf(section, sizeof section, "%.*s", (int)strcspn(known, "."), known);
        d = sc_job_keys_is_section(section) ? distance(path, section) : NEAR + 1;
        if (d < best && d < (int)length) {
            best = d;
            (void)snprintf(out, n, "%s", section);
        }
    }
    return best <= NEAR ? out : NULL;
}

/* --- limits in words -------------------------------------------------------------------------- */

/* The shortest of %g's digits that read back as the same double. */
static void add_real(double value, sc_text *text)
{
    char digits[40];
    for (int precision = 6; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    sc_text_add(text, "%s", digits);
}

static void add_range(const sc_job_key *key, sc_text *text)
{
    bool is_real = key->type == SC_JOB_KEY_REAL;
    sc_text_add(text, "%s", key->is_open_min ? "above " : "");
    if (is_real) {
        add_real(key->min, text);
    } else {
        sc_text_add(text, "%.0f", key->min);
    }
    sc_text_add(text, "%s", key->is_open_max ? " to below " : " to ");
    if (is_real) {
        add_real(key->max, text);
    } else {
        sc_text_add(text, "%.0f", key->max);
    }
}

static void add_choices(const sc_job_key *key, sc_text *text)
{
    for (int i = 0; i < SC_JOB_CHOICES_MAX && key->choices[i] != NULL; i++) {
        bool is_last = i + 1 == SC_JOB_CHOICES_MAX || key->choices[i + 1] == NULL;
        sc_text_add(text, "%s%s", i == 0 ? "" : is_last ? " or " : ", ", key->choices[i]);
    }
}

void sc_job_keys_add_limits(const sc_job_key *key, sc_text *text)
{
    switch (key->type) {
    case SC_JOB_KEY_INT:
    case SC_JOB_KEY_COUNT:
        sc_text_add(text, "whole number, ");
        add_range(key, text);
        break;
    case SC_JOB_KEY_REAL:
        sc_text_add(text, "number, ");
        add_range(key, text);
        break;
    case SC_JOB_KEY_BOOL:
        sc_text_add(text, "true or false");
        break;
    case SC_JOB_KEY_TEXT:
        sc_text_add(text, "text");
        break;
    case SC_JOB_KEY_CHOICE:
        add_choices(key, text);
        break;
    case SC_JOB_KEY_CHOICE_OR_INTS:
        add_choices(key, text);
        sc_text_add(text, ", or a list of whole numbers, ");
        add_range(key, text);
        break;
    case SC_JOB_KEY_INTS:
        sc_text_add(text, "list of whole numbers, ");
        add_range(key, text);
        break;
    }
}

/* --- reading values --------------------------------------------------------------------------- */

static bool is_empty(const sc_job_node *node)
{
    return node->kind == SC_JOB_NODE_SCALAR && !node->is_quoted &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}

/* "job.yaml:3:4: model.n_layer: 2.5 is not a whole number; choose a whole number, 1 to 1024" */
static sc_status refuse(const sc_job_key *key, const sc_job_node *node, const char *what,
                        sc_err *err)
{
    sc_text limits = {0};
    char *words = NULL;
    sc_job_keys_add_limits(key, &limits);
    sc_status status = sc_text_take(&limits, &words, err);
    if (status != SC_OK) {
        return status;
    }
    bool is_text = node->kind == SC_JOB_NODE_SCALAR && !is_empty(node);
    const char *quote = is_text && node->is_quoted ? "\"" : "";
    status = sc_job_yaml_fail(&node->mark, key->path, err, "%s%.64s%s%s%s; it takes: %s", quote,
                              is_text ? node->text : "", quote, is_text ? " " : "", what, words);
    free(words);
    return status;
}

static bool is_in_range(const sc_job_key *key, double value)
{
    return (key->is_open_min ? value > key->min : value >= key->min) &&
           (key->is_open_max ? value < key->max : value <= key->max);
}

static sc_status parse_int(const sc_job_key *key, const sc_job_node *node, int64_t *out,
                           sc_err *err)
{
    const char *wrong = node->is_quoted ? "is text in quotes" : sc_job_scalar_int(node->text, out);
    if (wrong == NULL && !is_in_range(key, (double)*out)) {
        wrong = "is out of range";
    }
    return wrong == NULL ? SC_OK : refuse(key, node, wrong, err);
}

static sc_status read_int(const sc_job_key *key, const sc_job_node *node, void *field, sc_err *err)
{
    int64_t value = 0;
    SC_TRY(parse_int(key, node, &value, err));
    int narrow = (int)value;
    if (key->type == SC_JOB_KEY_INT) {
        memcpy(field, &narrow, sizeof narrow);
    } else {
        memcpy(field, &value, sizeof value);
    }
    return SC_OK;
}

static sc_status read_real(const sc_job_key *key, const sc_job_node *node, void *field, sc_err *err)
{
    double value = 0;
    const char *wrong =
        node->is_quoted ? "is text in quotes" : sc_job_scalar_real(node->text, &value);
    if (wrong == NULL && !is_in_range(key, value)) {
        wrong = "is out of range";
    }
    if (wrong != NULL) {
        return refuse(key, node, wrong, err);
    }
    memcpy(field, &value, sizeof value);
    return SC_OK;
}

static sc_status read_bool(const sc_job_key *key, const sc_job_node *node, void *field, sc_err *err)
{
    bool value = false;
    const char *wrong =
        node->is_quoted ? "is text in quotes" : sc_job_scalar_bool(node->text, &value);
    if (wrong != NULL) {
        return refuse(key, node, wrong, err);
    }
    memcpy(field, &value, sizeof value);
    return SC_OK;
}

static sc_status read_choice(const sc_job_key *key, const sc_job_node *node, void *field,
                             sc_err *err)
{
    for (int i = 0; i < SC_JOB_CHOICES_MAX && key->choices[i] != NULL; i++) {
        if (strcmp(node->text, key->choices[i]) == 0) {
            memcpy(field, &i, sizeof i);
            return SC_OK;
        }
    }
    return refuse(key, node, "is not known", err);
}

static sc_status read_text(const sc_job_key *key, const sc_job_node *node, sc_job *job, sc_err *err)
{
    size_t n = strlen(node->text);
    if (n > SC_JOB_TEXT_MAX) {
        return sc_job_yaml_fail(&node->mark, key->path, err, "a text of %zu bytes; at most %d", n,
                                SC_JOB_TEXT_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)node->text[i] < 0x20 || node->text[i] == 0x7f) {
            return sc_job_yaml_fail(&node->mark, key->path, err,
                                    "a text with a control character; write it on one line");
        }
    }
    const char *copy = sc_arena_strndup(&job->arena, node->text, n);
    if (copy == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %s", key->path);
    }
    memcpy((char *)job + key->offset, &copy, sizeof copy);
    return SC_OK;
}

static sc_status read_ints(const sc_job_key *key, const sc_job_node *node, size_t offset,
                           sc_job *job, sc_err *err)
{
    int *items = sc_arena_alloc(&job->arena, (size_t)node->n_children, sizeof *items);
    int n = 0;
    if (items == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %s", key->path);
    }
    for (const sc_job_node *item = node->first; item != NULL; item = item->next) {
        int64_t value = 0;
        if (item->kind != SC_JOB_NODE_SCALAR || is_empty(item)) {
            return refuse(key, item, "an item that is no number", err);
        }
        SC_TRY(parse_int(key, item, &value, err));
        items[n++] = (int)value;
    }
    const int *list = items;
    memcpy((char *)job + offset, &list, sizeof list);
    memcpy((char *)job + key->count_offset, &n, sizeof n);
    return SC_OK;
}

static int count_choices(const sc_job_key *key)
{
    int n = 0;
    while (n < SC_JOB_CHOICES_MAX && key->choices[n] != NULL) {
        n++;
    }
    return n;
}

static sc_status read_choice_or_ints(const sc_job_key *key, const sc_job_node *node, sc_job *job,
                                     sc_err *err)
{
    void *field = (char *)job + key->offset;
    if (node->kind == SC_JOB_NODE_SCALAR) {
        return read_choice(key, node, field, err);
    }
    int is_list = count_choices(key);
    SC_TRY(read_ints(key, node, key->list_offset, job, err));
    memcpy(field, &is_list, sizeof is_list);
    return SC_OK;
}

static sc_status read_value(const sc_job_key *key, const sc_job_node *node, sc_job *job,
                            sc_err *err)
{
    void *field = (char *)job + key->offset;
    switch (key->type) {
    case SC_JOB_KEY_INT:
    case SC_JOB_KEY_COUNT:
        return read_int(key, node, field, err);
    case SC_JOB_KEY_REAL:
        return read_real(key, node, field, err);
    case SC_JOB_KEY_BOOL:
        return read_bool(key, node, field, err);
    case SC_JOB_KEY_CHOICE:
        return read_choice(key, node, field, err);
    case SC_JOB_KEY_TEXT:
        return read_text(key, node, job, err);
    case SC_JOB_KEY_INTS:
        return read_ints(key, node, key->offset, job, err);
    case SC_JOB_KEY_CHOICE_OR_INTS:
        return read_choice_or_ints(key, node, job, err);
    }
    return SC_OK;
}

sc_status sc_job_keys_set(const sc_job_key *key, const sc_job_node *node, sc_job *job, sc_err *err)
{
    sc_job_node_kind wanted = key->type == SC_JOB_KEY_INTS ? SC_JOB_NODE_LIST : SC_JOB_NODE_SCALAR;
    if (is_empty(node)) {
        return refuse(key, node, "no value", err);
    }
    bool is_either = key->type == SC_JOB_KEY_CHOICE_OR_INTS && node->kind == SC_JOB_NODE_LIST;
    if (node->kind != wanted && !is_either) {
        const char *what = node->kind == SC_JOB_NODE_LIST  ? "a list is there"
                           : node->kind == SC_JOB_NODE_MAP ? "a mapping is there"
                                                           : "is no list";
        return refuse(key, node, what, err);
    }
    return read_value(key, node, job, err);
}

sc_status sc_job_keys_set_defaults(sc_job *job, sc_err *err)
{
    for (int i = 0; i < SC_JOB_TABLE_ROWS; i++) {
        const sc_job_key *key = &sc_job_table_rows[i];
        sc_job_node node = {.kind = SC_JOB_NODE_SCALAR,
                            .path = key->path,
                            .text = key->text,
                            .mark = {.source = "default"}};
        if (key->type == SC_JOB_KEY_INTS) {
            node.kind = SC_JOB_NODE_LIST;
        } else if (key->text == NULL && key->type == SC_JOB_KEY_TEXT) {
            node.text = "";
            node.is_quoted = true;
        } else if (key->text == NULL) {
            continue; // every job must say it
        }
        SC_TRY(sc_job_keys_set(key, &node, job, err));
    }
    return SC_OK;
}

/* --- writing values --------------------------------------------------------------------------- */

static void add_ints(const sc_job_key *key, size_t offset, const sc_job *job, sc_text *text)
{
    const int *items = NULL;
    int n = 0;
    memcpy(&items, (const char *)job + offset, sizeof items);
    memcpy(&n, (const char *)job + key->count_offset, sizeof n);
    sc_text_add(text, "[");
    for (int i = 0; i < n; i++) {
        sc_text_add(text, "%s%d", i == 0 ? "" : ", ", items[i]);
    }
    sc_text_add(text, "]");
}

void sc_job_keys_add_value(const sc_job_key *key, const sc_job *job, sc_text *text)
{
    const void *field = (const char *)job + key->offset;
    switch (key->type) {
    case SC_JOB_KEY_INT:
        sc_text_add(text, "%d", *(const int *)field);
        break;
    case SC_JOB_KEY_COUNT:
        sc_text_add(text, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case SC_JOB_KEY_REAL:
        add_real(*(const double *)field, text);
        break;
    case SC_JOB_KEY_BOOL:
        sc_text_add(text, "%s", *(const bool *)field ? "true" : "false");
        break;
    case SC_JOB_KEY_CHOICE:
        sc_text_add(text, "%s", key->choices[*(const unsigned *)field]);
        break;
    case SC_JOB_KEY_TEXT:
        sc_text_add(text, "\"");
        sc_text_add_json(text, *(const char *const *)field);
        sc_text_add(text, "\"");
        break;
    case SC_JOB_KEY_INTS:
        add_ints(key, key->offset, job, text);
        break;
    case SC_JOB_KEY_CHOICE_OR_INTS:
        if (*(const int *)field == count_choices(key)) {
            add_ints(key, key->list_offset, job, text);
        } else {
            sc_text_add(text, "%s", key->choices[*(const unsigned *)field]);
        }
        break;
    }
}
