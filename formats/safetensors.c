#include "formats/safetensors.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_BYTES = 8
};

typedef struct dtype_info {
    const char *text;
    unsigned bytes;
} dtype_info;

static const dtype_info DTYPES[] = {
#define DTYPE_INFO(name, bytes) [SC_SAFETENSORS_##name] = {#name, bytes},
    SC_SAFETENSORS_MAP(DTYPE_INFO)
#undef DTYPE_INFO
};

static sc_status no_memory(sc_err *err)
{
    return sc_status_fail(err, SC_NO_MEMORY, "no memory for a safetensors header");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts names and looks for two equal ones; *out is NULL when there are none. */
static void find_duplicate(const char **names, size_t n, const char **out)
{
    *out = NULL;
    if (n == 0) {
        return;
    }
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            *out = names[i];
            return;
        }
    }
}

bool sc_safetensors_count(const int64_t *shape, int n_dims, uint64_t *out)
{
    uint64_t n = 1;
    bool is_empty = false;
    for (int i = 0; i < n_dims; i++) {
        if (shape[i] < 0) {
            return false;
        }
        uint64_t d = (uint64_t)shape[i];
        is_empty = is_empty || d == 0;
        if (d != 0 && n > SC_SAFETENSORS_BYTES_MAX / d) {
            return false;
        }
        n *= d == 0 ? 1 : d;
    }
    *out = is_empty ? 0 : n;
    return true;
}

typedef struct reader {
    const char *file; // for messages
    uint64_t data_offset;
    uint64_t data_bytes;
    sc_safetensors *out;
} reader;

sc_status sc_safetensors_head_bytes(const char *name, const uint8_t first[8], uint64_t file_bytes,
                                    size_t *out, sc_err *err)
{
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) {
        length |= (uint64_t)first[i] << (8 * i);
    }
    if (length > SC_SAFETENSORS_HEADER_MAX) {
        return sc_status_fail(err, SC_LIMIT,
                              "%s: byte 0: header length %" PRIu64 " is over %d: no safetensors "
                              "file",
                              name, length, SC_SAFETENSORS_HEADER_MAX);
    }
    if (file_bytes < LENGTH_BYTES || length > file_bytes - LENGTH_BYTES) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: truncated: a header of %" PRIu64 " bytes in a file of %" PRIu64,
                              name, length, file_bytes);
    }
    *out = LENGTH_BYTES + (size_t)length;
    return SC_OK;
}

/* A whole number in [0, SC_SAFETENSORS_BYTES_MAX]. */
static bool read_count(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
        item->valuedouble > (double)SC_SAFETENSORS_BYTES_MAX ||
        item->valuedouble != (double)(uint64_t)item->valuedouble) {
        return false;
    }
    *out = (uint64_t)item->valuedouble;
    return true;
}

static bool read_dtype(const cJSON *item, sc_safetensors_dtype *out)
{
    for (int i = 0; cJSON_IsString(item) && i < SC_SAFETENSORS_COUNT; i++) {
        if (strcmp(item->valuestring, DTYPES[i].text) == 0) {
            *out = (sc_safetensors_dtype)i;
            return true;
        }
    }
    return false;
}

static bool read_shape(const cJSON *item, sc_safetensors_entry *entry)
{
    if (!cJSON_IsArray(item)) {
        return false;
    }
    const cJSON *dim = NULL;
    cJSON_ArrayForEach(dim, item)
    {
        uint64_t value = 0;
        if (entry->n_dims == SC_SAFETENSORS_DIMS_MAX || !read_count(dim, &value)) {
            return false;
        }
        entry->shape[entry->n_dims++] = (int64_t)value;
    }
    return sc_safetensors_count(entry->shape, entry->n_dims, &entry->n_elems);
}

static sc_status refuse(const reader *r, const char *tensor, const char *what, sc_err *err)
{
    return sc_status_fail(err, SC_INVALID, "%s: tensor %s: %s", r->file, tensor, what);
}

