/*
 * tokenizer_load: what is refused, with the text that says so, and the choices that a file makes.
 */
#include "tests/formats/tokenizer_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    TEXT_MAX = 2 * 1024 * 1024
};

/* "\u0100":0,... : the alphabet as the first 256 tokens, in the order of GPT-2's characters. */
static size_t put_alphabet(char *out, size_t room)
{
    size_t n = 0;
    int id = 0;
    for (unsigned cp = 0x21; cp < 0x144; cp++) {
        bool is_gap = (cp > 0x7e && cp < 0xa1) || cp == 0xad;
        if (!is_gap) {
            n +=
                (size_t)snprintf(out + n, room - n, "%s\"\\u%04x\":%d", id == 0 ? "" : ",", cp, id);
            id++;
        }
    }
    assert_int_equal(id, 256);
    return n;
}

/* A tokenizer.json of the alphabet, `vocab` behind it, merges, more of the model and of the root.
 */
static char *make_json(const char *vocab, const char *merges, const char *model, const char *root)
{
    char *text = malloc(TEXT_MAX);
    char *alphabet = malloc(TEXT_MAX);
    assert_non_null(text);
    assert_non_null(alphabet);
    (void)put_alphabet(alphabet, TEXT_MAX);
    int n = snprintf(text, TEXT_MAX,
                     "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}%s,\n"
                     "\"model\":{\"type\":\"BPE\"%s,\"vocab\":{%s%s},\n\"merges\":[%s]}}\n",
                     root, model, alphabet, vocab, merges);
    assert_true(n > 0 && n < TEXT_MAX);
    free(alphabet);
    return text;
}

static sc_status load(const char *text, sc_tokenizer **out, sc_err *err)
{
    const sc_tokenizer_load_file file = {"t.json", text, strlen(text)};
    return sc_tokenizer_load_json(&file, out, err);
}

static void expect_refusal(const char *text, sc_status want_status, const char *want)
{
    sc_tokenizer *tokenizer = NULL;
    sc_err err = {0};
    sc_status status = load(text, &tokenizer, &err);
    if (status != want_status || strcmp(err.text, want) != 0) {
        fail_msg("status %d '%s'\nnot    %d '%s'", (int)status, err.text, (int)want_status, want);
    }
    assert_null(tokenizer);
}

static void expect_json_refusal(const char *vocab, const char *merges, const char *model,
                                const char *root, sc_status status, const char *want)
{
    char *text = make_json(vocab, merges, model, root);
    expect_refusal(text, status, want);
    free(text);
}

static void test_json_is_read_strictly(void **state)
{
    (void)state;
    static const char *const BROKEN[][2] = {
        {"", "t.json:1:1: empty file"},
        {"\xef\xbb\xbf{}", "t.json:1:1: malformed JSON"},
        {"{\"a\": 1} x", "t.json:1:10: malformed JSON"},
        {"{\"a\": 1}{}", "t.json:1:9: malformed JSON"},
        {"{\n \"a\": 01}", "t.json:2:7: malformed number"},
        {"{\"a\": 1.}", "t.json:1:7: malformed number"},
        {"{\"a\": -}", "t.json:1:7: malformed number"},
        {"{\"a\": 1e}", "t.json:1:7: malformed number"},
        {"{\"a\": nul}", "t.json:1:7: malformed JSON"},
        {"{\"a\": \"\\x\"}", "t.json:1:8: unknown escape, or \\u0000, in a string"},
        {"{\"a\": \"\\u0000\"}", "t.json:1:8: unknown escape, or \\u0000, in a string"},
        {"{\"a\": \"\\u00g0\"}", "t.json:1:8: unknown escape, or \\u0000, in a string"},
        {"{\"a\": \"b\nc\"}", "t.json:1:9: a control character in a string"},
        {"{\"a\": \"\xff\"}", "t.json:1:8: bytes that are not UTF-8 in a string"},
        {"{\"a\": \"\xc0\xaf\"}", "t.json:1:8: bytes that are not UTF-8 in a string"},
        {"{\"a\": \"\xed\xa0\x80\"}", "t.json:1:8: bytes that are not UTF-8 in a string"},
        {"{\"a", "t.json:1:4: truncated: a string without an end"},
        {"[1]", "t.json: is no object; a tokenizer.json has model and added_tokens"},
        {"{}", "t.json: model.type is ''; only BPE can be read"},
        {"{\"model\":[1]}", "t.json: model.type is ''; only BPE can be read"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"vocab\":{}}}",
         "t.json: model.vocab is there twice"},
    };
    for (size_t i = 0; i < sizeof BROKEN / sizeof BROKEN[0]; i++) {
        bool is_kind = strstr(BROKEN[i][1], "only BPE") != NULL;
        expect_refusal(BROKEN[i][0], is_kind ? SC_UNSUPPORTED : SC_INVALID, BROKEN[i][1]);
    }
}

