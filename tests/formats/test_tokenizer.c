/*
 * tokenizer: the tokens, words and character classes are those of Hugging Face's library, for texts
 * in many scripts and for bytes that are no text; tests/golden/make_tokenizer.py made them.
 */
#include "formats/tokenizer_split.h"
#include "formats/tokenizer_unicode.h"
#include "tests/formats/tokenizer_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Reads cases.bin from front to back. */
typedef struct cursor {
    const uint8_t *p;
    size_t left;
} cursor;

typedef struct golden {
    char kind;
    const uint8_t *text;
    size_t n_text;
    size_t n_words;
    const uint8_t *words; // uint16 each
    size_t n_tokens;
    const uint8_t *tokens;
} golden;

static const uint8_t *take(cursor *c, size_t n)
{
    const uint8_t *p = c->p;
    assert_true(n <= c->left);
    c->p += n;
    c->left -= n;
    return p;
}

static uint32_t get_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int get_u16(const uint8_t *p, size_t i)
{
    return p[2 * i] | p[2 * i + 1] << 8;
}

static golden take_case(cursor *c)
{
    golden g = {.kind = (char)*take(c, 1)};
    g.n_text = get_u32(take(c, 4));
    g.text = take(c, g.n_text);
    g.n_words = get_u32(take(c, 4));
    g.words = take(c, 2 * g.n_words);
    g.n_tokens = get_u32(take(c, 4));
    g.tokens = take(c, 2 * g.n_tokens);
    return g;
}

typedef void (*check_case)(const golden *g, int index, void *context);

/* Calls `check` for every case of a kind; their number is known, so none is left out. */
static void for_each_case(char kind, int n_want, check_case check, void *context)
{
    sc_tokenizer_load_file file = sc_tokenizer_rig_read("cases.bin");
    cursor c = {(const uint8_t *)file.text, file.n};
    int n = 0;
    assert_memory_equal(take(&c, 8), "SCTOKG1", 8);
    while (c.left > 0) {
        golden g = take_case(&c);
        if (g.kind == kind) {
            check(&g, n++, context);
        }
    }
    assert_int_equal(n, n_want);
    free((char *)file.text);
}

enum {
    N_GPT2 = 325,
    N_ADDED = 97
};

static void check_words(const golden *g, int index, void *context)
{
    int *n_checked = context;
    size_t at = 0;
    for (size_t i = 0; i < g->n_words; i++) {
        size_t n = sc_tokenizer_split_next(g->text + at, g->n_text - at);
        if (n != (size_t)get_u16(g->words, i)) {
            fail_msg("case %d '%.*s': word %zu at byte %zu has %zu bytes, not %d", index,
                     (int)g->n_text, (const char *)g->text, i, at, n, get_u16(g->words, i));
        }
        at += n;
    }
    assert_true(g->n_words == 0 || at == g->n_text);
    *n_checked += g->n_words > 0;
}

static void test_words_are_the_librarys(void **state)
{
    (void)state;
    int n_checked = 0;
    for_each_case('g', N_GPT2, check_words, &n_checked);
    assert_true(n_checked > 250);
}

static void check_tokens(const golden *g, int index, void *context)
{
    size_t n = 0;
    int32_t *tokens = sc_tokenizer_rig_encode(context, g->text, g->n_text, &n);
    for (size_t i = 0; i < n && i < g->n_tokens; i++) {
        if (tokens[i] != get_u16(g->tokens, i)) {
            fail_msg("case %d '%.*s': token %zu is %d, not %d", index, (int)g->n_text,
                     (const char *)g->text, i, tokens[i], get_u16(g->tokens, i));
        }
    }
    assert_int_equal(n, g->n_tokens);
    free(tokens);
}

static void test_tokens_are_the_librarys(void **state)
{
    (void)state;
    sc_tokenizer *tokenizer = sc_tokenizer_rig_load("tokenizer.json");
    assert_int_equal(sc_tokenizer_vocab_size(tokenizer), 1300);
    for_each_case('g', N_GPT2, check_tokens, tokenizer);
    sc_tokenizer_free(&tokenizer);
}

