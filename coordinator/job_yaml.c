#include "coordinator/job_yaml.h"

#include <assert.h>
#include <libfyaml.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct builder {
    sc_arena *arena;
    const char *source;
    sc_err *err;
    sc_job_node *root;
    sc_job_node *open; // innermost list or mapping that is not closed
    const char *key;   // in a mapping: the key whose value comes next, NULL when a key comes
    sc_job_mark key_mark;
    int depth;
    int n_nodes;
    int n_documents;
} builder;

sc_status sc_job_yaml_fail(const sc_job_mark *mark, const char *path, sc_err *err,
                           const char *format, ...)
{
    char what[SC_ERR_TEXT_MAX];
    char where[64] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (mark->line > 0) {
        (void)snprintf(where, sizeof where, ":%d:%d", mark->line, mark->column);
    }
    return sc_status_fail(err, SC_INVALID, "%s%s: %s%s%s", mark->source, where, path,
                          path[0] == '\0' ? "" : ": ", what);
}

static sc_status no_memory(const builder *b)
{
    return sc_status_fail(b->err, SC_NO_MEMORY, "%s: no memory", b->source);
}

/* Bytes of the UTF-8 sequence at p, 0 when it is malformed, overlong or a surrogate. */
static size_t utf8_length(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80) {
        return 1;
    }
    size_t n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n > left) {
        return 0;
    }
    unsigned lowest = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned highest = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < lowest || p[1] > highest) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

/* libfyaml ends its stream in silence at a NUL or at broken UTF-8; both are errors here. */
static sc_status check_bytes(const builder *b, const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    sc_job_mark mark = {.source = b->source, .line = 1, .column = 1};
    size_t i = 0;
    while (i < n) {
        size_t step = utf8_length(p + i, n - i);
        bool is_control = p[i] < 0x20 && p[i] != '\n' && p[i] != '\r' && p[i] != '\t';
        if (step == 0 || is_control || p[i] == 0x7f) {
            return sc_job_yaml_fail(&mark, "", b->err, "byte 0x%02x is no text; write UTF-8", p[i]);
        }
        mark.column++;
        if (p[i] == '\n') {
            mark.line++;
            mark.column = 1;
        }
        i += step;
    }
    return SC_OK;
}

static sc_job_mark mark_of(const builder *b, struct fy_event *event)
{
    const struct fy_mark *at = fy_event_start_mark(event);
    sc_job_mark mark = {.source = b->source};
    if (at != NULL) {
        mark.line = at->line + 1;
        mark.column = at->column + 1;
    }
    return mark;
}

/* Path of a child of the innermost open node. */
static const char *child_path(const builder *b)
{
    const sc_job_node *parent = b->open;
    if (parent == NULL || parent->kind == SC_JOB_NODE_LIST) {
        return parent == NULL ? "" : parent->path;
    }
    if (parent->path[0] == '\0') {
        return b->key;
    }
    size_t n = strlen(parent->path) + 1 + strlen(b->key);
    char *path = sc_arena_alloc(b->arena, n + 1, 1);
    if (path != NULL) {
        (void)snprintf(path, n + 1, "%s.%s", parent->path, b->key);
    }
    return path;
}

/* Hangs a new node below the innermost open one. */
static sc_status add_node(builder *b, sc_job_node_kind kind, sc_job_mark mark, sc_job_node **out)
{
    if (++b->n_nodes > SC_JOB_YAML_NODES_MAX) {
        return sc_job_yaml_fail(&mark, "", b->err, "more than %d values", SC_JOB_YAML_NODES_MAX);
    }
    bool has_key = b->open != NULL && b->open->kind == SC_JOB_NODE_MAP;
    sc_job_node *node = sc_arena_alloc(b->arena, 1, sizeof *node);
    const char *path = child_path(b);
    if (node == NULL || path == NULL) {
        return no_memory(b);
    }
    *node = (sc_job_node){.kind = kind,
                          .path = path,
                          .key = has_key ? b->key : "",
                          .text = "",
                          .mark = mark.line > 0 || !has_key ? mark : b->key_mark,
                          .key_mark = has_key ? b->key_mark : mark,
                          .parent = b->open};
    b->key = NULL;
    if (b->open == NULL) {
        b->root = node;
    } else if (b->open->first == NULL) {
        b->open->first = node;
        b->open->last = node;
    } else {
        b->open->last->next = node;
        b->open->last = node;
    }
    if (b->open != NULL) {
        b->open->n_children++;
    }
    *out = node;
    return SC_OK;
}

static bool expects_key(const builder *b)
{
    return b->open != NULL && b->open->kind == SC_JOB_NODE_MAP && b->key == NULL;
}

static sc_status take_key(builder *b, const char *key, sc_job_mark mark)
{
    for (const sc_job_node *node = b->open->first; node != NULL; node = node->next) {
        if (strcmp(node->key, key) == 0) {
            return sc_job_yaml_fail(&mark, node->path, b->err,
                                    "this key is there twice, first at line %d; keep one",
                                    node->key_mark.line);
        }
    }
    b->key = key;
    b->key_mark = mark;
    return SC_OK;
}

static sc_status take_scalar(builder *b, struct fy_event *event, sc_job_mark mark)
{
    size_t n = 0;
    const char *text = fy_token_get_text(event->scalar.value, &n);
    char *copy = sc_arena_strndup(b->arena, text == NULL ? "" : text, text == NULL ? 0 : n);
    if (copy == NULL) {
        return no_memory(b);
    }
    if (strlen(copy) != n && text != NULL) {
        return sc_job_yaml_fail(&mark, "", b->err, "a text with a NUL character");
    }
    if (expects_key(b)) {
        return take_key(b, copy, mark);
    }
    enum fy_scalar_style style =
        text == NULL ? FYSS_PLAIN : fy_token_scalar_style(event->scalar.value);
    if (style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED) {
        mark.column--; // libfyaml points behind the quote
    }
    sc_job_node *node = NULL;
    SC_TRY(add_node(b, SC_JOB_NODE_SCALAR, mark, &node));
    assert(node != NULL);
    node->text = copy;
    node->is_quoted = style != FYSS_PLAIN;
    return SC_OK;
}

