/*
 * tokens: what is refused, with the exact text, and what is read.
 */
#include "formats/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum {
    N_TEXT = 20,
    FILE_BYTES = SC_TOKENS_HEADER_BYTES + 2 * N_TEXT
};

/* A good llm.c file of N_TEXT tokens 'a' 'b' ... */
static void make_file(uint8_t file[FILE_BYTES])
{
    char text[N_TEXT];
    for (int i = 0; i < N_TEXT; i++) {
        text[i] = (char)('a' + i);
    }
    assert_int_equal(sc_tokens_pack_header(N_TEXT, file, NULL), SC_OK);
    sc_tokens_pack_bytes(text, N_TEXT, file + SC_TOKENS_HEADER_BYTES);
}

static void expect_error(const uint8_t *file, size_t n, sc_tokens_format format, sc_status status,
                         const char *want)
{
    sc_tokens_info info = {.n_tokens = 77};
    sc_err err = {0};
    size_t n_head = n < SC_TOKENS_HEADER_BYTES ? n : SC_TOKENS_HEADER_BYTES;
    assert_int_equal(sc_tokens_parse("a.bin", file, n_head, n, format, &info, &err), status);
    assert_string_equal(err.text, want);
    assert_int_equal(info.n_tokens, 77);
}

static void test_llmc_file_is_read(void **state)
{
    (void)state;
    uint8_t file[FILE_BYTES];
    int32_t tokens[N_TEXT];
    make_file(file);
    for (int format = SC_TOKENS_AUTO; format <= SC_TOKENS_LLMC; format++) {
        sc_tokens_info info;
        assert_int_equal(sc_tokens_parse("a.bin", file, SC_TOKENS_HEADER_BYTES, FILE_BYTES,
                                         (sc_tokens_format)format, &info, NULL),
                         SC_OK);
        assert_int_equal(info.format, SC_TOKENS_LLMC);
        assert_int_equal(info.data_offset, 1024);
        assert_int_equal(info.n_tokens, N_TEXT);
    }
    sc_tokens_unpack(file + SC_TOKENS_HEADER_BYTES, N_TEXT, tokens);
    for (int i = 0; i < N_TEXT; i++) {
        assert_int_equal(tokens[i], 'a' + i);
    }
}

static void test_header_has_llmc_bytes(void **state)
{
    (void)state;
    static const uint8_t START[] = {0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 0x39, 0x30, 0, 0, 0};
    uint8_t header[SC_TOKENS_HEADER_BYTES];
    sc_err err = {0};
    assert_int_equal(sc_tokens_pack_header(12345, header, NULL), SC_OK);
    assert_memory_equal(header, START, sizeof START);
    assert_int_equal(sc_tokens_pack_header(UINT64_C(2147483648), header, &err), SC_LIMIT);
    assert_string_equal(err.text, "2147483648 tokens do not fit an llm.c header, which counts up "
                                  "to 2147483647; split the text");
}

static void test_raw_file_is_read(void **state)
{
    (void)state;
    static const uint8_t RAW[] = {1, 0, 255, 255, 0, 1};
    sc_tokens_info info;
    int32_t tokens[3];
    assert_int_equal(sc_tokens_parse("a.bin", RAW, 6, 6, SC_TOKENS_AUTO, &info, NULL), SC_OK);
    assert_int_equal(info.format, SC_TOKENS_RAW16);
    assert_int_equal(info.data_offset, 0);
    assert_int_equal(info.n_tokens, 3);
    sc_tokens_unpack(RAW, 3, tokens);
    assert_int_equal(tokens[0], 1);
    assert_int_equal(tokens[1], 65535);
    assert_int_equal(tokens[2], 256);
    expect_error(RAW, 5, SC_TOKENS_AUTO, SC_INVALID,
                 "a.bin: truncated: 5 bytes are no whole number of uint16 tokens; make the file "
                 "again");
    expect_error(RAW, 0, SC_TOKENS_RAW16, SC_INVALID,
                 "a.bin: empty file; make it with `stagecoach data tokenize`");
}

static void test_packed_tokens_are_read_back(void **state)
{
    (void)state;
    static const int32_t TOKENS[] = {0, 1, 255, 256, 50256, 65535};
    uint8_t bytes[2 * 6];
    int32_t back[6];
    sc_tokens_pack(TOKENS, 6, bytes);
    sc_tokens_unpack(bytes, 6, back);
    assert_memory_equal(back, TOKENS, sizeof TOKENS);
    assert_int_equal(bytes[8], 0x50);
    assert_int_equal(bytes[9], 0xc4);
}

static void test_truncated_file_is_refused(void **state)
{
    (void)state;
    uint8_t file[FILE_BYTES];
    make_file(file);
    expect_error(file, FILE_BYTES - 2, SC_TOKENS_AUTO, SC_INVALID,
                 "a.bin: truncated: the header promises 20 tokens, 1064 bytes in all, the file has "
                 "1062; make the file again");
    expect_error(file, 1000, SC_TOKENS_AUTO, SC_INVALID,
                 "a.bin: truncated: 1000 bytes are less than the header's 1024; make the file "
                 "again");
    expect_error(file, 0, SC_TOKENS_LLMC, SC_INVALID,
                 "a.bin: truncated: 0 bytes are less than the header's 1024; make the file again");
    file[8] = 5;
    expect_error(file, FILE_BYTES, SC_TOKENS_AUTO, SC_INVALID,
                 "a.bin: too long: the header promises 5 tokens, 1034 bytes in all, the file has "
                 "1064; make the file again");
    file[8] = 0;
    expect_error(file, SC_TOKENS_HEADER_BYTES, SC_TOKENS_AUTO, SC_INVALID,
                 "a.bin: byte 8: 0 tokens; make the file again from a text that is not empty");
    file[11] = 0x80;
    expect_error(file, SC_TOKENS_HEADER_BYTES, SC_TOKENS_AUTO, SC_INVALID,
                 "a.bin: byte 8: -2147483648 tokens; make the file again from a text that is not "
                 "empty");
}

