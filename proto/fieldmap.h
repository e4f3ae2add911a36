/*
 * fieldmap - one table a message: where each field is in the plain struct, and its limits.
 *
 * codec walks a table beside protobuf-c's own descriptor of the same message: entry k of the one is
 * field k of the other, so a message costs its lines here and nothing else. Private to proto/.
 */
#ifndef SC_PROTO_FIELDMAP_H
#define SC_PROTO_FIELDMAP_H

#include "proto/messages.h"

#include <protobuf-c/protobuf-c.h>

/* Limits of what a message may carry. The schedule library has the same ones for its tables. */
enum {
    SC_FIELDMAP_RANKS_MAX = 4096,
    SC_FIELDMAP_STAGES_MAX = 4096,
    SC_FIELDMAP_MICROBATCHES_MAX = 65536,
    SC_FIELDMAP_OPS_MAX = 64,
    SC_FIELDMAP_SPANS_MAX = 1 << 20,
    SC_FIELDMAP_TENSORS_MAX = 1 << 17,
    SC_FIELDMAP_DIMS_MAX = 2,
    SC_FIELDMAP_TEXT_MAX = 64 * 1024,             // bytes
    SC_FIELDMAP_LONG_TEXT_MAX = 32 * 1024 * 1024, // rows and what else grows with the schedule
};

typedef enum sc_field_kind {
    SC_FIELD_INT,   // min <= value <= max
    SC_FIELD_ANY,   // any bits: seeds, and results that may be NaN
    SC_FIELD_REAL,  // finite
    SC_FIELD_TEXT,  // UTF-8, at most max bytes
    SC_FIELD_TEXTS, // array of texts of at most SC_FIELDMAP_TEXT_MAX bytes, at most max of them
    SC_FIELD_SUB,   // a message in place
    SC_FIELD_LIST   // array of messages, at most max of them
} sc_field_kind;

typedef struct sc_fieldmap sc_fieldmap;

typedef struct sc_field {
    const char *name;
    sc_field_kind kind;
    size_t offset;   // in the plain struct
    size_t size;     // there
    size_t n_offset; // TEXTS, LIST: of the size_t count
    int64_t min;
    int64_t max;
    const sc_fieldmap *map; // SUB, LIST
} sc_field;

struct sc_fieldmap {
    const char *name; // in lower case, for people
    const ProtobufCMessageDescriptor *wire;
    size_t size; // of the plain struct
    size_t n_fields;
    const sc_field *fields; // (n_fields), in the order of stagecoach.proto
};

/* The map of a message type; NULL when there is no such type. */
const sc_fieldmap *sc_fieldmap_get(unsigned type);

#endif
