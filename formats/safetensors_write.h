/*
 * safetensors_write - writes a safetensors file through a callback.
 *
 * F32 tensors, the data aligned to 8 and without holes. Opens nothing; holds only the header.
 */
#ifndef SC_FORMATS_SAFETENSORS_WRITE_H
#define SC_FORMATS_SAFETENSORS_WRITE_H

#include "formats/safetensors.h"

/* One tensor to write. */
typedef struct sc_safetensor {
    const char *name; // borrowed
    int n_dims;       // 0: a scalar
    int64_t shape[SC_SAFETENSORS_DIMS_MAX];
    const float *data; // borrowed; as many floats as the shape says
} sc_safetensor;

/* Takes the next n bytes of the file. */
typedef sc_status (*sc_safetensors_sink)(void *context, const void *bytes, size_t n, sc_err *err);

/* Hands the whole file to the sink, piece by piece, tensors in the given order. metadata:
   n_metadata pairs key, value (2 n_metadata strings), may be NULL. Refuses two tensors of one name.
 */
sc_status sc_safetensors_write(const sc_safetensor *tensors, size_t n_tensors,
                               const char *const *metadata, size_t n_metadata,
                               sc_safetensors_sink sink, void *context, sc_err *err);

#endif
