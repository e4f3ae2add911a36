#include "formats/manifest.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SHAPE_TEXT_MAX = 256
};

const char *sc_manifest_format_dtype(sc_safetensors_dtype dtype)
{
    static const char *const TEXTS[] = {
#define DTYPE_TEXT(name, bytes) [SC_SAFETENSORS_##name] = #name,
        SC_SAFETENSORS_MAP(DTYPE_TEXT)
#undef DTYPE_TEXT
    };
    return TEXTS[dtype];
}

const char *sc_manifest_format_shape(const int64_t *shape, int n_dims, char *out, size_t n)
{
    size_t used = (size_t)snprintf(out, n, "[");
    for (int i = 0; i < n_dims && used < n; i++) {
        used += (size_t)snprintf(out + used, n - used, "%s%" PRId64, i == 0 ? "" : ", ", shape[i]);
    }
    if (used < n) {
        (void)snprintf(out + used, n - used, "]");
    }
    return out;
}

/* A text with JSON's quotes and escapes; false when out of memory. */
static bool add_text(FILE *file, const char *before, const char *text)
{
    cJSON *item = cJSON_CreateString(text);
    char *quoted = item == NULL ? NULL : cJSON_PrintUnformatted(item);
    if (quoted != NULL) {
        (void)fprintf(file, "%s%s", before, quoted);
    }
    bool is_whole = quoted != NULL;
    cJSON_free(quoted);
    cJSON_Delete(item);
    return is_whole;
}

static void add_model(FILE *file, const sc_manifest_model *model)
{
    const char *comma = "";
    (void)fprintf(file, ",\n \"model\": {");
#define ADD_INT(field) (void)fprintf(file, "%s\"" #field "\": %" PRId64, comma, model->field);
#define ADD_REAL(field) (void)fprintf(file, "%s\"" #field "\": %.17g", comma, model->field);
#define ADD_BOOL(field) \
    (void)fprintf(file, "%s\"" #field "\": %s", comma, model->field ? "true" : "false");
#define ADD_FIELD(kind, field) \
    ADD_##kind(field); \
    comma = ", ";
    SC_MANIFEST_MODEL_MAP(ADD_FIELD)
#undef ADD_FIELD
#undef ADD_BOOL
#undef ADD_REAL
#undef ADD_INT
    (void)fprintf(file, "}");
}

static bool add_facts(FILE *file, const sc_manifest *m)
{
    (void)fprintf(file, "{\"format_version\": %d", SC_MANIFEST_VERSION);
    bool is_whole = add_text(file, ",\n \"program_version\": ", m->program_version);
    (void)fprintf(file, ",\n \"step\": %" PRIu64, m->step);
    is_whole = is_whole && add_text(file, ",\n \"optimizer\": ", m->optimizer);
    add_model(file, &m->model);
    is_whole = is_whole && add_text(file, ",\n \"data\": {\"path\": ", m->data.path);
    (void)fprintf(file,
                  ", \"seed\": %" PRIu64 ", \"global_batch_size\": %" PRIu64
                  ", \"sequence_length\": %" PRIu64 "}",
                  m->data.seed, m->data.global_batch_size, m->data.sequence_length);
    (void)fprintf(file,
                  ",\n \"layout\": {\"pipeline_parallel\": %" PRIu64
                  ", \"tensor_parallel\": %" PRIu64 ", \"data_parallel\": %" PRIu64,
                  m->layout.pipeline_parallel, m->layout.tensor_parallel, m->layout.data_parallel);
    is_whole = is_whole && add_text(file, ", \"schedule\": ", m->layout.schedule);
    (void)fprintf(file, "}");
    return is_whole;
}

static bool add_tensor(FILE *file, const sc_manifest *m, const sc_manifest_tensor *tensor)
{
    char shape[SHAPE_TEXT_MAX];
    bool is_whole = add_text(file, "  {\"name\": ", tensor->name) &&
                    add_text(file, ", \"file\": ", m->files[tensor->file].name);
    (void)fprintf(
        file,
        ", \"dtype\": \"%s\", \"shape\": %s, \"shard\": {\"dim\": %d, \"offset\": %" PRId64
        ", \"length\": %" PRId64 "}, \"offset\": %" PRIu64 ", \"bytes\": %" PRIu64
        ", \"checksum\": \"xxh64:%016" PRIx64 "\"}",
        sc_manifest_format_dtype(tensor->dtype),
        sc_manifest_format_shape(tensor->shape, tensor->n_dims, shape, sizeof shape),
        tensor->shard_dim, tensor->shard_offset, tensor->shard_length, tensor->offset,
        tensor->n_bytes, tensor->checksum);
    return is_whole;
}

sc_status sc_manifest_format(const sc_manifest *manifest, char **out, sc_err *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    if (file == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a manifest");
    }
    bool is_whole = add_facts(file, manifest);
    (void)fprintf(file, ",\n \"files\": [");
    for (size_t i = 0; i < manifest->n_files; i++) {
        is_whole = is_whole && add_text(file, i == 0 ? "\n  {\"file\": " : ",\n  {\"file\": ",
                                        manifest->files[i].name);
        (void)fprintf(file, ", \"bytes\": %" PRIu64 "}", manifest->files[i].n_bytes);
    }
    (void)fprintf(file, "],\n \"tensors\": [");
    for (size_t i = 0; i < manifest->n_tensors; i++) {
        (void)fprintf(file, "%s\n", i == 0 ? "" : ",");
        is_whole = is_whole && add_tensor(file, manifest, &manifest->tensors[i]);
    }
    (void)fprintf(file, "]}\n");
    is_whole = ferror(file) == 0 && is_whole;
    if (fclose(file) != 0 || !is_whole) {
        free(text);
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a manifest");
    }
    *out = text;
    return SC_OK;
}
