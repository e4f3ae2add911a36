#include "proto/codec.h"

#include "base/rng.h"
#include "proto/fieldmap.h"
#include "proto/frame.h"
#include "tests/proto/samples.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const void *at(const void *base, size_t offset)
{
    return (const char *)base + offset;
}

/* --- the tables against the structs and stagecoach.proto --- */

static size_t end_of(const sc_field *field)
{
    return field->n_offset != 0 ? field->n_offset + sizeof(size_t) : field->offset + field->size;
}

/* Every byte of the struct belongs to a field or is padding before an aligned one. */
static void check_covers_struct(const sc_fieldmap *map)
{
    size_t end = 0;
    for (size_t i = 0; i < map->n_fields; i++) {
        const sc_field *f = &map->fields[i];
        size_t align = f->size >= 8 ? 8 : f->size;
        assert_int_equal(f->offset, (end + align - 1) / align * align);
        assert_true(f->n_offset == 0 || f->n_offset == f->offset + f->size);
        end = end_of(f);
    }
    assert_true(map->size >= end && map->size - end < 8);
}

static void check_map(const sc_fieldmap *map)
{
    assert_int_equal(map->n_fields, map->wire->n_fields);
    for (size_t i = 0; i < map->n_fields; i++) {
        const sc_field *f = &map->fields[i];
        const ProtobufCFieldDescriptor *w = &map->wire->fields[i];
        assert_string_equal(f->name, w->name);
        assert_int_equal(w->id, i + 1);
        bool is_list = f->kind == SC_FIELD_LIST || f->kind == SC_FIELD_TEXTS;
        assert_int_equal(is_list, w->label == PROTOBUF_C_LABEL_REPEATED);
        bool is_text = f->kind == SC_FIELD_TEXT || f->kind == SC_FIELD_TEXTS;
        assert_int_equal(is_text, w->type == PROTOBUF_C_TYPE_STRING);
        assert_int_equal(f->map != NULL, w->type == PROTOBUF_C_TYPE_MESSAGE);
        if (f->map != NULL) {
            assert_ptr_equal(f->map->wire, w->descriptor);
            check_map(f->map);
        }
    }
    check_covers_struct(map);
}

static void tables_agree_with_structs_and_proto(void **state)
{
    (void)state;
    for (unsigned type = 1; type < SC_MSG_COUNT; type++) {
        check_map(sc_fieldmap_get(type));
    }
    assert_null(sc_fieldmap_get(SC_MSG_NONE));
    assert_null(sc_fieldmap_get(SC_MSG_COUNT));
    assert_string_equal(sc_codec_type_text(SC_MSG_HELLO), "hello");
    assert_string_equal(sc_codec_type_text(SC_MSG_REPLY), "reply");
    assert_string_equal(sc_codec_type_text(99), "unknown");
}

/* --- round trip --- */

static void check_same(const sc_fieldmap *map, const void *a, const void *b);

static void check_same_field(const sc_field *f, const void *a, const void *b)
{
    const void *pa = at(a, f->offset);
    const void *pb = at(b, f->offset);
    size_t n = f->n_offset != 0 ? *(const size_t *)at(a, f->n_offset) : 0;
    static const char zeros[64];
    switch (f->kind) {
    case SC_FIELD_TEXT:
        assert_true(strlen(*(const char *const *)pa) > 0);
        assert_string_equal(*(const char *const *)pa, *(const char *const *)pb);
        break;
    case SC_FIELD_TEXTS:
        assert_true(n > 0 && n == *(const size_t *)at(b, f->n_offset));
        for (size_t i = 0; i < n; i++) {
            assert_string_equal((*(const char *const *const *)pa)[i],
                                (*(const char *const *const *)pb)[i]);
        }
        break;
    case SC_FIELD_SUB:
        check_same(f->map, pa, pb);
        break;
    case SC_FIELD_LIST:
        assert_true(n > 0 && n == *(const size_t *)at(b, f->n_offset));
        for (size_t i = 0; i < n; i++) {
            check_same(f->map, at(*(const void *const *)pa, i * f->map->size),
                       at(*(const void *const *)pb, i * f->map->size));
        }
        break;
    default:
        assert_memory_not_equal(pa, zeros, f->size); // the sample sets every field
        assert_memory_equal(pa, pb, f->size);
    }
}

