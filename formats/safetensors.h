/*
 * safetensors - the header of a file of named tensors: 8 bytes of length, JSON; the data follows.
 *
 * Works on byte ranges that the caller read; opens nothing. Every dtype of the format is read as a
 * range of bytes. The data must be covered once and without holes, as the format demands.
 * safetensors_write writes such files.
 */
#ifndef SC_FORMATS_SAFETENSORS_H
#define SC_FORMATS_SAFETENSORS_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SC_SAFETENSORS_DIMS_MAX = 8,
    SC_SAFETENSORS_NAME_MAX = 1024,                // bytes of a name
    SC_SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000, // bytes of JSON, by the format
    SC_SAFETENSORS_TENSORS_MAX = 1 << 20
};

/* Largest offset, size or dimension. JSON numbers are doubles, and cJSON prints them exactly below
   this. */
#define SC_SAFETENSORS_BYTES_MAX UINT64_C(1000000000000000)

/* name, bytes of an element */
#define SC_SAFETENSORS_MAP(X) \
    X(BOOL, 1) \
    X(U8, 1) \
    X(I8, 1) \
    X(F8_E5M2, 1) \
    X(F8_E4M3, 1) \
    X(I16, 2) \
    X(U16, 2) \
    X(F16, 2) \
    X(BF16, 2) \
    X(I32, 4) \
    X(U32, 4) \
    X(F32, 4) \
    X(F64, 8) \
    X(I64, 8) \
    X(U64, 8)

#define SC_SAFETENSORS_ENUM(name, bytes) SC_SAFETENSORS_##name,
typedef enum sc_safetensors_dtype {
    SC_SAFETENSORS_MAP(SC_SAFETENSORS_ENUM) SC_SAFETENSORS_COUNT
} sc_safetensors_dtype;
#undef SC_SAFETENSORS_ENUM

/* Elements of a shape; false when a size is negative or the product over SC_SAFETENSORS_BYTES_MAX.
 */
bool sc_safetensors_count(const int64_t *shape, int n_dims, uint64_t *out);

/* One tensor found in a file. */
typedef struct sc_safetensors_entry {
    const char *name;
    sc_safetensors_dtype dtype;
    int n_dims;
    int64_t shape[SC_SAFETENSORS_DIMS_MAX];
    uint64_t n_elems;
    uint64_t offset; // of its first byte in the file
    uint64_t n_bytes;
} sc_safetensors_entry;

typedef struct sc_safetensors {
    sc_arena arena; // owns what follows
    size_t n_entries;
    sc_safetensors_entry *entries; // in file order
    size_t n_metadata;
    const char **metadata; // key, value, key, value ...
} sc_safetensors;

/* Bytes from the file's start that sc_safetensors_parse needs, from its first 8. SC_INVALID when
   the length is over the limit or the file. */
sc_status sc_safetensors_head_bytes(const char *name, const uint8_t first[8], uint64_t file_bytes,
                                    size_t *out, sc_err *err);
/* Parses the head (the first n_head bytes, as many as sc_safetensors_head_bytes said) of a file of
   file_bytes. Checks JSON, names, dtypes, shapes, offsets, overlaps and holes. Caller frees. */
sc_status sc_safetensors_parse(const char *name, const void *head, size_t n_head,
                               uint64_t file_bytes, sc_safetensors **out, sc_err *err);
void sc_safetensors_free(sc_safetensors **safetensors);
/* NULL when there is none of that name. */
const sc_safetensors_entry *sc_safetensors_find(const sc_safetensors *safetensors,
                                                const char *name);

#endif
