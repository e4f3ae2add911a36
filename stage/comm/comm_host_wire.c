#include "stage/comm/comm_host_wire.h"

#include <assert.h>
#include <string.h>

/* Offsets of the fixed part. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_TYPE = 6,
    AT_N_TENSORS = 7,
    AT_EPOCH = 8,
    AT_RANK = 16,
    AT_FROM = 20,
    AT_TO = 24,
    AT_KIND = 28,
    AT_STEP = 32,
    AT_STAGE = 40,
    AT_MB = 44,
    AT_SEQUENCE = 48,
    AT_OFFSET = 56,
    AT_TOTAL = 64,
    AT_READY = 72
};

static void put(unsigned char *p, int n_bytes, uint64_t value)
{
    for (int i = 0; i < n_bytes; i++) {
        p[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t get(const unsigned char *p, int n_bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++) {
        value |= (uint64_t)p[i] << (8 * i);
    }
    return value;
}

const char *sc_comm_host_wire_text(sc_comm_wire_type type)
{
    switch (type) {
#define WIRE_CASE(name, number, text) \
    case SC_COMM_WIRE_##name: \
        return text;
        SC_COMM_WIRE_TYPE_MAP(WIRE_CASE)
#undef WIRE_CASE
    }
    return "?";
}

size_t sc_comm_host_wire_pack(const sc_comm_wire *wire, unsigned char out[SC_COMM_WIRE_BYTES_MAX])
{
    assert(wire->n_tensors >= 0 && wire->n_tensors <= SC_COMM_WIRE_TENSORS_MAX);
    put(out + AT_MAGIC, 4, SC_COMM_WIRE_MAGIC);
    put(out + AT_VERSION, 2, SC_COMM_WIRE_VERSION);
    put(out + AT_TYPE, 1, wire->type);
    put(out + AT_N_TENSORS, 1, (uint64_t)wire->n_tensors);
    put(out + AT_EPOCH, 8, wire->epoch);
    put(out + AT_RANK, 4, wire->rank);
    put(out + AT_FROM, 4, (uint32_t)wire->from);
    put(out + AT_TO, 4, (uint32_t)wire->to);
    put(out + AT_KIND, 4, wire->kind);
    put(out + AT_STEP, 8, wire->tag.step);
    put(out + AT_STAGE, 4, (uint32_t)wire->tag.stage);
    put(out + AT_MB, 4, (uint32_t)wire->tag.mb);
    put(out + AT_SEQUENCE, 8, wire->sequence);
    put(out + AT_OFFSET, 8, wire->offset);
    put(out + AT_TOTAL, 8, wire->total);
    put(out + AT_READY, 8, (uint64_t)wire->ready_ns);
    unsigned char *p = out + SC_COMM_WIRE_FIXED_BYTES;
    for (int i = 0; i < wire->n_tensors; i++) {
        put(p, 8, wire->tensors[i].dtype);
        put(p + 8, 8, wire->tensors[i].n_bytes);
        p += SC_COMM_WIRE_TENSOR_BYTES;
    }
    return (size_t)(p - out);
}

static sc_status unpack_tensors(const unsigned char *p, sc_comm_wire *wire, sc_err *err)
{
    bool is_data = wire->type == SC_COMM_WIRE_DATA;
    if (wire->n_tensors > SC_COMM_WIRE_TENSORS_MAX || is_data != (wire->n_tensors > 0)) {
        return sc_status_fail(err, SC_PROTOCOL, "%s frame with %d tensors",
                              sc_comm_host_wire_text(wire->type), wire->n_tensors);
    }
    uint64_t left = wire->total;
    for (int i = 0; i < wire->n_tensors; i++, p += SC_COMM_WIRE_TENSOR_BYTES) {
        uint64_t dtype = get(p, 8);
        uint64_t n_bytes = get(p + 8, 8);
        if (dtype >= SC_DTYPE_COUNT || n_bytes == 0 || n_bytes > left) {
            return sc_status_fail(err, SC_PROTOCOL,
                                  "tensor %d of %d has dtype %llu and %llu bytes, %llu are left", i,
                                  wire->n_tensors, (unsigned long long)dtype,
                                  (unsigned long long)n_bytes, (unsigned long long)left);
        }
        wire->tensors[i].dtype = (sc_dtype)dtype;
        wire->tensors[i].n_bytes = n_bytes;
        left -= n_bytes;
    }
    if (is_data && left != 0) {
        return sc_status_fail(err, SC_PROTOCOL, "tensors are %llu bytes short of the total %llu",
                              (unsigned long long)left, (unsigned long long)wire->total);
    }
    return SC_OK;
}

sc_status sc_comm_host_wire_unpack(const void *data, size_t n, sc_comm_wire *out, sc_err *err)
{
    const unsigned char *p = data;
    if (n < SC_COMM_WIRE_FIXED_BYTES) {
        return sc_status_fail(err, SC_PROTOCOL, "header of %zu bytes, at least %d expected", n,
                              SC_COMM_WIRE_FIXED_BYTES);
    }
    if (get(p + AT_MAGIC, 4) != SC_COMM_WIRE_MAGIC) {
        return sc_status_fail(err, SC_PROTOCOL, "header starts with %08llx, not with the magic",
                              (unsigned long long)get(p + AT_MAGIC, 4));
    }
    if (get(p + AT_VERSION, 2) != SC_COMM_WIRE_VERSION) {
        return sc_status_fail(err, SC_PROTOCOL, "header has version %llu, this is version %d",
                              (unsigned long long)get(p + AT_VERSION, 2), SC_COMM_WIRE_VERSION);
    }
    sc_comm_wire wire = {
        .type = (sc_comm_wire_type)get(p + AT_TYPE, 1),
        .epoch = get(p + AT_EPOCH, 8),
        .rank = (uint32_t)get(p + AT_RANK, 4),
        .from = (int32_t)get(p + AT_FROM, 4),
        .to = (int32_t)get(p + AT_TO, 4),
        .tag = {.step = get(p + AT_STEP, 8),
                .stage = (int32_t)get(p + AT_STAGE, 4),
                .mb = (int32_t)get(p + AT_MB, 4)},
        .sequence = get(p + AT_SEQUENCE, 8),
        .offset = get(p + AT_OFFSET, 8),
        .total = get(p + AT_TOTAL, 8),
        .ready_ns = (int64_t)get(p + AT_READY, 8),
        .n_tensors = (int)get(p + AT_N_TENSORS, 1),
    };
    uint64_t kind = get(p + AT_KIND, 4);
    if (sc_comm_host_wire_text(wire.type)[0] == '?' || kind > SC_COMM_STATE) {
        return sc_status_fail(err, SC_PROTOCOL, "header has type %d and kind %llu", (int)wire.type,
                              (unsigned long long)kind);
    }
    wire.kind = (sc_comm_kind)kind;
    size_t n_expected =
        SC_COMM_WIRE_FIXED_BYTES + (size_t)wire.n_tensors * SC_COMM_WIRE_TENSOR_BYTES;
    if (n != n_expected) {
        return sc_status_fail(err, SC_PROTOCOL, "header of %zu bytes with %d tensors, not %zu", n,
                              wire.n_tensors, n_expected);
    }
    SC_TRY(unpack_tensors(p + SC_COMM_WIRE_FIXED_BYTES, &wire, err));
    *out = wire;
    return SC_OK;
}

const char *sc_comm_host_wire_kind_text(sc_comm_kind kind)
{
    static const char *const TEXTS[] = {"activations", "gradients", "state"};
    return TEXTS[kind];
}