static void check_same(const sc_fieldmap *map, const void *a, const void *b)
{
    for (size_t i = 0; i < map->n_fields; i++) {
        check_same_field(&map->fields[i], a, b);
    }
}

/* The frame as a block of its own, so that reading past its end is seen; caller frees. */
static sc_status pack_copy(const sc_msg *msg, unsigned char **out, size_t *n_out, sc_err *err)
{
    sc_arena arena;
    sc_arena_init(&arena, 0);
    const unsigned char *bytes = NULL;
    sc_status status = sc_codec_pack(msg, &arena, &bytes, n_out, err);
    if (status == SC_OK) {
        *out = malloc(*n_out);
        memcpy(*out, bytes, *n_out);
    }
    sc_arena_done(&arena);
    return status;
}

static void every_field_of_every_message_comes_back(void **state)
{
    (void)state;
    for (unsigned type = 1; type < SC_MSG_COUNT; type++) {
        sc_msg msg = samples_get((sc_msg_type)type);
        unsigned char *bytes = NULL;
        size_t n = 0;
        sc_err err;
        assert_int_equal(pack_copy(&msg, &bytes, &n, &err), SC_OK);
        sc_arena arena;
        sc_arena_init(&arena, 0);
        sc_msg back = {.type = SC_MSG_NONE};
        assert_int_equal(sc_codec_unpack(bytes, n, &arena, &back, &err), SC_OK);
        free(bytes); // nothing may point into the frame
        assert_int_equal(back.type, type);
        assert_true(back.seq == msg.seq);
        check_same(sc_fieldmap_get(type), &msg.u, &back.u);
        sc_arena_done(&arena);
    }
}

static sc_status round_trip(const sc_msg *msg, sc_arena *arena, sc_msg *back, sc_err *err)
{
    unsigned char *bytes = NULL;
    size_t n = 0;
    sc_status status = pack_copy(msg, &bytes, &n, err);
    if (status == SC_OK) {
        status = sc_codec_unpack(bytes, n, arena, back, err);
    }
    free(bytes);
    return status;
}

static void defaults_come_back_as_empty(void **state)
{
    (void)state;
    sc_arena arena;
    sc_arena_init(&arena, 0);
    sc_msg msg = {.type = SC_MSG_REPORT}; // texts NULL, no spans
    msg.u.report.loss_sum = NAN;          // a run that diverged
    msg.u.report.grad_norm = INFINITY;
    sc_msg back = {.type = SC_MSG_NONE};
    sc_err err;
    assert_int_equal(round_trip(&msg, &arena, &back, &err), SC_OK);
    assert_string_equal(back.u.report.executed, "");
    assert_int_equal(back.u.report.n_spans, 0);
    assert_true(isnan(back.u.report.loss_sum) && isinf(back.u.report.grad_norm));
    sc_arena_done(&arena);
}

/* --- refusals --- */

static void every_truncation_is_refused(void **state)
{
    (void)state;
    for (unsigned type = 1; type < SC_MSG_COUNT; type++) {
        sc_msg msg = samples_get((sc_msg_type)type);
        unsigned char *bytes = NULL;
        size_t n = 0;
        assert_int_equal(pack_copy(&msg, &bytes, &n, NULL), SC_OK);
        sc_arena arena;
        sc_arena_init(&arena, 0);
        for (size_t cut = 0; cut < n; cut++) {
            unsigned char *part = malloc(cut + 1); // its own block, so that reading on is seen
            memcpy(part, bytes, cut);
            assert_int_equal(sc_codec_unpack(part, cut, &arena, &msg, NULL), SC_PROTOCOL);
            free(part);
        }
        sc_arena_done(&arena);
        free(bytes);
    }
}

/* Unpacks a payload inside a frame whose header is right. */
static sc_status unpack_payload(unsigned type, const unsigned char *payload, size_t n, sc_err *err)
{
    unsigned char *bytes = malloc(SC_FRAME_HEADER_BYTES + n);
    memcpy(bytes + SC_FRAME_HEADER_BYTES, payload, n);
    sc_frame frame = {.version = SC_PROTO_VERSION,
                      .type = (uint16_t)type,
                      .payload = bytes + SC_FRAME_HEADER_BYTES,
                      .n_payload = n};
    sc_frame_write(&frame, bytes);
    sc_arena arena;
    sc_arena_init(&arena, 0);
    sc_msg msg;
    sc_status status = sc_codec_unpack(bytes, SC_FRAME_HEADER_BYTES + n, &arena, &msg, err);
    sc_arena_done(&arena);
    free(bytes);
    return status;
}

