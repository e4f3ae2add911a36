#include "formats/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SHAPE_TEXT_MAX = 256
};

static sc_status check_int(const char *name, const char *field, int64_t theirs, int64_t ours,
                           sc_err *err)
{
    return theirs == ours ? SC_OK
                          : sc_status_fail(err, SC_INVALID,
                                           "%s: model.%s is %" PRId64 ", the job has %" PRId64
                                           ": go on with the job's own checkpoint",
                                           name, field, theirs, ours);
}

static sc_status check_real(const char *name, const char *field, double theirs, double ours,
                            sc_err *err)
{
    return theirs == ours ? SC_OK
                          : sc_status_fail(err, SC_INVALID,
                                           "%s: model.%s is %.17g, the job has %.17g: go on with "
                                           "the job's own checkpoint",
                                           name, field, theirs, ours);
}

static sc_status check_bool(const char *name, const char *field, bool theirs, bool ours,
                            sc_err *err)
{
    return theirs == ours
               ? SC_OK
               : sc_status_fail(err, SC_INVALID,
                                "%s: model.%s is %s, the job has %s: go on with the job's own "
                                "checkpoint",
                                name, field, theirs ? "true" : "false", ours ? "true" : "false");
}

sc_status sc_manifest_check_model(const char *name, const sc_manifest_model *theirs,
                                  const sc_manifest_model *ours, sc_err *err)
{
#define CHECK_INT check_int
#define CHECK_REAL check_real
#define CHECK_BOOL check_bool
#define CHECK_FIELD(kind, field) \
    SC_TRY(CHECK_##kind(name, #field, theirs->field, ours->field, err));
    SC_MANIFEST_MODEL_MAP(CHECK_FIELD)
#undef CHECK_FIELD
#undef CHECK_BOOL
#undef CHECK_REAL
#undef CHECK_INT
    return SC_OK;
}

/* The shape of what the file has of a tensor. */
static void shard_shape(const sc_manifest_tensor *tensor, int64_t out[SC_SAFETENSORS_DIMS_MAX])
{
    memcpy(out, tensor->shape, sizeof tensor->shape);
    if (tensor->n_dims > 0) {
        out[tensor->shard_dim] = tensor->shard_length;
    }
}

static sc_status check_tensor(const sc_manifest_tensor *tensor, const char *path,
                              const sc_safetensors *head, sc_err *err)
{
    char said[SHAPE_TEXT_MAX];
    char is[SHAPE_TEXT_MAX];
    int64_t shape[SC_SAFETENSORS_DIMS_MAX];
    const sc_safetensors_entry *entry = sc_safetensors_find(head, tensor->name);
    if (entry == NULL) {
        return sc_status_fail(err, SC_INVALID, "%s: tensor %s: missing, the manifest names it",
                              path, tensor->name);
    }
    if (entry->dtype != tensor->dtype) {
        return sc_status_fail(err, SC_INVALID, "%s: tensor %s: dtype %s, the manifest says %s",
                              path, tensor->name, sc_manifest_format_dtype(entry->dtype),
                              sc_manifest_format_dtype(tensor->dtype));
    }
    shard_shape(tensor, shape);
    if (entry->n_dims != tensor->n_dims ||
        memcmp(entry->shape, shape, (size_t)entry->n_dims * sizeof *shape) != 0) {
        return sc_status_fail(err, SC_INVALID, "%s: tensor %s: shape %s, the manifest says %s",
                              path, tensor->name,
                              sc_manifest_format_shape(entry->shape, entry->n_dims, is, sizeof is),
                              sc_manifest_format_shape(shape, tensor->n_dims, said, sizeof said));
    }
    if (entry->offset != tensor->offset) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: tensor %s: at byte %" PRIu64 ", the manifest says %" PRIu64,
                              path, tensor->name, entry->offset, tensor->offset);
    }
    return SC_OK;
}

static bool is_listed(const sc_manifest *manifest, size_t file, const char *name)
{
    for (size_t i = 0; i < manifest->n_tensors; i++) {
        if (manifest->tensors[i].file == file && strcmp(manifest->tensors[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

sc_status sc_manifest_check_head(const sc_manifest *manifest, size_t file, const char *path,
                                 const sc_safetensors *head, sc_err *err)
{
    sc_status status = SC_OK;
    for (size_t i = 0; status == SC_OK && i < manifest->n_tensors; i++) {
        if (manifest->tensors[i].file == file) {
            status = check_tensor(&manifest->tensors[i], path, head, err);
        }
    }
    for (size_t i = 0; status == SC_OK && i < head->n_entries; i++) {
        if (!is_listed(manifest, file, head->entries[i].name)) {
            return sc_status_fail(err, SC_INVALID,
                                  "%s: tensor %s: extra, the manifest does not name it", path,
                                  head->entries[i].name);
        }
    }
    return status;
}
