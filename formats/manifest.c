#include "formats/manifest.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WHERE_MAX = 256,
    CHECKSUM_DIGITS = 16
};

static const char CHECKSUM_PREFIX[] = "xxh64:";

/* Where the reader is, for messages. */
typedef struct reader {
    const char *name;
    char where[WHERE_MAX]; // "tensors[3].bytes"
    sc_manifest *out;
    sc_err *err;
} reader;

static sc_status refuse(const reader *r, const char *key, const char *what)
{
    const char *dot = r->where[0] == '\0' || key[0] == '\0' ? "" : ".";
    return sc_status_fail(r->err, SC_INVALID, "%s: %s%s%s: %s", r->name, r->where, dot, key, what);
}

static sc_status no_memory(const reader *r)
{
    return sc_status_fail(r->err, SC_NO_MEMORY, "%s: no memory for it", r->name);
}

/* An object with exactly n_keys keys; that each of them is known shows when all are found. */
static sc_status open_object(reader *r, const cJSON *item, int n_keys, const char *where)
{
    (void)snprintf(r->where, sizeof r->where, "%.200s", where);
    if (!cJSON_IsObject(item)) {
        return refuse(r, "", "no object");
    }
    if (cJSON_GetArraySize(item) > n_keys) {
        return refuse(r, "", "has keys that are not known, or a key twice");
    }
    return SC_OK;
}

static sc_status get(const reader *r, const cJSON *object, const char *key, const cJSON **out)
{
    *out = cJSON_GetObjectItemCaseSensitive(object, key);
    return *out != NULL ? SC_OK : refuse(r, key, "missing");
}

static sc_status get_count(const reader *r, const cJSON *object, const char *key, uint64_t *out)
{
    const cJSON *item = NULL;
    SC_TRY(get(r, object, key, &item));
    const double max = 9007199254740991.0; // 2^53 - 1
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= max) ||
        item->valuedouble != floor(item->valuedouble)) {
        return refuse(r, key, "no whole number in 0..2^53-1");
    }
    *out = (uint64_t)item->valuedouble;
    return SC_OK;
}

static sc_status get_int(const reader *r, const cJSON *object, const char *key, int64_t *out)
{
    uint64_t count = 0;
    SC_TRY(get_count(r, object, key, &count));
    *out = (int64_t)count;
    return SC_OK;
}

static sc_status get_real(const reader *r, const cJSON *object, const char *key, double *out)
{
    const cJSON *item = NULL;
    SC_TRY(get(r, object, key, &item));
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) {
        return refuse(r, key, "no finite number");
    }
    *out = item->valuedouble;
    return SC_OK;
}

static sc_status get_bool(const reader *r, const cJSON *object, const char *key, bool *out)
{
    const cJSON *item = NULL;
    SC_TRY(get(r, object, key, &item));
    if (!cJSON_IsBool(item)) {
        return refuse(r, key, "neither true nor false");
    }
    *out = cJSON_IsTrue(item);
    return SC_OK;
}

static sc_status get_text(const reader *r, const cJSON *object, const char *key, const char **out)
{
    const cJSON *item = NULL;
    SC_TRY(get(r, object, key, &item));
    if (!cJSON_IsString(item) || strlen(item->valuestring) > SC_MANIFEST_TEXT_MAX) {
        return refuse(r, key, "no text of at most 4095 bytes");
    }
    *out = sc_arena_strndup(&r->out->arena, item->valuestring, strlen(item->valuestring));
    return *out != NULL ? SC_OK : no_memory(r);
}

static sc_status get_list(const reader *r, const cJSON *object, const char *key, size_t max,
                          const cJSON **out, size_t *n_out)
{
    SC_TRY(get(r, object, key, out));
    if (!cJSON_IsArray(*out)) {
        return refuse(r, key, "no list");
    }
    *n_out = (size_t)cJSON_GetArraySize(*out);
    return *n_out <= max ? SC_OK : refuse(r, key, "too many entries");
}

/* --- the parts of a manifest --- */