static void random_payloads_never_crash(void **state)
{
    (void)state;
    int n_ok = 0;
    for (uint64_t round = 0; round < 20000; round++) {
        unsigned char payload[64];
        size_t n = sc_rng_u64(1, 1, round) % sizeof payload;
        for (size_t i = 0; i < n; i++) {
            payload[i] = (unsigned char)(sc_rng_u64(1, 2 + round, i) & 0xFF);
        }
        unsigned type = (unsigned)(1 + sc_rng_u64(1, 0, round) % (SC_MSG_COUNT - 1));
        n_ok += unpack_payload(type, payload, n, NULL) == SC_OK;
    }
    assert_true(n_ok < 20000);
}

/* Good payloads with one byte changed: either refused or a message that packs again. */
static void changed_payloads_are_refused_or_valid(void **state)
{
    (void)state;
    for (unsigned type = 1; type < SC_MSG_COUNT; type++) {
        sc_msg msg = samples_get((sc_msg_type)type);
        unsigned char *bytes = NULL;
        size_t n = 0;
        assert_int_equal(pack_copy(&msg, &bytes, &n, NULL), SC_OK);
        unsigned char *payload = bytes + SC_FRAME_HEADER_BYTES;
        for (size_t i = 0; i < n - SC_FRAME_HEADER_BYTES; i++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                payload[i] ^= (unsigned char)(1U << bit);
                sc_status status = unpack_payload(type, payload, n - SC_FRAME_HEADER_BYTES, NULL);
                assert_true(status == SC_OK || status == SC_PROTOCOL);
                payload[i] ^= (unsigned char)(1U << bit);
            }
        }
        free(bytes);
    }
}

static void other_versions_and_types_are_named(void **state)
{
    (void)state;
    sc_msg msg = samples_get(SC_MSG_HELLO);
    unsigned char *bytes = NULL;
    size_t n = 0;
    sc_err err;
    assert_int_equal(pack_copy(&msg, &bytes, &n, &err), SC_OK);
    bytes[4] = SC_PROTO_VERSION + 1;
    sc_arena arena;
    sc_arena_init(&arena, 0);
    assert_int_equal(sc_codec_unpack(bytes, n, &arena, &msg, &err), SC_PROTOCOL);
    assert_string_equal(err.text, "the peer speaks protocol version 2, this program version 1: "
                                  "install the same release on both ends");
    sc_arena_done(&arena);
    free(bytes);
    assert_int_equal(unpack_payload(99, (const unsigned char *)"", 0, &err), SC_PROTOCOL);
    assert_string_equal(err.text, "message type 99 is unknown in protocol version 1, which ends "
                                  "at type 19");
    assert_int_equal(unpack_payload(SC_MSG_NONE, (const unsigned char *)"", 0, &err), SC_PROTOCOL);
}

static void expect_payload_error(unsigned type, const char *payload, size_t n, const char *text)
{
    sc_err err = {.text = ""};
    assert_int_equal(unpack_payload(type, (const unsigned char *)payload, n, &err), SC_PROTOCOL);
    assert_string_equal(err.text, text);
}

static void payloads_with_a_fault_are_refused(void **state)
{
    (void)state;
    expect_payload_error(SC_MSG_BYE, "\x10\x01", 2, "message bye: 1 unknown fields");
    expect_payload_error(SC_MSG_BYE, "\x08\x01\x08\x02", 4,
                         "message bye: only 2 of its 4 bytes have a meaning"); // set twice
    expect_payload_error(SC_MSG_BYE, "\x08\x81\x00", 3,
                         "message bye: only 2 of its 3 bytes have a meaning"); // padded 1
    expect_payload_error(SC_MSG_BYE, "\x08\x80\x80\x80\x80\x08", 6,
                         "message bye: worker: 2147483648 is not in 0..2147483647");
    expect_payload_error(SC_MSG_STOP,
                         "\x12\x03"
                         "a\0b",
                         5, "message stop: only 3 of its 5 bytes have a meaning");
    expect_payload_error(SC_MSG_STOP, "\x08\x63", 2, "message stop: status: 99 is not in 0..15");
    expect_payload_error(SC_MSG_BYE, "\x08", 1,
                         "message bye: its 1 bytes are not protobuf, or too many entries");
    expect_payload_error(SC_MSG_ASSIGN, "\x18\x01\x20\x01", 4, "message assign: model: missing");
    expect_payload_error(SC_MSG_REPORT, "\x8A\x01\x02\x50\x01", 5,
                         "message report: spans 0: 1 unknown fields");
}