static void test_depth_is_limited(void **state)
{
    (void)state;
    enum {
        DEPTH = 100000
    };
    char *text = malloc(DEPTH + 1);
    assert_non_null(text);
    memset(text, '[', DEPTH);
    text[DEPTH] = '\0';
    sc_tokenizer *tokenizer = NULL;
    assert_int_equal(load(text, &tokenizer, NULL), SC_INVALID);
    free(text);
}

static void test_vocabularies_are_checked(void **state)
{
    (void)state;
    expect_json_refusal(",\"ab\":-1", "", "", "", SC_INVALID,
                        "t.json: model.vocab \"ab\": -1 is no number of a token");
    expect_json_refusal(",\"ab\":1.5", "", "", "", SC_INVALID,
                        "t.json: model.vocab \"ab\": 1.5 is no number of a token");
    expect_json_refusal(",\"ab\":\"300\"", "", "", "", SC_INVALID,
                        "t.json: model.vocab \"ab\": its number is no number");
    expect_json_refusal(",\"ab\":65536", "", "", "", SC_UNSUPPORTED,
                        "t.json: model.vocab \"ab\": token number 65536; a token file holds "
                        "uint16, numbers below 65536: take a tokenizer with a smaller vocabulary");
    expect_json_refusal(",\"ab\":1e300", "", "", "", SC_UNSUPPORTED,
                        "t.json: model.vocab \"ab\": token number 1e+300; a token file holds "
                        "uint16, numbers below 65536: take a tokenizer with a smaller vocabulary");
    expect_json_refusal(",\"ab\":7", "", "", "", SC_INVALID,
                        "t.json: model.vocab \"ab\": number 7 has another token already");
    expect_json_refusal(",\"ab\":300,\"ab\":301", "", "", "", SC_INVALID,
                        "t.json: model.vocab \"ab\": the token is there twice, as 300 and 301");
    expect_json_refusal(",\"\":300", "", "", "", SC_INVALID,
                        "t.json: model.vocab \"\": an empty token");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},"
                   "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
                   SC_UNSUPPORTED,
                   "t.json: the vocabulary has no token for byte 0x00: no byte-level BPE, or one "
                   "trained without the whole alphabet");
}

static void test_a_vocabulary_over_uint16_is_refused(void **state)
{
    (void)state;
    char *vocab = malloc(TEXT_MAX);
    size_t n = 0;
    assert_non_null(vocab);
    for (int i = 256; i < 65536; i++) {
        n += (size_t)snprintf(vocab + n, TEXT_MAX - n, ",\"t%d\":%d", i, i);
    }
    char *text = make_json(vocab, "", "", "");
    sc_tokenizer *tokenizer = NULL;
    assert_int_equal(load(text, &tokenizer, NULL), SC_OK);
    assert_int_equal(sc_tokenizer_vocab_size(tokenizer), 65536);
    sc_tokenizer_free(&tokenizer);
    free(text);
    (void)snprintf(vocab + n, TEXT_MAX - n, ",\"t65536\":65536");
    expect_json_refusal(vocab, "", "", "", SC_UNSUPPORTED,
                        "t.json: a vocabulary of 65537 tokens; a token file holds uint16, so at "
                        "most 65536: take a tokenizer with a smaller vocabulary");
    free(vocab);
}