static void test_wrong_magic_is_refused(void **state)
{
    (void)state;
    uint8_t file[FILE_BYTES];
    make_file(file);
    file[0]++;
    static const char WRONG[] = "a.bin: byte 0: wrong magic 20240521, an llm.c token file has "
                                "20240520; use format raw16 if the file is bare uint16 tokens";
    expect_error(file, FILE_BYTES, SC_TOKENS_LLMC, SC_INVALID, WRONG);
    // The rest is a header of this very file, so it is no raw file either.
    expect_error(file, FILE_BYTES, SC_TOKENS_AUTO, SC_INVALID, WRONG);
    make_file(file);
    file[4] = 2;
    expect_error(file, FILE_BYTES, SC_TOKENS_AUTO, SC_UNSUPPORTED,
                 "a.bin: byte 4: version 2, only version 1 can be read; make the file again");
    static const uint8_t LLAMA[] = {0xa1, 0xd9, 0x34, 0x01};
    make_file(file);
    memcpy(file, LLAMA, 4);
    expect_error(file, FILE_BYTES, SC_TOKENS_AUTO, SC_UNSUPPORTED,
                 "a.bin: byte 0: magic 20240801 is llm.c's file of uint32 tokens; only uint16 "
                 "tokens (magic 20240520) can be read");
}

static void test_token_over_the_vocabulary_is_found(void **state)
{
    (void)state;
    static const uint8_t TOKENS[] = {5, 0, 255, 0, 44, 1, 0, 0};
    const sc_tokens_info llmc = {SC_TOKENS_LLMC, 1024, 100};
    const sc_tokens_info raw = {SC_TOKENS_RAW16, 0, 100};
    sc_err err = {0};
    assert_int_equal(sc_tokens_find_invalid(TOKENS, 4, 256), 2);
    assert_int_equal(sc_tokens_find_invalid(TOKENS, 4, 301), 4);
    assert_int_equal(sc_tokens_find_invalid(TOKENS, 4, 5), 0);
    assert_int_equal(sc_tokens_check_range("a.bin", &llmc, 15, TOKENS, 4, 301, &err), SC_OK);
    assert_int_equal(sc_tokens_check_range("a.bin", &llmc, 15, TOKENS, 4, 256, &err), SC_INVALID);
    assert_string_equal(err.text,
                        "a.bin: byte 1058: token 17 is 300, not below vocab_size 256; set "
                        "model.vocab_size to at least 301 or tokenize the text again");
    assert_int_equal(sc_tokens_check_range("a.bin", &raw, 0, TOKENS, 4, 256, &err), SC_INVALID);
    assert_string_equal(err.text, "a.bin: byte 4: token 2 is 300, not below vocab_size 256; set "
                                  "model.vocab_size to at least 301 or tokenize the text again");
}

static void test_file_shorter_than_a_batch_is_refused(void **state)
{
    (void)state;
    sc_tokens_info info = {SC_TOKENS_LLMC, 1024, 64};
    sc_err err = {0};
    assert_int_equal(sc_tokens_n_samples(0, 16), 0);
    assert_int_equal(sc_tokens_n_samples(16, 16), 0);
    assert_int_equal(sc_tokens_n_samples(17, 16), 1);
    assert_int_equal(sc_tokens_n_samples(65, 16), 4);
    assert_int_equal(sc_tokens_check_batch("a.bin", &info, 4, 16, &err), SC_INVALID);
    assert_string_equal(err.text, "a.bin: 64 tokens are shorter than one batch: 4 samples of 16 "
                                  "tokens need 65; use a longer text or a smaller batch");
    info.n_tokens = 65;
    assert_int_equal(sc_tokens_check_batch("a.bin", &info, 4, 16, &err), SC_OK);
}

static void test_format_names(void **state)
{
    (void)state;
    sc_tokens_format format = SC_TOKENS_AUTO;
    assert_true(sc_tokens_format_parse("raw16", &format));
    assert_int_equal(format, SC_TOKENS_RAW16);
    assert_string_equal(sc_tokens_format_text(SC_TOKENS_LLMC), "llmc");
    assert_false(sc_tokens_format_parse("llm", &format));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llmc_file_is_read),
        cmocka_unit_test(test_header_has_llmc_bytes),
        cmocka_unit_test(test_raw_file_is_read),
        cmocka_unit_test(test_packed_tokens_are_read_back),
        cmocka_unit_test(test_truncated_file_is_refused),
        cmocka_unit_test(test_wrong_magic_is_refused),
        cmocka_unit_test(test_token_over_the_vocabulary_is_found),
        cmocka_unit_test(test_file_shorter_than_a_batch_is_refused),
        cmocka_unit_test(test_format_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