static sc_status read_entry(reader *r, const cJSON *item, sc_safetensors_entry *entry, sc_err *err)
{
    const char *name = item->string;
    if (!cJSON_IsObject(item) || cJSON_GetArraySize(item) != 3) {
        return refuse(r, name, "not an object of dtype, shape and data_offsets", err);
    }
    if (strlen(name) > SC_SAFETENSORS_NAME_MAX) {
        return sc_status_fail(err, SC_LIMIT, "%s: a tensor's name is over %d bytes", r->file,
                              SC_SAFETENSORS_NAME_MAX);
    }
    if (!read_dtype(cJSON_GetObjectItemCaseSensitive(item, "dtype"), &entry->dtype)) {
        return refuse(r, name, "unknown dtype", err);
    }
    if (!read_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), entry)) {
        return refuse(r, name, "shape is no list of up to 8 sizes", err);
    }
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    uint64_t begin = 0;
    uint64_t end = 0;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !read_count(cJSON_GetArrayItem(offsets, 0), &begin) ||
        !read_count(cJSON_GetArrayItem(offsets, 1), &end) || begin > end) {
        return refuse(r, name, "data_offsets is no pair begin <= end", err);
    }
    if (end > r->data_bytes) {
        return refuse(r, name, "its data ends behind the file's end: truncated", err);
    }
    entry->n_bytes = end - begin;
    unsigned size = DTYPES[entry->dtype].bytes;
    if (entry->n_bytes % size != 0 || entry->n_bytes / size != entry->n_elems) {
        return refuse(r, name, "data_offsets do not fit dtype and shape", err);
    }
    entry->offset = r->data_offset + begin;
    entry->name = sc_arena_strndup(&r->out->arena, name, strlen(name));
    return entry->name == NULL ? no_memory(err) : SC_OK;
}

static sc_status read_metadata(reader *r, const cJSON *object, sc_err *err)
{
    if (!cJSON_IsObject(object)) {
        return sc_status_fail(err, SC_INVALID, "%s: __metadata__ is no object", r->file);
    }
    size_t n = (size_t)cJSON_GetArraySize(object);
    sc_arena *arena = &r->out->arena;
    r->out->metadata = sc_arena_alloc(arena, 2 * n, sizeof *r->out->metadata);
    bool is_ok = r->out->metadata != NULL;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, object)
    {
        if (!cJSON_IsString(item)) {
            return sc_status_fail(err, SC_INVALID, "%s: __metadata__ %s is no string", r->file,
                                  item->string);
        }
        size_t i = 2 * r->out->n_metadata++;
        if (is_ok) {
            const char *key = sc_arena_strndup(arena, item->string, strlen(item->string));
            const char *text =
                sc_arena_strndup(arena, item->valuestring, strlen(item->valuestring));
            r->out->metadata[i] = key;
            r->out->metadata[i + 1] = text;
            is_ok = key != NULL && text != NULL;
        }
    }
    return is_ok ? SC_OK : no_memory(err);
}