/* Each is not UTF-8: a lone continuation, overlong forms, surrogates, too large, cut off. */
static void texts_must_be_utf8(void **state)
{
    (void)state;
    const char *bad[] = {"\x80",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x9F\xBF",
                         "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
                         "\xC3",         "\xE2\x82",         "\xF0\x9F\x9A",     "\xFF"};
    sc_arena arena;
    sc_arena_init(&arena, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[16];
        snprintf(text, sizeof text, "ok %s", bad[i]);
        sc_msg msg = {.type = SC_MSG_ABORT, .u.abort.reason = text};
        sc_msg back = {.type = SC_MSG_NONE};
        sc_err err;
        assert_int_equal(round_trip(&msg, &arena, &back, &err), SC_INVALID);
        assert_int_equal(err.status, SC_INVALID);
        assert_string_equal(err.text, "message abort: reason: not UTF-8 at byte 3");
        char payload[32] = {0x12, (char)strlen(text)}; // and when a peer sends it all the same
        memcpy(payload + 2, text, strlen(text) + 1);
        expect_payload_error(SC_MSG_ABORT, payload, 2 + strlen(text),
                             "message abort: reason: not UTF-8 at byte 3");
    }
    sc_arena_done(&arena);
}

static void expect_pack_error(const sc_msg *msg, const char *text)
{
    unsigned char *bytes = NULL;
    size_t n = 0;
    sc_err err = {.text = ""};
    assert_int_equal(pack_copy(msg, &bytes, &n, &err), SC_INVALID);
    assert_string_equal(err.text, text);
    assert_null(bytes);
}

static void values_over_their_limits_are_refused(void **state)
{
    (void)state;
    sc_msg msg = samples_get(SC_MSG_REPORT);
    msg.u.report.row_end_ns = -1;
    expect_pack_error(&msg, "message report: row_end_ns: -1 is not in 0..9223372036854775807");
    msg = samples_get(SC_MSG_REPORT);
    msg.u.report.n_valid = UINT64_MAX;
    expect_pack_error(&msg, "message report: n_valid: 18446744073709551615 is above "
                            "9223372036854775807");
    msg = samples_get(SC_MSG_REPORT);
    sc_msg_span spans[2] = {{.op = 1}, {.op = 64}};
    msg.u.report.spans = spans;
    msg.u.report.n_spans = 2;
    expect_pack_error(&msg, "message report: spans 1: op: 64 is not in 0..63");
    spans[1] = (sc_msg_span){.mb = -2};
    expect_pack_error(&msg, "message report: spans 1: mb: -2 is not in -1..65535");
    msg = samples_get(SC_MSG_ASSIGN);
    msg.u.assign.n_mb = 0;
    expect_pack_error(&msg, "message assign: n_mb: 0 is not in 1..65536");
    msg = samples_get(SC_MSG_ASSIGN);
    msg.u.assign.n_stages = 4097;
    expect_pack_error(&msg, "message assign: stages: 4097 entries are over the limit of 4096");
    msg = samples_get(SC_MSG_ASSIGN);
    msg.u.assign.model.initializer_range = NAN;
    expect_pack_error(&msg, "message assign: model: initializer_range: nan is not a finite number");
    msg = samples_get(SC_MSG_ASSIGN);
    msg.u.assign.optimizer.beta2 = INFINITY;
    expect_pack_error(&msg, "message assign: optimizer: beta2: inf is not a finite number");
}