static sc_status read_model(reader *r, const cJSON *root)
{
    const cJSON *item = NULL;
    int n_keys = 0;
    sc_manifest_model *model = &r->out->model;
    SC_TRY(get(r, root, "model", &item));
#define COUNT_KEY(kind, field) n_keys++;
    SC_MANIFEST_MODEL_MAP(COUNT_KEY)
#undef COUNT_KEY
    SC_TRY(open_object(r, item, n_keys, "model"));
#define GET_INT(key, out) get_int(r, item, key, out)
#define GET_REAL(key, out) get_real(r, item, key, out)
#define GET_BOOL(key, out) get_bool(r, item, key, out)
#define GET_FIELD(kind, field) SC_TRY(GET_##kind(#field, &model->field));
    SC_MANIFEST_MODEL_MAP(GET_FIELD)
#undef GET_FIELD
#undef GET_BOOL
#undef GET_REAL
#undef GET_INT
    return SC_OK;
}

static sc_status read_data(reader *r, const cJSON *root)
{
    const cJSON *item = NULL;
    sc_manifest_data *data = &r->out->data;
    r->where[0] = '\0';
    SC_TRY(get(r, root, "data", &item));
    SC_TRY(open_object(r, item, 4, "data"));
    SC_TRY(get_text(r, item, "path", &data->path));
    SC_TRY(get_count(r, item, "seed", &data->seed));
    SC_TRY(get_count(r, item, "global_batch_size", &data->global_batch_size));
    return get_count(r, item, "sequence_length", &data->sequence_length);
}

static sc_status read_layout(reader *r, const cJSON *root)
{
    const cJSON *item = NULL;
    sc_manifest_layout *layout = &r->out->layout;
    r->where[0] = '\0';
    SC_TRY(get(r, root, "layout", &item));
    SC_TRY(open_object(r, item, 4, "layout"));
    SC_TRY(get_count(r, item, "pipeline_parallel", &layout->pipeline_parallel));
    SC_TRY(get_count(r, item, "tensor_parallel", &layout->tensor_parallel));
    SC_TRY(get_count(r, item, "data_parallel", &layout->data_parallel));
    return get_text(r, item, "schedule", &layout->schedule);
}

/* A name in the folder, and nothing that leads out of it. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL &&
           strcmp(name, SC_MANIFEST_FILE) != 0;
}

static sc_status read_files(reader *r, const cJSON *root)
{
    const cJSON *list = NULL;
    const cJSON *item = NULL;
    size_t n = 0;
    sc_manifest *m = r->out;
    r->where[0] = '\0';
    SC_TRY(get_list(r, root, "files", SC_MANIFEST_FILES_MAX, &list, &n));
    m->files = sc_arena_alloc(&m->arena, n, sizeof *m->files);
    if (m->files == NULL) {
        return no_memory(r);
    }
    cJSON_ArrayForEach(item, list)
    {
        char where[WHERE_MAX];
        sc_manifest_file *file = &m->files[m->n_files];
        (void)snprintf(where, sizeof where, "files[%zu]", m->n_files);
        sc_status status = open_object(r, item, 2, where);
        status = status != SC_OK ? status : get_text(r, item, "file", &file->name);
        status = status != SC_OK ? status : get_count(r, item, "bytes", &file->n_bytes);
        if (status == SC_OK && !is_plain_name(file->name)) {
            status = refuse(r, "file", "no plain name of a file in the folder");
        }
        for (size_t i = 0; status == SC_OK && i < m->n_files; i++) {
            status = strcmp(m->files[i].name, file->name) != 0
                         ? SC_OK
                         : refuse(r, "file", "a file that is listed before");
        }
        if (status != SC_OK) {
            return status;
        }
        m->n_files++;
    }
    return SC_OK;
}

static sc_status read_dtype(const reader *r, const cJSON *item, sc_safetensors_dtype *out)
{
    const cJSON *text = NULL;
    SC_TRY(get(r, item, "dtype", &text));
    for (int i = 0; cJSON_IsString(text) && i < SC_SAFETENSORS_COUNT; i++) {
        if (strcmp(text->valuestring, sc_manifest_format_dtype((sc_safetensors_dtype)i)) == 0) {
            *out = (sc_safetensors_dtype)i;
            return SC_OK;
        }
    }
    return refuse(r, "dtype", "unknown");
}

static sc_status read_shape(const reader *r, const cJSON *item, sc_manifest_tensor *out)
{
    const cJSON *list = NULL;
    const cJSON *dim = NULL;
    size_t n = 0;
    uint64_t n_elems = 0;
    SC_TRY(get_list(r, item, "shape", SC_SAFETENSORS_DIMS_MAX, &list, &n));
    cJSON_ArrayForEach(dim, list)
    {
        if (!cJSON_IsNumber(dim) || !(dim->valuedouble >= 0) ||
            dim->valuedouble > (double)SC_SAFETENSORS_BYTES_MAX ||
            dim->valuedouble != floor(dim->valuedouble)) {
            return refuse(r, "shape", "no list of sizes");
        }
        out->shape[out->n_dims++] = (int64_t)dim->valuedouble;
    }
    return sc_safetensors_count(out->shape, out->n_dims, &n_elems)
               ? SC_OK
               : refuse(r, "shape", "too many elements");
}

static sc_status read_shard(reader *r, const cJSON *item, sc_manifest_tensor *out)
{
    const cJSON *shard = NULL;
    uint64_t dim = 0;
    SC_TRY(get(r, item, "shard", &shard));
    if (!cJSON_IsObject(shard) || cJSON_GetArraySize(shard) != 3) {
        return refuse(r, "shard", "no object of dim, offset and length");
    }
    SC_TRY(get_count(r, shard, "dim", &dim));
    SC_TRY(get_int(r, shard, "offset", &out->shard_offset));
    SC_TRY(get_int(r, shard, "length", &out->shard_length));
    int64_t whole = dim < (uint64_t)out->n_dims ? out->shape[dim] : 1;
    if (dim > 0 && dim >= (uint64_t)out->n_dims) {
        return refuse(r, "shard", "a dimension that the shape does not have");
    }
    if (out->shard_offset > whole || out->shard_length > whole - out->shard_offset) {
        return refuse(r, "shard", "it ends outside the tensor");
    }
    out->shard_dim = (int)dim;
    return SC_OK;
}

/* Elements of a shard; the whole tensor's are known to be few enough. */
static uint64_t count_shard(const sc_manifest_tensor *tensor)
{
    int64_t shape[SC_SAFETENSORS_DIMS_MAX];
    uint64_t n = 0;
    memcpy(shape, tensor->shape, sizeof shape);
    if (tensor->n_dims == 0) {
        return (uint64_t)tensor->shard_length;
    }
    shape[tensor->shard_dim] = tensor->shard_length;
    (void)sc_safetensors_count(shape, tensor->n_dims, &n);
    return n;
}