static void test_vocab_and_merges_give_the_same_tokens(void **state)
{
    (void)state;
    sc_tokenizer *tokenizer = sc_tokenizer_rig_load_pair();
    for_each_case('g', N_GPT2, check_tokens, tokenizer);
    sc_tokenizer_free(&tokenizer);
}

static void test_added_tokens_are_found_first(void **state)
{
    (void)state;
    sc_tokenizer *tokenizer = sc_tokenizer_rig_load("added.json");
    assert_int_equal(sc_tokenizer_vocab_size(tokenizer), 1309);
    for_each_case('a', N_ADDED, check_tokens, tokenizer);
    sc_tokenizer_free(&tokenizer);
}

static void check_pieces(const golden *g, int index, void *context)
{
    sc_tokenizer_encode *encode = context;
    for (size_t piece = 1; piece <= 9 && piece <= g->n_text; piece++) {
        size_t n = 0;
        int32_t *tokens = sc_tokenizer_rig_encode_pieces(encode, g->text, g->n_text, piece, &n);
        assert_int_equal(n, g->n_tokens);
        for (size_t i = 0; i < n; i++) {
            if (tokens[i] != get_u16(g->tokens, i)) {
                fail_msg("case %d in pieces of %zu: token %zu is %d, not %d", index, piece, i,
                         tokens[i], get_u16(g->tokens, i));
            }
        }
        free(tokens);
    }
}

/* All texts through one encoder, so the cache is full of words of other texts too. */
static void test_pieces_give_the_same_tokens(void **state)
{
    (void)state;
    static const char *const FILES[] = {"tokenizer.json", "added.json"};
    for (int i = 0; i < 2; i++) {
        sc_tokenizer *tokenizer = sc_tokenizer_rig_load(FILES[i]);
        sc_tokenizer_encode *encode = NULL;
        assert_int_equal(sc_tokenizer_encode_new(tokenizer, &encode, NULL), SC_OK);
        for_each_case(i == 0 ? 'g' : 'a', i == 0 ? N_GPT2 : N_ADDED, check_pieces, encode);
        sc_tokenizer_encode_free(&encode);
        sc_tokenizer_free(&tokenizer);
    }
}

static void check_decoding(const golden *g, int index, void *context)
{
    int32_t *tokens = calloc(g->n_tokens + 1, sizeof *tokens);
    char *text = NULL;
    size_t n = 0;
    assert_non_null(tokens);
    for (size_t i = 0; i < g->n_tokens; i++) {
        tokens[i] = get_u16(g->tokens, i);
    }
    assert_int_equal(sc_tokenizer_decode(context, tokens, g->n_tokens, &text, &n, NULL), SC_OK);
    if (n != g->n_text || memcmp(text, g->text, n) != 0) {
        fail_msg("case %d '%.*s' became '%s'", index, (int)g->n_text, (const char *)g->text, text);
    }
    assert_int_equal(text[n], '\0');
    free(text);
    free(tokens);
}

static void test_decoding_gives_the_text_back(void **state)
{
    (void)state;
    sc_tokenizer *tokenizer = sc_tokenizer_rig_load("tokenizer.json");
    sc_tokenizer *added = sc_tokenizer_rig_load("added.json");
    for_each_case('g', N_GPT2, check_decoding, tokenizer);
    for_each_case('a', N_ADDED, check_decoding, added);
    sc_tokenizer_free(&tokenizer);
    sc_tokenizer_free(&added);
}

