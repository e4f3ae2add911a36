/*
 * comm_host_wire - the header in front of every frame on a data socket: bytes in, bytes out.
 *
 * A data or group message is two ZeroMQ parts, this header and up to SC_COMM_CHUNK_BYTES of
 * payload; hello, welcome and credit are the header alone. All numbers are little-endian. Any
 * change of the layout is a new version.
 *
 * Does not: know channels or groups; what a header says is judged by its receiver.
 */
#ifndef SC_STAGE_COMM_COMM_HOST_WIRE_H
#define SC_STAGE_COMM_COMM_HOST_WIRE_H

#include "kernels/backend.h"
#include "stage/comm/comm.h"

enum {
    SC_COMM_WIRE_MAGIC = 0x31444353, // "SCD1"
    SC_COMM_WIRE_VERSION = 1,
    SC_COMM_WIRE_TENSORS_MAX = 8,
    SC_COMM_WIRE_FIXED_BYTES = 80,
    SC_COMM_WIRE_TENSOR_BYTES = 16,
    SC_COMM_WIRE_BYTES_MAX =
        SC_COMM_WIRE_FIXED_BYTES + SC_COMM_WIRE_TENSORS_MAX * SC_COMM_WIRE_TENSOR_BYTES,
    SC_COMM_CHUNK_BYTES = 1 << 20 // a message longer than this travels in several frames
};

/* name, number on the wire, text */
#define SC_COMM_WIRE_TYPE_MAP(X) \
    X(HELLO, 1, "hello")     /* first frame of a connection: who calls */ \
    X(WELCOME, 2, "welcome") /* its answer */ \
    X(DATA, 3, "data")       /* a chunk of a channel's message */ \
    X(CREDIT, 4, "credit")   /* message `sequence` of a channel may be sent */ \
    X(GATHER, 5, "gather")   /* a chunk of a member's piece */ \
    X(PART, 6, "part")       /* a chunk of a member's addend, to the owner */ \
    X(SUM, 7, "sum")         /* a chunk of the owner's sum */

#define SC_COMM_WIRE_ENUM(name, number, text) SC_COMM_WIRE_##name = (number),
typedef enum sc_comm_wire_type {
    SC_COMM_WIRE_TYPE_MAP(SC_COMM_WIRE_ENUM)
} sc_comm_wire_type;
#undef SC_COMM_WIRE_ENUM

typedef struct sc_comm_tensor {
    sc_dtype dtype;
    uint64_t n_bytes;
} sc_comm_tensor;

/* Fields that a type has no use for are 0. */
typedef struct sc_comm_wire {
    sc_comm_wire_type type;
    uint64_t epoch;
    uint32_t rank;     // who sends the frame
    int32_t from;      // channel: sending stage; group: id
    int32_t to;        // channel: receiving stage; group: member whose piece, addend or sum it is;
                       // hello: rank that is called
    sc_comm_kind kind; // channel
    sc_comm_tag tag;   // data
    uint64_t sequence; // of the message on its channel, of the operation in its group
    uint64_t offset;   // of this chunk within the message, piece, addend or sum
    uint64_t total;    // data: of the message; group: bytes that the operation was called with
    int64_t ready_ns;  // data: the sender's clock; group: latest call by a member that is known
    int n_tensors;     // data: at least 1, and their lengths add up to total; else 0
    sc_comm_tensor tensors[SC_COMM_WIRE_TENSORS_MAX];
} sc_comm_wire;

/* Writes the header, returns its length. */
size_t sc_comm_host_wire_pack(const sc_comm_wire *wire, unsigned char out[SC_COMM_WIRE_BYTES_MAX]);
/* Reads exactly n bytes; anything wrong, missing or left over is SC_PROTOCOL. */
sc_status sc_comm_host_wire_unpack(const void *data, size_t n, sc_comm_wire *out, sc_err *err);
/* Text of a type; "?" for a number that is none. */
const char *sc_comm_host_wire_text(sc_comm_wire_type type);
/* "activations", "gradients", "state": what a channel carries. */
const char *sc_comm_host_wire_kind_text(sc_comm_kind kind);

#endif
