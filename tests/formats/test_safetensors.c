/*
 * safetensors: what is written reads back; every broken header is refused with its reason.
 */
#include "formats/safetensors.h"
#include "formats/safetensors_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A file in memory. */
typedef struct buffer {
    uint8_t bytes[8192];
    size_t n;
    size_t fail_at; // the sink refuses to pass this many bytes; 0: never
} buffer;

static sc_status take(void *context, const void *bytes, size_t n, sc_err *err)
{
    buffer *b = context;
    if (b->fail_at != 0 && b->n + n > b->fail_at) {
        return sc_status_fail(err, SC_IO, "disk full");
    }
    assert_true(b->n + n <= sizeof b->bytes);
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    return SC_OK;
}

/* A file from a header's text and n_data bytes of data. */
static void make_file(const char *header, size_t n_data, buffer *out)
{
    size_t n = strlen(header);
    *out = (buffer){.n = 8 + n + n_data};
    out->bytes[0] = (uint8_t)n;
    out->bytes[1] = (uint8_t)(n >> 8);
    memcpy(out->bytes + 8, header, n);
}

static void expect_error(const char *header, size_t n_data, const char *want)
{
    buffer file;
    sc_safetensors *st = NULL;
    sc_err err = {0};
    make_file(header, n_data, &file);
    if (sc_safetensors_parse("m", file.bytes, file.n, file.n, &st, &err) == SC_OK) {
        fail_msg("accepted %s", header);
    }
    assert_string_equal(err.text, want);
    assert_null(st);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const float A[] = {1, 2, 3, 4, 5, 6};
    static const float B[] = {-0.5F};
    static const char *const METADATA[] = {"format", "pt", "quote \"\\\n", "\x01 end"};
    const sc_safetensor tensors[] = {
        {.name = "transformer.wte.weight", .n_dims = 2, .shape = {2, 3}, .data = A},
        {.name = "a \"quoted\\\" name", .n_dims = 0, .data = B},
        {.name = "empty", .n_dims = 2, .shape = {0, 4}, .data = NULL},
    };
    buffer file = {.n = 0};
    sc_safetensors *st = NULL;
    sc_err err = {0};
    assert_int_equal(sc_safetensors_write(tensors, 3, METADATA, 2, take, &file, &err), SC_OK);
    size_t head = 0;
    assert_int_equal(sc_safetensors_head_bytes("m", file.bytes, file.n, &head, NULL), SC_OK);
    assert_int_equal(head % 8, 0);
    assert_int_equal(file.n, head + 7 * sizeof(float));
    if (sc_safetensors_parse("m", file.bytes, head, file.n, &st, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(st->n_entries, 3);
    assert_int_equal(st->n_metadata, 2);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(st->metadata[i], METADATA[i]);
    }
    const sc_safetensors_entry *a = sc_safetensors_find(st, "transformer.wte.weight");
    assert_non_null(a);
    assert_int_equal(a->dtype, SC_SAFETENSORS_F32);
    assert_int_equal(a->n_dims, 2);
    assert_int_equal(a->shape[0], 2);
    assert_int_equal(a->shape[1], 3);
    assert_int_equal(a->n_elems, 6);
    assert_memory_equal(file.bytes + a->offset, A, sizeof A);
    const sc_safetensors_entry *b = sc_safetensors_find(st, tensors[1].name);
    assert_non_null(b);
    assert_int_equal(b->n_dims, 0);
    assert_memory_equal(file.bytes + b->offset, B, sizeof B);
    assert_int_equal(sc_safetensors_find(st, "empty")->n_bytes, 0);
    assert_null(sc_safetensors_find(st, "none"));
    sc_safetensors_free(&st);
    assert_null(st);
}

static void test_no_tensors(void **state)
{
    (void)state;
    buffer file = {.n = 0};
    sc_safetensors *st = NULL;
    assert_int_equal(sc_safetensors_write(NULL, 0, NULL, 0, take, &file, NULL), SC_OK);
    assert_int_equal(file.n, 16);
    assert_memory_equal(file.bytes + 8, "{}      ", 8);
    assert_int_equal(sc_safetensors_parse("m", file.bytes, file.n, file.n, &st, NULL), SC_OK);
    assert_int_equal(st->n_entries, 0);
    sc_safetensors_free(&st);
}

static void test_sink_errors_come_back(void **state)
{
    (void)state;
    static const float A[64] = {0};
    const sc_safetensor tensor = {.name = "a", .n_dims = 1, .shape = {64}, .data = A};
    for (size_t fail_at = 4; fail_at < 300; fail_at += 40) {
        buffer file = {.fail_at = fail_at};
        sc_err err = {0};
        assert_int_equal(sc_safetensors_write(&tensor, 1, NULL, 0, take, &file, &err), SC_IO);
        assert_string_equal(err.text, "disk full");
    }
}

#define T(name, shape, begin, end) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void test_other_dtypes_and_any_order_are_read(void **state)
{
    (void)state;
    buffer file;
    sc_safetensors *st = NULL;
    sc_err err = {0};
    make_file("{\"b\":{\"shape\":[3],\"data_offsets\":[8,14],\"dtype\":\"BF16\"}," //
              T("a", "[2]", "0", "8") "}  ",
              14, &file);
    if (sc_safetensors_parse("m", file.bytes, file.n, file.n, &st, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    assert_string_equal(st->entries[0].name, "a");
    assert_string_equal(st->entries[1].name, "b");
    assert_int_equal(st->entries[1].dtype, SC_SAFETENSORS_BF16);
    sc_safetensors_free(&st);
}

static void test_broken_json_is_refused(void **state)
{
    (void)state;
    expect_error("", 0, "m: byte 8: the header is malformed JSON");
    expect_error("[]", 0, "m: byte 8: the header is malformed JSON");
    expect_error("{\"a\":}", 0, "m: byte 13: the header is malformed JSON");
    expect_error("{} x", 0, "m: byte 11: the header is malformed JSON");
    expect_error("{}\n", 0, "m: byte 10: the header is malformed JSON");
}

static void test_broken_entries_are_refused(void **state)
{
    (void)state;
    expect_error("{\"a\":3}", 0, "m: tensor a: not an object of dtype, shape and data_offsets");
    expect_error("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0,
                 "m: tensor a: not an object of dtype, shape and data_offsets");
    expect_error("{\"a\":{\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
                 "m: tensor a: unknown dtype");
    expect_error("{\"a\":{\"dtype\":3,\"shape\":[],\"data_offsets\":[0,4]}}", 4,
                 "m: tensor a: unknown dtype");
    static const char SHAPE[] = "m: tensor a: shape is no list of up to 8 sizes";
    expect_error("{" T("a", "2", "0", "8") "}", 8, SHAPE);
    expect_error("{" T("a", "[-2]", "0", "8") "}", 8, SHAPE);
    expect_error("{" T("a", "[1.5]", "0", "8") "}", 8, SHAPE);
    expect_error("{" T("a", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, SHAPE);
    expect_error("{" T("a", "[4294967296,4294967296]", "0", "0") "}", 0, SHAPE);
    expect_error("{" T("a", "[1e300]", "0", "8") "}", 8, SHAPE);
    static const char PAIR[] = "m: tensor a: data_offsets is no pair begin <= end";
    expect_error("{" T("a", "[2]", "8", "0") "}", 8, PAIR);
    expect_error("{" T("a", "[2]", "0", "8,9") "}", 8, PAIR);
    expect_error("{" T("a", "[2]", "-1", "7") "}", 8, PAIR);
    expect_error("{" T("a", "[2]", "\"0\"", "8") "}", 8, PAIR);
    expect_error("{" T("a", "[2]", "0", "8") "}", 7,
                 "m: tensor a: its data ends behind the file's end: truncated");
    expect_error("{" T("a", "[3]", "0", "8") "}", 8,
                 "m: tensor a: data_offsets do not fit dtype and shape");
    expect_error("{" T("a", "[1]", "0", "5") "}", 5,
                 "m: tensor a: data_offsets do not fit dtype and shape");
}

static void test_names_and_cover(void **state)
{
    (void)state;
    expect_error("{" T("a", "[1]", "0", "4") "," T("a", "[1]", "4", "8") "}", 8,
                 "m: tensor a: is there twice");
    expect_error("{" T("a", "[2]", "0", "8") "," T("b", "[2]", "4", "12") "}", 12,
                 "m: tensor b: its data overlaps the tensor before");
    expect_error("{" T("a", "[1]", "0", "4") "," T("b", "[1]", "8", "12") "}", 12,
                 "m: tensor b: there is a hole before its data");
    expect_error("{" T("a", "[1]", "4", "8") "}", 8,
                 "m: tensor a: there is a hole before its data");
    expect_error("{" T("a", "[1]", "0", "4") "}", 8, "m: 4 bytes behind the last tensor");
    expect_error("{\"__metadata__\":{\"k\":1}}", 0, "m: __metadata__ k is no string");
    expect_error("{\"__metadata__\":[]}", 0, "m: __metadata__ is no object");
    expect_error("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "m: __metadata__ is there twice");
}

static void test_lengths_are_checked(void **state)
{
    (void)state;
    buffer file;
    sc_safetensors *st = NULL;
    sc_err err = {0};
    size_t n = 0;
    make_file("{}", 0, &file);
    assert_int_equal(sc_safetensors_parse("m", file.bytes, 5, 5, &st, &err), SC_INVALID);
    assert_string_equal(err.text, "m: truncated: 5 bytes");
    assert_int_equal(sc_safetensors_parse("m", file.bytes, 9, 10, &st, &err), SC_INVALID);
    assert_string_equal(err.text, "m: truncated: 9 bytes of a head of 10");
    assert_int_equal(sc_safetensors_parse("m", file.bytes, 9, 9, &st, &err), SC_INVALID);
    assert_string_equal(err.text, "m: truncated: a header of 2 bytes in a file of 9");
    static const uint8_t HUGE_LENGTH[8] = {1, 225, 245, 5};
    assert_int_equal(sc_safetensors_head_bytes("m", HUGE_LENGTH, UINT64_MAX, &n, &err), SC_LIMIT);
    assert_string_equal(
        err.text, "m: byte 0: header length 100000001 is over 100000000: no safetensors file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_no_tensors),
        cmocka_unit_test(test_sink_errors_come_back),
        cmocka_unit_test(test_other_dtypes_and_any_order_are_read),
        cmocka_unit_test(test_broken_json_is_refused),
        cmocka_unit_test(test_broken_entries_are_refused),
        cmocka_unit_test(test_names_and_cover),
        cmocka_unit_test(test_lengths_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