/* UTF-8 of a code point behind one byte of a known class. */
static size_t put_pair(char mate, uint32_t cp, uint8_t out[5])
{
    size_t n = 0;
    out[n++] = (uint8_t)mate;
    if (cp < 0x80) {
        out[n++] = (uint8_t)cp;
    } else if (cp < 0x800) {
        out[n++] = (uint8_t)(0xc0 | cp >> 6);
    } else if (cp < 0x10000) {
        out[n++] = (uint8_t)(0xe0 | cp >> 12);
        out[n++] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
    } else {
        out[n++] = (uint8_t)(0xf0 | cp >> 18);
        out[n++] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
        out[n++] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
    }
    if (cp >= 0x80) {
        out[n++] = (uint8_t)(0x80 | (cp & 0x3f));
    }
    return n;
}

/* The class by its behaviour: a character joins its own kind. */
static int probe_class(uint32_t cp)
{
    static const char MATES[] = {'!', 'a', '1'};
    for (int kind = 0; kind < 3; kind++) {
        uint8_t text[5];
        size_t n = put_pair(MATES[kind], cp, text);
        if (sc_tokenizer_split_next(text, n) == n) {
            return kind;
        }
    }
    return SC_TOKENIZER_UNICODE_SPACE;
}

static void test_every_code_point_has_the_librarys_class(void **state)
{
    (void)state;
    sc_tokenizer_load_file file = sc_tokenizer_rig_read("classes.bin");
    cursor c = {(const uint8_t *)file.text, file.n};
    const uint8_t *range = take(&c, 12);
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        while (cp > get_u32(range + 4) && c.left > 0) {
            range = take(&c, 12);
        }
        bool is_inside = cp >= get_u32(range) && cp <= get_u32(range + 4);
        int want = is_inside ? (int)get_u32(range + 8) : 0;
        bool is_surrogate = cp >= 0xd800 && cp < 0xe000;
        if (!is_surrogate && probe_class(cp) != want) {
            fail_msg("U+%04X: class %d, not %d", cp, probe_class(cp), want);
        }
    }
    assert_int_equal(c.left, 0);
    free((char *)file.text);
}

static void test_tokens_by_text_and_number(void **state)
{
    (void)state;
    sc_tokenizer *tokenizer = sc_tokenizer_rig_load("added.json");
    size_t n = 77;
    assert_int_equal(sc_tokenizer_find(tokenizer, "<|endoftext|>", 13), 0);
    assert_int_equal(sc_tokenizer_find(tokenizer, "<|pad|>!", 8), 1301);
    assert_int_equal(sc_tokenizer_find(tokenizer, "\xe2\x98\x83", 3), 1307);
    assert_int_equal(sc_tokenizer_find(tokenizer, "no such token", 13), -1);
    int byte = sc_tokenizer_find(tokenizer, "\xff", 1);
    assert_true(byte > 0);
    const uint8_t *bytes = sc_tokenizer_bytes(tokenizer, byte, &n);
    assert_int_equal(n, 1);
    assert_int_equal(bytes[0], 0xff);
    assert_null(sc_tokenizer_bytes(tokenizer, -1, &n));
    assert_null(sc_tokenizer_bytes(tokenizer, 1309, &n));
    const int32_t tokens[] = {0, 1309};
    char *text = NULL;
    sc_err err = {0};
    assert_int_equal(sc_tokenizer_decode(tokenizer, tokens, 2, &text, &n, &err), SC_INVALID);
    assert_string_equal(err.text, "token 1 is 1309, which the tokenizer does not have; it has "
                                  "1309, the largest 1308: take the one the tokens were made with");
    assert_null(text);
    sc_tokenizer_free(&tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_are_the_librarys),
        cmocka_unit_test(test_tokens_are_the_librarys),
        cmocka_unit_test(test_vocab_and_merges_give_the_same_tokens),
        cmocka_unit_test(test_added_tokens_are_found_first),
        cmocka_unit_test(test_pieces_give_the_same_tokens),
        cmocka_unit_test(test_decoding_gives_the_text_back),
        cmocka_unit_test(test_every_code_point_has_the_librarys_class),
        cmocka_unit_test(test_tokens_by_text_and_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
