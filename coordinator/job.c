#include "coordinator/job.h"

#include "coordinator/job_check.h"
#include "coordinator/job_keys.h"
#include "coordinator/job_table.h"
#include "coordinator/job_yaml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job being read: where each key got its value. */
typedef struct loader {
    sc_job *job;
    sc_job_mark marks[SC_JOB_TABLE_ROWS];
    sc_arena nodes; // trees, paths and sources
} loader;

static sc_status fail_unknown(const sc_job_mark *mark, const char *path, sc_err *err)
{
    char near[128];
    if (sc_job_keys_nearest(path, near, sizeof near) != NULL) {
        return sc_job_yaml_fail(mark, path, err, "unknown key; did you mean %s?", near);
    }
    return sc_job_yaml_fail(mark, path, err, "unknown key; examples/reference.yaml has them all");
}

static sc_status set_key(loader *l, const sc_job_node *node, sc_err *err)
{
    int key = sc_job_keys_find(node->path);
    if (key < 0) {
        return fail_unknown(&node->key_mark, node->path, err);
    }
    l->marks[key] = node->mark;
    return sc_job_keys_set(&sc_job_table_rows[key], node, l->job, err);
}

/* An empty section ("model:" with everything below it commented out) is an empty mapping. */
static sc_status check_section(const sc_job_node *node, sc_err *err)
{
    bool is_empty = node->kind == SC_JOB_NODE_SCALAR && !node->is_quoted && node->text[0] == '\0';
    if (node->kind == SC_JOB_NODE_MAP || is_empty) {
        return SC_OK;
    }
    if (node->path[0] == '\0') {
        return sc_job_yaml_fail(&node->mark, "", err, "no mapping of keys; write `name: ...` etc.");
    }
    return sc_job_yaml_fail(&node->mark, node->path, err,
                            "%s is there; it is a section: write its keys indented below it",
                            node->kind == SC_JOB_NODE_LIST ? "a list" : "a value");
}

/* The table has two levels, so the walk needs no recursion. */
static sc_status set_section(loader *l, const sc_job_node *section, sc_err *err)
{
    sc_status status = check_section(section, err);
    for (const sc_job_node *node = section->first; status == SC_OK && node != NULL;
         node = node->next) {
        status = set_key(l, node, err);
    }
    return status;
}

static sc_status set_tree(loader *l, const sc_job_node *root, sc_err *err)
{
    sc_status status = check_section(root, err);
    for (const sc_job_node *node = root->first; status == SC_OK && node != NULL;
         node = node->next) {
        status =
            sc_job_keys_is_section(node->path) ? set_section(l, node, err) : set_key(l, node, err);
    }
    return status;
}

/* One override "a.b=value"; the value is YAML, so that lists work. */
static sc_status set_override(loader *l, const char *text, sc_err *err)
{
    static const char FLAG[] = "--set ";
    size_t n = strlen(text);
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        return sc_status_fail(err, SC_USAGE, "--set %.200s: write --set key.path=value", text);
    }
    char *source = sc_arena_alloc(&l->nodes, sizeof FLAG + n, 1);
    char *path = sc_arena_strndup(&l->nodes, text, (size_t)(equals - text));
    if (source == NULL || path == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for --set");
    }
    (void)snprintf(source, sizeof FLAG + n, "%s%s", FLAG, text);
    sc_job_mark mark = {.source = source};
    int key = sc_job_keys_find(path);
    if (sc_job_keys_is_section(path)) {
        return sc_job_yaml_fail(&mark, path, err, "is a section; name one of its keys");
    }
    if (key < 0) {
        return fail_unknown(&mark, path, err);
    }
    sc_job_node *value = NULL;
    SC_TRY(sc_job_yaml_parse(source, equals + 1, n - (size_t)(equals + 1 - text), &l->nodes, &value,
                             err));
    // Positions inside the value would look like positions in a file.
    value->mark = mark;
    for (sc_job_node *item = value->first; item != NULL; item = item->next) {
        item->mark = mark;
    }
    if (equals[1] == '\0') {
        value->kind = SC_JOB_NODE_SCALAR;
    }
    l->marks[key] = mark;
    return sc_job_keys_set(&sc_job_table_rows[key], value, l->job, err);
}

