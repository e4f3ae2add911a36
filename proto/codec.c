#include "proto/codec.h"

#include "proto/fieldmap.h"
#include "proto/frame.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What protobuf-c may allocate for one payload: a bound on how much memory a small frame can claim.
   An empty element of a list costs two bytes of payload and about 200 of memory; honest lists cost
   under 16 times their bytes. */
enum {
    BUDGET_PER_BYTE = 16,
    BUDGET_BASE = 1 << 20,
    BUDGET_MAX = 256 << 20
};

typedef struct budget {
    size_t left;
    sc_arena *arena; // whose memory it is
    bool is_short;   // the arena had none left
} budget;

static void *budget_alloc(void *data, size_t n)
{
    budget *b = data;
    if (n > b->left) {
        return NULL;
    }
    b->left -= n;
    void *p = sc_arena_alloc(b->arena, n, 1);
    b->is_short = b->is_short || p == NULL;
    return p;
}

static void budget_free(void *data, void *p)
{
    (void)data;
    (void)p; // goes with the arena
}

const char *sc_codec_type_text(unsigned type)
{
    const sc_fieldmap *map = sc_fieldmap_get(type);
    return map == NULL ? "unknown" : map->name;
}

/* --- one field's rules, the same both ways --- */

/* Bytes of the UTF-8 sequence at p, 0 when it is not one: Unicode 15, table 3-7. */
static size_t utf8_sequence(const unsigned char *p)
{
    size_t n_more = 0;
    unsigned lo = 0x80; // limits of the second byte: no overlong forms, surrogates, > U+10FFFF
    unsigned hi = 0xBF;
    if (p[0] < 0x80) {
        return 1;
    }
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        n_more = 1;
    } else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
        n_more = 2;
        lo = p[0] == 0xE0 ? 0xA0 : lo;
        hi = p[0] == 0xED ? 0x9F : hi;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        n_more = 3;
        lo = p[0] == 0xF0 ? 0x90 : lo;
        hi = p[0] == 0xF4 ? 0x8F : hi;
    } else {
        return 0;
    }
    if (p[1] < lo || p[1] > hi) { // a NUL ends every text, so no byte behind it is read
        return 0;
    }
    for (size_t i = 2; i <= n_more; i++) {
        if (p[i] < 0x80 || p[i] > 0xBF) {
            return 0;
        }
    }
    return n_more + 1;
}

static sc_status check_text(const char *name, const char *text, int64_t max, sc_err *err)
{
    size_t n = strlen(text);
    if (n > (size_t)max) {
        return sc_status_fail(err, SC_PROTOCOL, "%s: %zu bytes are over the limit of %" PRId64,
                              name, n, max);
    }
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0; i < n;) {
        size_t step = utf8_sequence(p + i);
        if (step == 0) {
            return sc_status_fail(err, SC_PROTOCOL, "%s: not UTF-8 at byte %zu", name, i);
        }
        i += step;
    }
    return SC_OK;
}

static sc_status check_int(const sc_field *field, int64_t value, sc_err *err)
{
    if (value < field->min || value > field->max) {
        return sc_status_fail(err, SC_PROTOCOL, "%s: %" PRId64 " is not in %" PRId64 "..%" PRId64,
                              field->name, value, field->min, field->max);
    }
    return SC_OK;
}

static sc_status check_real(const sc_field *field, double value, sc_err *err)
{
    if (field->kind == SC_FIELD_REAL && !isfinite(value)) {
        return sc_status_fail(err, SC_PROTOCOL, "%s: %g is not a finite number", field->name,
                              value);
    }
    return SC_OK;
}

/* Checks a number where it stands; `type` is its type on the wire, which is the plain one but for
   bool. */