static int compare_offsets(const void *a, const void *b)
{
    const sc_safetensors_entry *x = a;
    const sc_safetensors_entry *y = b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

/* The format wants the data covered once, without holes. */
static sc_status check_cover(const reader *r, sc_err *err)
{
    const sc_safetensors *st = r->out;
    uint64_t at = r->data_offset;
    for (size_t i = 0; i < st->n_entries; i++) {
        const sc_safetensors_entry *entry = &st->entries[i];
        if (entry->offset != at) {
            return refuse(r, entry->name,
                          entry->offset < at ? "its data overlaps the tensor before"
                                             : "there is a hole before its data",
                          err);
        }
        at = entry->offset + entry->n_bytes;
    }
    if (at != r->data_offset + r->data_bytes) {
        return sc_status_fail(err, SC_INVALID, "%s: %" PRIu64 " bytes behind the last tensor",
                              r->file, r->data_offset + r->data_bytes - at);
    }
    return SC_OK;
}

static sc_status check_unique(const reader *r, sc_err *err)
{
    sc_safetensors *st = r->out;
    const char **names = sc_arena_alloc(&st->arena, st->n_entries, sizeof *names);
    if (names == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < st->n_entries; i++) {
        names[i] = st->entries[i].name;
    }
    const char *twice = NULL;
    find_duplicate(names, st->n_entries, &twice);
    return twice == NULL ? SC_OK : refuse(r, twice, "is there twice", err);
}

static sc_status read_root(reader *r, const cJSON *root, sc_err *err)
{
    sc_safetensors *st = r->out;
    size_t n = (size_t)cJSON_GetArraySize(root);
    if (n > SC_SAFETENSORS_TENSORS_MAX) {
        return sc_status_fail(err, SC_LIMIT, "%s: %zu tensors, at most %d may be", r->file, n,
                              SC_SAFETENSORS_TENSORS_MAX);
    }
    st->entries = sc_arena_alloc(&st->arena, n, sizeof *st->entries);
    if (st->entries == NULL) {
        return no_memory(err);
    }
    bool has_metadata = false;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, root)
    {
        bool is_metadata = strcmp(item->string, "__metadata__") == 0;
        if (is_metadata && has_metadata) {
            return sc_status_fail(err, SC_INVALID, "%s: __metadata__ is there twice", r->file);
        }
        has_metadata = has_metadata || is_metadata;
        sc_status status = is_metadata ? read_metadata(r, item, err)
                                       : read_entry(r, item, &st->entries[st->n_entries++], err);
        if (status != SC_OK) {
            return status;
        }
    }
    if (st->n_entries > 0) {
        qsort(st->entries, st->n_entries, sizeof *st->entries, compare_offsets);
    }
    SC_TRY(check_unique(r, err));
    return check_cover(r, err);
}

static sc_status parse_json(const char *file, const char *text, size_t n, cJSON **out, sc_err *err)
{
    const char *end = text;
    cJSON *root = n > 0 && text[0] == '{' ? cJSON_ParseWithLengthOpts(text, n, &end, 0) : NULL;
    const char *stop = text + n;
    if (root != NULL) {
        while (end < stop && *end == ' ') {
            end++;
        }
    }
    if (root == NULL || end != stop) {
        cJSON_Delete(root);
        return sc_status_fail(err, SC_INVALID, "%s: byte %zu: the header is malformed JSON", file,
                              LENGTH_BYTES + (size_t)(end - text));
    }
    *out = root;
    return SC_OK;
}

sc_status sc_safetensors_parse(const char *name, const void *head, size_t n_head,
                               uint64_t file_bytes, sc_safetensors **out, sc_err *err)
{
    sc_status status = SC_OK;
    cJSON *root = NULL;
    sc_safetensors *st = NULL;
    size_t need = 0;
    if (n_head < LENGTH_BYTES) {
        return sc_status_fail(err, SC_INVALID, "%s: truncated: %zu bytes", name, n_head);
    }
    SC_GOTO(sc_safetensors_head_bytes(name, head, file_bytes, &need, err));
    if (n_head < need) {
        return sc_status_fail(err, SC_INVALID, "%s: truncated: %zu bytes of a head of %zu", name,
                              n_head, need);
    }
    const char *text = (const char *)head + LENGTH_BYTES;
    SC_GOTO(parse_json(name, text, need - LENGTH_BYTES, &root, err));
    st = calloc(1, sizeof *st);
    if (st == NULL) {
        status = no_memory(err);
        goto out;
    }
    sc_arena_init(&st->arena, 0);
    reader r = {.file = name, .data_offset = need, .data_bytes = file_bytes - need, .out = st};
    SC_GOTO(read_root(&r, root, err));
    *out = st;
    st = NULL;
out:
    sc_safetensors_free(&st);
    cJSON_Delete(root);
    return status;
}

void sc_safetensors_free(sc_safetensors **safetensors)
{
    if (*safetensors != NULL) {
        sc_arena_done(&(*safetensors)->arena);
        free(*safetensors);
        *safetensors = NULL;
    }
}

const sc_safetensors_entry *sc_safetensors_find(const sc_safetensors *safetensors, const char *name)
{
    for (size_t i = 0; i < safetensors->n_entries; i++) {
        if (strcmp(safetensors->entries[i].name, name) == 0) {
            return &safetensors->entries[i];
        }
    }
    return NULL;
}