sc_status sc_job_parse(const char *path, const char *text, size_t n, const char *const *overrides,
                       size_t n_overrides, sc_job **out, sc_err *err)
{
    sc_status status = SC_OK;
    loader l = {0};
    sc_job_node *root = NULL;
    sc_arena_init(&l.nodes, 0);
    l.job = calloc(1, sizeof *l.job);
    if (l.job == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %s", path);
    }
    sc_arena_init(&l.job->arena, 0);
    l.job->path = sc_arena_strndup(&l.job->arena, path, strlen(path));
    if (l.job->path == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "no memory for %s", path);
        goto out;
    }
    SC_GOTO(sc_job_keys_set_defaults(l.job, err));
    SC_GOTO(sc_job_yaml_parse(l.job->path, text, n, &l.nodes, &root, err));
    SC_GOTO(set_tree(&l, root, err));
    for (size_t i = 0; i < n_overrides; i++) {
        SC_GOTO(set_override(&l, overrides[i], err));
    }
    SC_GOTO(sc_job_check_all(l.job, l.marks, err));
    *out = l.job;
    l.job = NULL;
out:
    sc_arena_done(&l.nodes);
    sc_job_free(&l.job);
    return status;
}

void sc_job_free(sc_job **job)
{
    if (*job != NULL) {
        sc_arena_done(&(*job)->arena);
        free(*job);
        *job = NULL;
    }
}

sc_status sc_job_format(const sc_job *job, char **out, sc_err *err)
{
    sc_text text = {0};
    const char *section = "";
    size_t n_section = 0;
    for (int i = 0; i < SC_JOB_TABLE_ROWS; i++) {
        const sc_job_key *key = &sc_job_table_rows[i];
        const char *dot = strchr(key->path, '.');
        if (dot == NULL) {
            sc_text_add(&text, "%s: ", key->path);
        } else {
            size_t n = (size_t)(dot - key->path);
            if (n != n_section || strncmp(section, key->path, n) != 0) {
                section = key->path;
                n_section = n;
                sc_text_add(&text, "%.*s:\n", (int)n, section);
            }
            sc_text_add(&text, "  %s: ", dot + 1);
        }
        sc_job_keys_add_value(key, job, &text);
        sc_text_add(&text, "\n");
    }
    return sc_text_take(&text, out, err);
}

static const char *need_text(sc_job_key_need need)
{
    switch (need) {
    case SC_JOB_NEED_ALL:
        return "required";
    case SC_JOB_NEED_CPU:
        return "required for cpu";
    case SC_JOB_NEED_PACED:
        return "required for paced";
    default:
        return NULL;
    }
}

sc_status sc_job_help(char **out, sc_err *err)
{
    sc_text text = {0};
    for (int i = 0; i < SC_JOB_TABLE_ROWS; i++) {
        const sc_job_key *key = &sc_job_table_rows[i];
        sc_text_add(&text, "%-28s %s\n%-28s (", key->path, key->help, "");
        sc_job_keys_add_limits(key, &text);
        const char *need = need_text(key->need);
        if (need != NULL) {
            sc_text_add(&text, "; %s)\n", need);
        } else {
            sc_text_add(&text, "; default %s)\n", key->text);
        }
    }
    return sc_text_take(&text, out, err);
}

sc_cost_layout sc_job_layout(const sc_job *job)
{
    return (sc_cost_layout){.B = job->micro_batch_size,
                            .T = job->sequence_length,
                            .is_adamw = job->optimizer == SC_JOB_ADAMW,
                            .recompute = job->recompute};
}

const char *sc_job_schedule_path(const char *schedule)
{
    static const char PREFIX[] = "file:";
    size_t n = sizeof PREFIX - 1;
    return strncmp(schedule, PREFIX, n) == 0 ? schedule + n : NULL;
}

float sc_job_lr(const sc_job *job, uint64_t step)
{
    double warmup = job->warmup_steps;
    double end = job->decay_steps > 0 ? job->decay_steps : job->steps;
    double at = (double)step;
    if (at < warmup) {
        return (float)(job->lr * (at + 1) / warmup);
    }
    if (at >= end) {
        return (float)job->min_lr;
    }
    const double pi = 3.14159265358979323846;
    double done = (at - warmup) / (end - warmup);
    return (float)(job->min_lr + 0.5 * (1 + cos(pi * done)) * (job->lr - job->min_lr));
}