static sc_status check_number(const sc_field *field, ProtobufCType type, const void *plain,
                              sc_err *err)
{
    if (type == PROTOBUF_C_TYPE_DOUBLE) {
        return check_real(field, *(const double *)plain, err);
    }
    if (type == PROTOBUF_C_TYPE_FLOAT) {
        return check_real(field, (double)*(const float *)plain, err);
    }
    if (field->kind == SC_FIELD_ANY || type == PROTOBUF_C_TYPE_BOOL) {
        return SC_OK;
    }
    switch (type) {
    case PROTOBUF_C_TYPE_UINT32:
        return check_int(field, *(const uint32_t *)plain, err);
    case PROTOBUF_C_TYPE_SINT32:
        return check_int(field, *(const int32_t *)plain, err);
    case PROTOBUF_C_TYPE_INT64:
        return check_int(field, *(const int64_t *)plain, err);
    case PROTOBUF_C_TYPE_UINT64:
        if (*(const uint64_t *)plain > INT64_MAX) {
            return sc_status_fail(err, SC_PROTOCOL, "%s: %" PRIu64 " is above %" PRId64,
                                  field->name, *(const uint64_t *)plain, field->max);
        }
        return check_int(field, (int64_t) * (const uint64_t *)plain, err);
    default:
        assert(!"a type that stagecoach.proto has and fieldmap.h does not");
        return SC_OK;
    }
}

static sc_status check_length(const sc_field *field, size_t n, sc_err *err)
{
    if (n > (size_t)field->max) {
        return sc_status_fail(err, SC_PROTOCOL, "%s: %zu entries are over the limit of %" PRId64,
                              field->name, n, field->max);
    }
    return SC_OK;
}

static sc_status out_of_memory(const char *name, sc_err *err)
{
    return sc_status_fail(err, SC_NO_MEMORY, "%s: out of memory", name);
}

/* --- plain struct -> protobuf-c's struct; texts stay where they are --- */

static sc_status to_wire(const sc_fieldmap *map, const void *plain, sc_arena *arena,
                         ProtobufCMessage **out, sc_err *err);

static sc_status text_to_wire(const char *name, const char *text, int64_t max, char **out,
                              sc_err *err)
{
    if (text == NULL) {
        text = "";
    }
    SC_TRY(check_text(name, text, max, err));
    *out = (char *)(uintptr_t)text; // protobuf-c's structs know no const; packing only reads
    return SC_OK;
}

static sc_status list_to_wire(const sc_field *field, const void *plain, size_t n, sc_arena *arena,
                              void ***out, sc_err *err)
{
    const char *elements = *(const char *const *)plain;
    SC_TRY(check_length(field, n, err));
    void **list = sc_arena_alloc(arena, n, sizeof *list);
    if (list == NULL) {
        return out_of_memory(field->name, err);
    }
    for (size_t i = 0; i < n; i++) {
        sc_status status = SC_OK;
        if (field->kind == SC_FIELD_TEXTS) {
            const char *text = ((const char *const *)(const void *)elements)[i];
            status = text_to_wire("text", text, SC_FIELDMAP_TEXT_MAX, (char **)&list[i], err);
        } else {
            status = to_wire(field->map, elements + i * field->map->size, arena,
                             (ProtobufCMessage **)&list[i], err);
        }
        if (status != SC_OK) {
            return sc_status_prefix(err, status, "%s %zu", field->name, i);
        }
    }
    *out = list;
    return SC_OK;
}

static sc_status field_to_wire(const sc_field *field, const ProtobufCFieldDescriptor *wire_field,
                               const char *plain, sc_arena *arena, char *wire, sc_err *err)
{
    const void *from = plain + field->offset;
    void *to = wire + wire_field->offset;
    switch (field->kind) {
    case SC_FIELD_TEXT:
        return text_to_wire(field->name, *(const char *const *)from, field->max, to, err);
    case SC_FIELD_TEXTS:
    case SC_FIELD_LIST: {
        size_t n = *(const size_t *)(const void *)(plain + field->n_offset);
        *(size_t *)(void *)(wire + wire_field->quantifier_offset) = n;
        return list_to_wire(field, from, n, arena, to, err);
    }
    case SC_FIELD_SUB: {
        sc_status status = to_wire(field->map, from, arena, to, err);
        return sc_status_prefix(err, status, "%s", field->name);
    }
    default:
        SC_TRY(check_number(field, wire_field->type, from, err));
        if (wire_field->type == PROTOBUF_C_TYPE_BOOL) {
            *(protobuf_c_boolean *)to = *(const bool *)from;
        } else {
            memcpy(to, from, field->size);
        }
        return SC_OK;
    }
}