static sc_status read_range(const reader *r, const cJSON *item, sc_manifest_tensor *out)
{
    static const unsigned SIZES[] = {
#define DTYPE_SIZE(name, bytes) [SC_SAFETENSORS_##name] = (bytes),
        SC_SAFETENSORS_MAP(DTYPE_SIZE)
#undef DTYPE_SIZE
    };
    uint64_t file_bytes = r->out->files[out->file].n_bytes;
    SC_TRY(get_count(r, item, "offset", &out->offset));
    SC_TRY(get_count(r, item, "bytes", &out->n_bytes));
    if (out->offset > file_bytes || out->n_bytes > file_bytes - out->offset) {
        return refuse(r, "bytes", "they end behind the file's end");
    }
    uint64_t size = SIZES[out->dtype];
    if (out->n_bytes % size != 0 || out->n_bytes / size != count_shard(out)) {
        return refuse(r, "bytes", "they do not fit dtype, shape and shard");
    }
    return SC_OK;
}

/* "xxh64:0123456789abcdef" */
static sc_status read_checksum(const reader *r, const cJSON *item, uint64_t *out)
{
    static const char DIGITS[] = "0123456789abcdef";
    const size_t n_prefix = sizeof CHECKSUM_PREFIX - 1;
    const cJSON *text = NULL;
    SC_TRY(get(r, item, "checksum", &text));
    if (!cJSON_IsString(text) || strncmp(text->valuestring, CHECKSUM_PREFIX, n_prefix) != 0 ||
        strlen(text->valuestring) != n_prefix + CHECKSUM_DIGITS ||
        strspn(text->valuestring + n_prefix, DIGITS) != CHECKSUM_DIGITS) {
        return refuse(r, "checksum", "not xxh64: and 16 hexadecimal digits");
    }
    *out = strtoull(text->valuestring + n_prefix, NULL, 16);
    return SC_OK;
}