static void test_merges_are_checked(void **state)
{
    (void)state;
    expect_json_refusal(",\"ab\":300", "\"a b\",\"a  b\"", "", "", SC_INVALID,
                        "t.json: model.merges[1]: a merge is two tokens with one space between "
                        "them");
    expect_json_refusal(",\"ab\":300", "\"ab\"", "", "", SC_INVALID,
                        "t.json: model.merges[0]: a merge is two tokens with one space between "
                        "them");
    expect_json_refusal(",\"ab\":300", "[\"a\",\"b\",\"c\"]", "", "", SC_INVALID,
                        "t.json: model.merges[0]: a merge is \"a b\" or [\"a\", \"b\"]");
    expect_json_refusal(",\"ab\":300", "[\"a\",\"\"]", "", "", SC_INVALID,
                        "t.json: model.merges[0]: an empty token");
    expect_json_refusal(",\"ab\":300", "[\"a\",\"xy\"]", "", "", SC_INVALID,
                        "t.json: model.merges[0]: 'xy' is not in the vocabulary");
    expect_json_refusal(",\"ab\":300", "[\"b\",\"a\"]", "", "", SC_INVALID,
                        "t.json: model.merges[0]: 'ba' is not in the vocabulary");
}

static void test_other_kinds_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const MODEL[][2] = {
        {",\"dropout\":0.1", "t.json: model.dropout is set; GPT-2's byte-level BPE has none"},
        {",\"end_of_word_suffix\":\"</w>\"",
         "t.json: model.end_of_word_suffix is set; GPT-2's byte-level BPE has none"},
        {",\"ignore_merges\":1", "t.json: model.ignore_merges is neither true nor false"},
    };
    for (size_t i = 0; i < sizeof MODEL / sizeof MODEL[0]; i++) {
        expect_json_refusal("", "", MODEL[i][0], "", i == 2 ? SC_INVALID : SC_UNSUPPORTED,
                            MODEL[i][1]);
    }
    expect_json_refusal("", "", "", ",\"normalizer\":{\"type\":\"NFC\"}", SC_UNSUPPORTED,
                        "t.json: normalizer is set; GPT-2's byte-level BPE has none");
    expect_refusal("{\"model\":{\"type\":\"WordPiece\"}}", SC_UNSUPPORTED,
                   "t.json: model.type is 'WordPiece'; only BPE can be read");
    static const char START[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},";
    static const char *const SPLIT[][2] = {
        {"\"pre_tokenizer\":{\"type\":\"Whitespace\"}}",
         "t.json: pre_tokenizer.type is 'Whitespace'; only ByteLevel can be read"},
        {"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true}}",
         "t.json: pre_tokenizer.add_prefix_space is set; GPT-2's byte-level BPE has none"},
        {"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":false}}",
         "t.json: pre_tokenizer.use_regex is false; only GPT-2's own expression is built in"},
    };
    for (size_t i = 0; i < sizeof SPLIT / sizeof SPLIT[0]; i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "%s%s", START, SPLIT[i][0]);
        expect_refusal(text, SC_UNSUPPORTED, SPLIT[i][1]);
    }
}

static void test_added_tokens_are_checked(void **state)
{
    (void)state;
    static const char *const ADDED[][2] = {
        {"{\"id\":300}", "t.json: added_tokens[0] has no content or no id"},
        {"3", "t.json: added_tokens[0] has no content or no id"},
        {"{\"id\":300,\"content\":\"\"}", "t.json: added_tokens[0] \"\": an empty token"},
        {"{\"id\":5,\"content\":\"<x>\"}",
         "t.json: added_tokens[0] \"<x>\": number 5 has another token already"},
        {"{\"id\":300,\"content\":\"ab\"}",
         "t.json: added_tokens[0] \"ab\": number 300, but 299 in the model"},
        {"{\"id\":300,\"content\":\"<x>\"},{\"id\":301,\"content\":\"<x>\"}",
         "t.json: added_tokens[1] \"<x>\": the added token is there twice"},
        {"{\"id\":299,\"content\":\"ab\"},{\"id\":299,\"content\":\"ab\"}",
         "t.json: added_tokens[1] \"ab\": the added token is there twice"},
    };
    for (size_t i = 0; i < sizeof ADDED / sizeof ADDED[0]; i++) {
        char root[256];
        (void)snprintf(root, sizeof root, ",\"added_tokens\":[%s]", ADDED[i][0]);
        expect_json_refusal(",\"ab\":299", "", "", root, SC_INVALID, ADDED[i][1]);
    }
    expect_json_refusal(
        "", "", "", ",\"added_tokens\":[{\"id\":300,\"content\":\"<m>\",\"lstrip\":true}]",
        SC_UNSUPPORTED, "t.json: added_tokens[0].lstrip is set; GPT-2's byte-level BPE has none");
    expect_json_refusal("", "", "", ",\"added_tokens\":[{\"id\":70000,\"content\":\"<m>\"}]",
                        SC_UNSUPPORTED,
                        "t.json: added_tokens[0] \"<m>\": token number 70000; a token file holds "
                        "uint16, numbers below 65536: take a tokenizer with a smaller vocabulary");
}

