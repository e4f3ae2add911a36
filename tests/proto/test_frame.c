#include "proto/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum {
    N = SC_FRAME_HEADER_BYTES + 5
};

static void make(unsigned char bytes[N])
{
    const unsigned char payload[5] = {1, 2, 3, 4, 5};
    memcpy(bytes + SC_FRAME_HEADER_BYTES, payload, sizeof payload);
    sc_frame frame = {.version = 7,
                      .type = 513,
                      .seq = 0x1122334455667788,
                      .payload = bytes + SC_FRAME_HEADER_BYTES,
                      .n_payload = 5};
    sc_frame_write(&frame, bytes);
}

static void crc_is_the_standard_one(void **state)
{
    (void)state;
    const unsigned char *text = (const unsigned char *)"123456789";
    assert_int_equal(sc_frame_crc(0, text, 9), 0xCBF43926);
    assert_int_equal(sc_frame_crc(sc_frame_crc(0, text, 4), text + 4, 5), 0xCBF43926);
    assert_int_equal(sc_frame_crc(0, text, 0), 0);
}

static void layout_is_as_documented(void **state)
{
    (void)state;
    unsigned char bytes[N];
    make(bytes);
    const unsigned char expected[] = {'S', 'T', 'G', 'C', 7, 0, 1, 2, 5, 0, 0, 0};
    assert_memory_equal(bytes, expected, sizeof expected);
    const unsigned char seq[] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    assert_memory_equal(bytes + 16, seq, sizeof seq);
    unsigned char covered[12 + 8 + 5];
    memcpy(covered, bytes, 12);
    memcpy(covered + 12, bytes + 16, 13);
    uint32_t crc = sc_frame_crc(0, covered, sizeof covered);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(bytes[12 + i], (crc >> (8 * i)) & 0xFF);
    }
}

static void parse_gives_back_what_was_written(void **state)
{
    (void)state;
    unsigned char bytes[N];
    make(bytes);
    sc_frame frame;
    sc_err err;
    assert_int_equal(sc_frame_parse(bytes, N, 7, &frame, &err), SC_OK);
    assert_int_equal(frame.version, 7);
    assert_int_equal(frame.type, 513);
    assert_true(frame.seq == 0x1122334455667788);
    assert_int_equal(frame.n_payload, 5);
    assert_ptr_equal(frame.payload, bytes + SC_FRAME_HEADER_BYTES);
}

static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    unsigned char bytes[N];
    sc_frame frame;
    for (size_t bit = 0; bit < N * (size_t)8; bit++) {
        make(bytes);
        bytes[bit / 8] ^= (unsigned char)(1U << (bit % 8));
        assert_int_equal(sc_frame_parse(bytes, N, 7, &frame, NULL), SC_PROTOCOL);
    }
}

static void every_other_length_is_refused(void **state)
{
    (void)state;
    unsigned char bytes[N + 1] = {0};
    make(bytes);
    sc_frame frame;
    for (size_t n = 0; n <= N + 1; n++) {
        sc_status expected = n == N ? SC_OK : SC_PROTOCOL;
        assert_int_equal(sc_frame_parse(bytes, n, 7, &frame, NULL), expected);
    }
}

static void another_version_is_named_whatever_follows(void **state)
{
    (void)state;
    const unsigned char future[] = {'S', 'T', 'G', 'C', 9, 0, 'x'};
    sc_frame frame;
    sc_err err;
    assert_int_equal(sc_frame_parse(future, sizeof future, 7, &frame, &err), SC_PROTOCOL);
    assert_string_equal(err.text, "the peer speaks protocol version 9, this program version 7: "
                                  "install the same release on both ends");
    const unsigned char http[] = "GET / HTTP/1.1\r\n";
    assert_int_equal(sc_frame_parse(http, sizeof http, 7, &frame, &err), SC_PROTOCOL);
    assert_string_equal(err.text, "not a stagecoach frame: it starts with bytes 47 45 54 20");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_is_the_standard_one),
        cmocka_unit_test(layout_is_as_documented),
        cmocka_unit_test(parse_gives_back_what_was_written),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(every_other_length_is_refused),
        cmocka_unit_test(another_version_is_named_whatever_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
