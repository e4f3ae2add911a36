#include "formats/safetensors_write.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum {
    LENGTH_BYTES = 8,
    ALIGNMENT = 8,
    PIECE_BYTES = 1 << 20 // largest piece handed to a sink
};

static sc_status no_memory(sc_err *err)
{
    return sc_status_fail(err, SC_NO_MEMORY, "no memory for a safetensors header");
}

/* {"dtype":"F32","shape":[..],"data_offsets":[begin,end]}; NULL when out of memory. */
static cJSON *make_entry(const sc_safetensor *tensor, uint64_t begin, uint64_t end)
{
    cJSON *entry = cJSON_CreateObject();
    cJSON *shape = cJSON_CreateArray();
    bool is_ok = cJSON_AddStringToObject(entry, "dtype", "F32") != NULL;
    for (int i = 0; i < tensor->n_dims; i++) {
        cJSON *dim = cJSON_CreateNumber((double)tensor->shape[i]);
        is_ok = cJSON_AddItemToArray(shape, dim) && is_ok;
    }
    is_ok = cJSON_AddItemToObject(entry, "shape", shape) && is_ok;
    cJSON *offsets = cJSON_AddArrayToObject(entry, "data_offsets");
    is_ok = cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)begin)) && is_ok;
    is_ok = cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)end)) && is_ok;
    if (!is_ok) {
        cJSON_Delete(entry);
        return NULL;
    }
    return entry;
}

static bool add_metadata(cJSON *root, const char *const *metadata, size_t n_metadata)
{
    if (n_metadata == 0) {
        return true;
    }
    cJSON *object = cJSON_AddObjectToObject(root, "__metadata__");
    bool is_ok = object != NULL;
    for (size_t i = 0; is_ok && i < n_metadata; i++) {
        is_ok = cJSON_AddStringToObject(object, metadata[2 * i], metadata[2 * i + 1]) != NULL;
    }
    return is_ok;
}

static sc_status add_tensors(cJSON *root, const sc_safetensor *tensors, size_t n_tensors,
                             sc_err *err)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        uint64_t n_elems = 0;
        if (!sc_safetensors_count(tensors[i].shape, tensors[i].n_dims, &n_elems) ||
            n_elems > (SC_SAFETENSORS_BYTES_MAX - offset) / sizeof(float)) {
            return sc_status_fail(err, SC_LIMIT, "tensor %s is too large", tensors[i].name);
        }
        uint64_t end = offset + n_elems * sizeof(float);
        cJSON *entry = make_entry(&tensors[i], offset, end);
        if (entry == NULL || !cJSON_AddItemToObject(root, tensors[i].name, entry)) {
            cJSON_Delete(entry);
            return no_memory(err);
        }
        offset = end;
    }
    return SC_OK;
}

static sc_status write_text(const char *text, sc_safetensors_sink sink, void *context, sc_err *err)
{
    static const char SPACES[ALIGNMENT] = {' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '};
    size_t n_text = strlen(text);
    size_t n_pad = (ALIGNMENT - n_text % ALIGNMENT) % ALIGNMENT;
    uint64_t length = n_text + n_pad;
    if (length > SC_SAFETENSORS_HEADER_MAX) {
        return sc_status_fail(err, SC_LIMIT, "a header of %" PRIu64 " bytes, at most %d may be",
                              length, SC_SAFETENSORS_HEADER_MAX);
    }
    uint8_t first[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++) {
        first[i] = (uint8_t)(length >> (8 * i));
    }
    SC_TRY(sink(context, first, sizeof first, err));
    SC_TRY(sink(context, text, n_text, err));
    return n_pad == 0 ? SC_OK : sink(context, SPACES, n_pad, err);
}

static sc_status write_header(const sc_safetensor *tensors, size_t n_tensors,
                              const char *const *metadata, size_t n_metadata,
                              sc_safetensors_sink sink, void *context, sc_err *err)
{
    sc_status status = SC_OK;
    char *text = NULL;
    cJSON *root = cJSON_CreateObject();
    if (root == NULL || !add_metadata(root, metadata, n_metadata)) {
        status = no_memory(err);
        goto out;
    }
    SC_GOTO(add_tensors(root, tensors, n_tensors, err));
    text = cJSON_PrintUnformatted(root);
    if (text == NULL) {
        status = no_memory(err);
        goto out;
    }
    status = write_text(text, sink, context, err);
out:
    cJSON_free(text);
    cJSON_Delete(root);
    return status;
}

/* The floats' bytes go out as they are: every machine that this runs on is little-endian. */
static sc_status write_data(const sc_safetensor *tensor, sc_safetensors_sink sink, void *context,
                            sc_err *err)
{
    uint64_t n_elems = 0;
    (void)sc_safetensors_count(tensor->shape, tensor->n_dims, &n_elems); // checked by add_tensors
    const char *bytes = (const char *)tensor->data;
    uint64_t left = n_elems * sizeof(float);
    while (left > 0) {
        size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        SC_TRY(sink(context, bytes, n, err));
        bytes += n;
        left -= n;
    }
    return SC_OK;
}

sc_status sc_safetensors_write(const sc_safetensor *tensors, size_t n_tensors,
                               const char *const *metadata, size_t n_metadata,
                               sc_safetensors_sink sink, void *context, sc_err *err)
{
    if (n_tensors > SC_SAFETENSORS_TENSORS_MAX) {
        return sc_status_fail(err, SC_LIMIT, "%zu tensors, a file holds at most %d", n_tensors,
                              SC_SAFETENSORS_TENSORS_MAX);
    }
    SC_TRY(write_header(tensors, n_tensors, metadata, n_metadata, sink, context, err));
    for (size_t i = 0; i < n_tensors; i++) {
        SC_TRY(write_data(&tensors[i], sink, context, err));
    }
    return SC_OK;
}