static sc_status to_wire(const sc_fieldmap *map, const void *plain, sc_arena *arena,
                         ProtobufCMessage **out, sc_err *err)
{
    ProtobufCMessage *wire = sc_arena_alloc(arena, 1, map->wire->sizeof_message);
    if (wire == NULL) {
        return out_of_memory(map->name, err);
    }
    assert(map->n_fields == map->wire->n_fields);
    map->wire->message_init(wire);
    for (size_t i = 0; i < map->n_fields; i++) {
        SC_TRY(
            field_to_wire(&map->fields[i], &map->wire->fields[i], plain, arena, (char *)wire, err));
    }
    *out = wire;
    return SC_OK;
}

/* --- protobuf-c's struct -> plain struct; everything is copied into the arena --- */

static sc_status from_wire(const sc_fieldmap *map, const ProtobufCMessage *wire, sc_arena *arena,
                           void *plain, sc_err *err);

static sc_status text_from_wire(const char *name, const char *text, int64_t max, sc_arena *arena,
                                const char **out, sc_err *err)
{
    SC_TRY(check_text(name, text, max, err));
    *out = sc_arena_strndup(arena, text, strlen(text));
    return *out == NULL ? out_of_memory(name, err) : SC_OK;
}

static sc_status list_from_wire(const sc_field *field, void *const *list, size_t n, sc_arena *arena,
                                void *plain, sc_err *err)
{
    SC_TRY(check_length(field, n, err));
    size_t size = field->kind == SC_FIELD_TEXTS ? sizeof(char *) : field->map->size;
    char *elements = sc_arena_alloc(arena, n, size);
    if (elements == NULL) {
        return out_of_memory(field->name, err);
    }
    for (size_t i = 0; i < n; i++) {
        sc_status status = SC_OK;
        if (field->kind == SC_FIELD_TEXTS) {
            status = text_from_wire("text", list[i], SC_FIELDMAP_TEXT_MAX, arena,
                                    (const char **)(void *)elements + i, err);
        } else {
            status = from_wire(field->map, list[i], arena, elements + i * size, err);
        }
        if (status != SC_OK) {
            return sc_status_prefix(err, status, "%s %zu", field->name, i);
        }
    }
    *(void **)plain = elements;
    return SC_OK;
}

static sc_status field_from_wire(const sc_field *field, const ProtobufCFieldDescriptor *wire_field,
                                 const char *wire, sc_arena *arena, char *plain, sc_err *err)
{
    const void *from = wire + wire_field->offset;
    void *to = plain + field->offset;
    switch (field->kind) {
    case SC_FIELD_TEXT:
        return text_from_wire(field->name, *(char *const *)from, field->max, arena, to, err);
    case SC_FIELD_TEXTS:
    case SC_FIELD_LIST: {
        size_t n = *(const size_t *)(const void *)(wire + wire_field->quantifier_offset);
        *(size_t *)(void *)(plain + field->n_offset) = n;
        return list_from_wire(field, *(void *const *const *)from, n, arena, to, err);
    }
    case SC_FIELD_SUB: {
        const ProtobufCMessage *sub = *(ProtobufCMessage *const *)from;
        if (sub == NULL) {
            return sc_status_fail(err, SC_PROTOCOL, "%s: missing", field->name);
        }
        return sc_status_prefix(err, from_wire(field->map, sub, arena, to, err), "%s", field->name);
    }
    default:
        if (wire_field->type == PROTOBUF_C_TYPE_BOOL) {
            *(bool *)to = *(const protobuf_c_boolean *)from != 0;
        } else {
            memcpy(to, from, field->size);
        }
        return check_number(field, wire_field->type, to, err);
    }
}

static sc_status from_wire(const sc_fieldmap *map, const ProtobufCMessage *wire, sc_arena *arena,
                           void *plain, sc_err *err)
{
    assert(map->n_fields == map->wire->n_fields);
    if (wire->n_unknown_fields != 0) {
        return sc_status_fail(err, SC_PROTOCOL, "%u unknown fields", wire->n_unknown_fields);
    }
    for (size_t i = 0; i < map->n_fields; i++) {
        SC_TRY(field_from_wire(&map->fields[i], &map->wire->fields[i], (const char *)wire, arena,
                               plain, err));
    }
    return SC_OK;
}

/* --- whole messages --- */