static void text_lengths_are_limited(void **state)
{
    (void)state;
    size_t longest = SC_FIELDMAP_TEXT_MAX;
    char *text = malloc(longest + 2);
    memset(text, 'x', longest + 1);
    text[longest + 1] = '\0';
    const char *endpoints[] = {"a", text};
    sc_msg msg = {.type = SC_MSG_ABORT, .u.abort.reason = text};
    expect_pack_error(&msg, "message abort: reason: 65537 bytes are over the limit of 65536");
    sc_msg connect = {.type = SC_MSG_CONNECT, .u.connect = {1, endpoints, 2}};
    expect_pack_error(
        &connect, "message connect: endpoints 1: text: 65537 bytes are over the limit of 65536");
    // a row may be longer, and one byte less is a text again
    sc_arena arena;
    sc_arena_init(&arena, 0);
    sc_msg row = samples_get(SC_MSG_ASSIGN);
    row.u.assign.row = text;
    sc_msg back = {.type = SC_MSG_NONE};
    sc_err err;
    assert_int_equal(round_trip(&row, &arena, &back, &err), SC_OK);
    assert_string_equal(back.u.assign.row, text);
    text[longest] = '\0';
    assert_int_equal(round_trip(&msg, &arena, &back, &err), SC_OK);
    assert_string_equal(back.u.abort.reason, text);
    sc_arena_done(&arena);
    free(text);
}

/* Two bytes an entry would be 150 in memory: the frame is refused before they are all made. */
static void small_frames_cannot_claim_much_memory(void **state)
{
    (void)state;
    size_t n = 3 << 20;
    unsigned char *payload = malloc(n);
    for (size_t i = 0; i < n; i += 3) { // field 17, a message of no bytes
        payload[i] = 0x8A;
        payload[i + 1] = 0x01;
        payload[i + 2] = 0x00;
    }
    sc_err err;
    assert_int_equal(unpack_payload(SC_MSG_REPORT, payload, n, &err), SC_PROTOCOL);
    assert_string_equal(err.text, "message report: its 3145728 bytes are not protobuf, or too "
                                  "many entries");
    free(payload);
}

/* A long row's report stays within the budget that small_frames_cannot_claim_much_memory is about.
 */
static void large_reports_fit(void **state)
{
    (void)state;
    size_t n_spans = 100000;
    sc_msg_span *spans = calloc(n_spans, sizeof *spans);
    for (size_t i = 0; i < n_spans; i++) { // no times of receives: the fewest bytes an entry
        spans[i] = (sc_msg_span){.stage = 1, .start_ns = 1 << 30, .end_ns = (1 << 30) + 5};
    }
    sc_msg msg = {.type = SC_MSG_REPORT};
    msg.u.report.spans = spans;
    msg.u.report.n_spans = n_spans;
    sc_arena arena;
    sc_arena_init(&arena, 0);
    sc_msg back = {.type = SC_MSG_NONE};
    sc_err err;
    assert_int_equal(round_trip(&msg, &arena, &back, &err), SC_OK);
    assert_memory_equal(back.u.report.spans, spans, n_spans * sizeof *spans);
    sc_arena_done(&arena);
    free(spans);
}

static void a_full_arena_is_no_memory(void **state)
{
    (void)state;
    sc_msg msg = samples_get(SC_MSG_ASSIGN);
    unsigned char *bytes = NULL;
    size_t n = 0;
    assert_int_equal(pack_copy(&msg, &bytes, &n, NULL), SC_OK);
    for (size_t limit = 64; limit <= 640; limit += 64) {
        sc_arena arena;
        sc_arena_init(&arena, limit);
        sc_msg back = {.type = SC_MSG_NONE};
        assert_int_equal(sc_codec_unpack(bytes, n, &arena, &back, NULL), SC_NO_MEMORY);
        assert_int_equal(back.type, SC_MSG_NONE); // outputs only on success
        sc_arena_done(&arena);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_agree_with_structs_and_proto),
        cmocka_unit_test(every_field_of_every_message_comes_back),
        cmocka_unit_test(defaults_come_back_as_empty),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(random_payloads_never_crash),
        cmocka_unit_test(changed_payloads_are_refused_or_valid),
        cmocka_unit_test(other_versions_and_types_are_named),
        cmocka_unit_test(payloads_with_a_fault_are_refused),
        cmocka_unit_test(texts_must_be_utf8),
        cmocka_unit_test(values_over_their_limits_are_refused),
        cmocka_unit_test(text_lengths_are_limited),
        cmocka_unit_test(small_frames_cannot_claim_much_memory),
        cmocka_unit_test(large_reports_fit),
        cmocka_unit_test(a_full_arena_is_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