/* Tokens of "abc" with merges that lead to bc, and a token abc that no merge leads to. */
static size_t count_abc(const char *model)
{
    char *text = make_json(",\"bc\":300,\"abc\":301", "\"b c\"", model, "");
    sc_tokenizer *tokenizer = NULL;
    size_t n = 0;
    assert_int_equal(load(text, &tokenizer, NULL), SC_OK);
    free(sc_tokenizer_rig_encode(tokenizer, "abc", 3, &n));
    sc_tokenizer_free(&tokenizer);
    free(text);
    return n;
}

static void test_whole_words_may_go_before_merges(void **state)
{
    (void)state;
    assert_int_equal(count_abc(""), 2);
    assert_int_equal(count_abc(",\"ignore_merges\":false"), 2);
    assert_int_equal(count_abc(",\"ignore_merges\":true"), 1);
}

static sc_status load_pair(const char *vocab, const char *merges, sc_tokenizer **out, sc_err *err)
{
    const sc_tokenizer_load_file vocab_file = {"v.json", vocab, strlen(vocab)};
    const sc_tokenizer_load_file merges_file = {"m.txt", merges, strlen(merges)};
    return sc_tokenizer_load_pair(&vocab_file, &merges_file, out, err);
}

static void test_merges_txt_is_read_line_by_line(void **state)
{
    (void)state;
    static const char *const BROKEN[][2] = {
        {"#version: 0.2\na b\n\n", "m.txt:3: a merge is two tokens with one space between them"},
        {"a b\na b c\n", "m.txt:2: a merge is two tokens with one space between them"},
        {"#version: 0.2\r\na x\r\n", "m.txt:2: 'ax' is not in the vocabulary"},
    };
    char *vocab = malloc(TEXT_MAX);
    sc_tokenizer *tokenizer = NULL;
    sc_err err = {0};
    assert_non_null(vocab);
    vocab[0] = '{';
    size_t n = 1 + put_alphabet(vocab + 1, TEXT_MAX - 1);
    (void)snprintf(vocab + n, TEXT_MAX - n, ",\"ab\":256}");
    for (size_t i = 0; i < sizeof BROKEN / sizeof BROKEN[0]; i++) {
        assert_int_equal(load_pair(vocab, BROKEN[i][0], &tokenizer, &err), SC_INVALID);
        assert_string_equal(err.text, BROKEN[i][1]);
    }
    assert_int_equal(load_pair(vocab, "#version: 0.2\r\na b", &tokenizer, &err), SC_OK);
    free(sc_tokenizer_rig_encode(tokenizer, "ab", 2, &n));
    assert_int_equal(n, 1);
    sc_tokenizer_free(&tokenizer);
    free(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_is_read_strictly),
        cmocka_unit_test(test_depth_is_limited),
        cmocka_unit_test(test_vocabularies_are_checked),
        cmocka_unit_test(test_a_vocabulary_over_uint16_is_refused),
        cmocka_unit_test(test_merges_are_checked),
        cmocka_unit_test(test_other_kinds_are_refused_by_name),
        cmocka_unit_test(test_added_tokens_are_checked),
        cmocka_unit_test(test_whole_words_may_go_before_merges),
        cmocka_unit_test(test_merges_txt_is_read_line_by_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