sc_status sc_codec_pack(const sc_msg *msg, sc_arena *arena, const unsigned char **out,
                        size_t *n_out, sc_err *err)
{
    const sc_fieldmap *map = sc_fieldmap_get(msg->type);
    assert(map != NULL);
    ProtobufCMessage *wire = NULL;
    sc_status status = to_wire(map, &msg->u, arena, &wire, err);
    if (status != SC_OK) {
        // what a peer did wrong when unpacking is our own caller's doing here
        status = status == SC_PROTOCOL ? SC_INVALID : status;
        if (err != NULL) {
            err->status = status;
        }
        return sc_status_prefix(err, status, "message %s", map->name);
    }
    size_t n_payload = protobuf_c_message_get_packed_size(wire);
    if (n_payload > SC_CODEC_FRAME_MAX - SC_FRAME_HEADER_BYTES) {
        return sc_status_fail(err, SC_LIMIT, "message %s: %zu bytes are over a frame's %d",
                              map->name, n_payload, SC_CODEC_FRAME_MAX);
    }
    unsigned char *bytes = sc_arena_alloc(arena, SC_FRAME_HEADER_BYTES + n_payload, 1);
    if (bytes == NULL) {
        return out_of_memory(map->name, err);
    }
    protobuf_c_message_pack(wire, bytes + SC_FRAME_HEADER_BYTES);
    sc_frame frame = {.version = SC_PROTO_VERSION,
                      .type = (uint16_t)msg->type,
                      .seq = msg->seq,
                      .payload = bytes + SC_FRAME_HEADER_BYTES,
                      .n_payload = n_payload};
    sc_frame_write(&frame, bytes);
    *out = bytes;
    *n_out = SC_FRAME_HEADER_BYTES + n_payload;
    return SC_OK;
}

/* The plain message of a payload that protobuf-c could read. */
static sc_status convert(const sc_fieldmap *map, const ProtobufCMessage *wire, size_t n_payload,
                         sc_arena *arena, void *plain, sc_err *err)
{
    /* A payload has as many bytes as packing it again would give. This refuses texts with a NUL
       inside, repeated fields and padded numbers, which would else be dropped in silence. */
    size_t n_again = protobuf_c_message_get_packed_size(wire);
    if (n_again != n_payload) {
        return sc_status_fail(err, SC_PROTOCOL, "only %zu of its %zu bytes have a meaning", n_again,
                              n_payload);
    }
    return from_wire(map, wire, arena, plain, err);
}

sc_status sc_codec_unpack(const unsigned char *bytes, size_t n, sc_arena *arena, sc_msg *out,
                          sc_err *err)
{
    if (n > SC_CODEC_FRAME_MAX) {
        return sc_status_fail(err, SC_PROTOCOL, "frame of %zu bytes is over the limit of %d", n,
                              SC_CODEC_FRAME_MAX);
    }
    sc_frame frame;
    SC_TRY(sc_frame_parse(bytes, n, SC_PROTO_VERSION, &frame, err));
    const sc_fieldmap *map = sc_fieldmap_get(frame.type);
    if (map == NULL) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "message type %d is unknown in protocol version %d, which ends at "
                              "type %d",
                              frame.type, SC_PROTO_VERSION, SC_MSG_COUNT - 1);
    }
    budget memory = {.left = BUDGET_BASE + frame.n_payload * BUDGET_PER_BYTE, .arena = arena};
    if (memory.left > BUDGET_MAX) {
        memory.left = BUDGET_MAX;
    }
    ProtobufCAllocator allocator = {
        .alloc = budget_alloc, .free = budget_free, .allocator_data = &memory};
    ProtobufCMessage *wire =
        protobuf_c_message_unpack(map->wire, &allocator, frame.n_payload, frame.payload);
    if (wire == NULL && memory.is_short) {
        return out_of_memory(map->name, err);
    }
    if (wire == NULL) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "message %s: its %zu bytes are not protobuf, or too many entries",
                              map->name, frame.n_payload);
    }
    sc_msg msg = {.type = (sc_msg_type)frame.type, .seq = frame.seq};
    sc_status status = convert(map, wire, frame.n_payload, arena, &msg.u, err);
    protobuf_c_message_free_unpacked(wire, &allocator);
    if (status != SC_OK) {
        return sc_status_prefix(err, status, "message %s", map->name);
    }
    *out = msg;
    return SC_OK;
}