static sc_status read_tensor(reader *r, const cJSON *item, size_t i)
{
    char where[WHERE_MAX];
    const char *file = "";
    sc_manifest_tensor *tensor = &r->out->tensors[i];
    (void)snprintf(where, sizeof where, "tensors[%zu]", i);
    SC_TRY(open_object(r, item, 8, where));
    SC_TRY(get_text(r, item, "name", &tensor->name));
    (void)snprintf(r->where, sizeof r->where, "tensor %.200s", tensor->name);
    SC_TRY(get_text(r, item, "file", &file));
    while (tensor->file < r->out->n_files && strcmp(r->out->files[tensor->file].name, file) != 0) {
        tensor->file++;
    }
    if (tensor->name[0] == '\0' || tensor->file == r->out->n_files) {
        return refuse(r, tensor->name[0] == '\0' ? "name" : "file", "not one of the manifest");
    }
    SC_TRY(read_dtype(r, item, &tensor->dtype));
    SC_TRY(read_shape(r, item, tensor));
    SC_TRY(read_shard(r, item, tensor));
    SC_TRY(read_range(r, item, tensor));
    return read_checksum(r, item, &tensor->checksum);
}

static sc_status read_tensors(reader *r, const cJSON *root)
{
    const cJSON *list = NULL;
    const cJSON *item = NULL;
    sc_manifest *m = r->out;
    size_t n = 0;
    r->where[0] = '\0';
    SC_TRY(get_list(r, root, "tensors", SC_SAFETENSORS_TENSORS_MAX, &list, &n));
    m->tensors = sc_arena_alloc(&m->arena, n, sizeof *m->tensors);
    if (m->tensors == NULL) {
        return no_memory(r);
    }
    cJSON_ArrayForEach(item, list)
    {
        sc_status status = read_tensor(r, item, m->n_tensors);
        if (status != SC_OK) {
            return status;
        }
        m->n_tensors++;
    }
    return SC_OK;
}

static sc_status read_root(reader *r, const cJSON *root)
{
    uint64_t version = 0;
    SC_TRY(open_object(r, root, 9, ""));
    SC_TRY(get_count(r, root, "format_version", &version));
    if (version != SC_MANIFEST_VERSION) {
        return sc_status_fail(r->err, SC_UNSUPPORTED,
                              "%s: format_version %" PRIu64 "; this program reads version %d: take "
                              "the release that wrote it",
                              r->name, version, SC_MANIFEST_VERSION);
    }
    SC_TRY(get_text(r, root, "program_version", &r->out->program_version));
    SC_TRY(get_count(r, root, "step", &r->out->step));
    SC_TRY(get_text(r, root, "optimizer", &r->out->optimizer));
    SC_TRY(read_model(r, root));
    SC_TRY(read_data(r, root));
    SC_TRY(read_layout(r, root));
    SC_TRY(read_files(r, root));
    return read_tensors(r, root);
}

sc_status sc_manifest_parse(const char *name, const char *text, size_t n, sc_manifest **out,
                            sc_err *err)
{
    sc_status status = SC_OK;
    const char *end = text;
    if (n > SC_MANIFEST_BYTES_MAX) {
        return sc_status_fail(err, SC_LIMIT, "%s: over %d bytes, more than a manifest may have",
                              name, SC_MANIFEST_BYTES_MAX);
    }
    sc_manifest *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %s", name);
    }
    sc_arena_init(&m->arena, 0);
    reader r = {.name = name, .out = m, .err = err};
    cJSON *root = cJSON_ParseWithLengthOpts(text, n, &end, 0);
    while (root != NULL && end < text + n && (*end == '\n' || *end == ' ')) {
        end++;
    }
    if (root == NULL || end != text + n) {
        status = sc_status_fail(err, SC_INVALID, "%s: byte %zu: malformed JSON, or cut off", name,
                                end == NULL ? 0 : (size_t)(end - text));
        goto out;
    }
    SC_GOTO(read_root(&r, root));
    *out = m;
    m = NULL;
out:
    cJSON_Delete(root);
    sc_manifest_free(&m);
    return status;
}

void sc_manifest_free(sc_manifest **manifest)
{
    if (*manifest != NULL) {
        sc_arena_done(&(*manifest)->arena);
        free(*manifest);
        *manifest = NULL;
    }
}

const sc_manifest_tensor *sc_manifest_find(const sc_manifest *manifest, const char *tensor)
{
    for (size_t i = 0; i < manifest->n_tensors; i++) {
        if (strcmp(manifest->tensors[i].name, tensor) == 0) {
            return &manifest->tensors[i];
        }
    }
    return NULL;
}