static sc_status take_start(builder *b, sc_job_node_kind kind, sc_job_mark mark)
{
    if (expects_key(b)) {
        return sc_job_yaml_fail(&mark, "", b->err, "a key must be a name");
    }
    if (++b->depth > SC_JOB_YAML_DEPTH_MAX) {
        return sc_job_yaml_fail(&mark, "", b->err, "nested deeper than %d levels",
                                SC_JOB_YAML_DEPTH_MAX);
    }
    sc_job_node *node = NULL;
    SC_TRY(add_node(b, kind, mark, &node));
    b->open = node;
    return SC_OK;
}

static void take_end(builder *b)
{
    assert(b->open != NULL);
    b->depth--;
    b->open = b->open->parent;
}

static bool has_decoration(const struct fy_event *event)
{
    switch (event->type) {
    case FYET_ALIAS:
        return true;
    case FYET_SCALAR:
        return event->scalar.anchor != NULL || event->scalar.tag != NULL;
    case FYET_SEQUENCE_START:
        return event->sequence_start.anchor != NULL || event->sequence_start.tag != NULL;
    case FYET_MAPPING_START:
        return event->mapping_start.anchor != NULL || event->mapping_start.tag != NULL;
    default:
        return false;
    }
}

static sc_status take_event(builder *b, struct fy_event *event)
{
    sc_job_mark mark = mark_of(b, event);
    if (has_decoration(event)) {
        mark.column -= event->type == FYET_ALIAS; // libfyaml points behind the star
        return sc_job_yaml_fail(&mark, "", b->err,
                                "anchors (&), aliases (*) and tags (!) are not used here; write "
                                "the value itself");
    }
    switch (event->type) {
    case FYET_DOCUMENT_START:
        if (++b->n_documents > 1) {
            return sc_job_yaml_fail(&mark, "", b->err,
                                    "a second document starts; a job is one document");
        }
        return SC_OK;
    case FYET_SCALAR:
        return take_scalar(b, event, mark);
    case FYET_SEQUENCE_START:
        return take_start(b, SC_JOB_NODE_LIST, mark);
    case FYET_MAPPING_START:
        return take_start(b, SC_JOB_NODE_MAP, mark);
    case FYET_SEQUENCE_END:
    case FYET_MAPPING_END:
        take_end(b);
        return SC_OK;
    default:
        return SC_OK;
    }
}

static sc_status fail_malformed(const builder *b, struct fy_diag *diag)
{
    void *at = NULL;
    const struct fy_diag_error *first = fy_diag_errors_iterate(diag, &at);
    sc_job_mark mark = {.source = b->source};
    if (first == NULL) {
        return sc_job_yaml_fail(&mark, "", b->err, "malformed YAML");
    }
    mark.line = first->line;
    mark.column = first->column;
    return sc_job_yaml_fail(&mark, "", b->err, "malformed YAML: %s", first->msg);
}

static sc_status walk(builder *b, struct fy_parser *parser, struct fy_diag *diag)
{
    bool is_done = false;
    while (!is_done) {
        struct fy_event *event = fy_parser_parse(parser);
        if (event == NULL) {
            return fail_malformed(b, diag);
        }
        is_done = event->type == FYET_STREAM_END;
        sc_status status = take_event(b, event);
        fy_parser_event_free(parser, event);
        if (status != SC_OK) {
            return status;
        }
    }
    if (b->root == NULL) {
        sc_job_mark mark = {.source = b->source, .line = 1, .column = 1};
        sc_job_node *node = NULL;
        return add_node(b, SC_JOB_NODE_MAP, mark, &node);
    }
    return SC_OK;
}

/* libfyaml's own output: its messages are collected instead. */
static void drop_output(struct fy_diag *diag, void *user, const char *bytes, size_t n)
{
    (void)diag;
    (void)user;
    (void)bytes;
    (void)n;
}

sc_status sc_job_yaml_parse(const char *source, const char *text, size_t n, sc_arena *arena,
                            sc_job_node **out, sc_err *err)
{
    sc_status status = SC_OK;
    struct fy_diag *diag = NULL;
    struct fy_parser *parser = NULL;
    builder b = {.arena = arena, .source = source, .err = err};
    if (n > SC_JOB_YAML_BYTES_MAX) {
        return sc_status_fail(err, SC_LIMIT, "%s: %zu bytes, a job file has at most %d", source, n,
                              SC_JOB_YAML_BYTES_MAX);
    }
    SC_GOTO(check_bytes(&b, text, n));
    struct fy_diag_cfg diag_config;
    fy_diag_cfg_default(&diag_config);
    diag_config.fp = NULL;
    diag_config.output_fn = drop_output;
    diag = fy_diag_create(&diag_config);
    if (diag == NULL) {
        status = no_memory(&b);
        goto out;
    }
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg config = {.flags = FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE,
                                  .diag = diag};
    parser = fy_parser_create(&config);
    if (parser == NULL || fy_parser_set_string(parser, text, n) != 0) {
        status = no_memory(&b);
        goto out;
    }
    SC_GOTO(walk(&b, parser, diag));
    *out = b.root;
out:
    if (parser != NULL) {
        fy_parser_destroy(parser);
    }
    if (diag != NULL) {
        fy_diag_destroy(diag);
    }
    return status;
}
