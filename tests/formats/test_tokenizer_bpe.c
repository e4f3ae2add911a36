/*
 * tokenizer_bpe: the heap merges what looking for the best pair again and again would; long words.
 */
#include "base/rng.h"
#include "formats/tokenizer_bpe.h"
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
    N_LETTERS = 3,
    N_MERGES = 40,
    WORD_MAX = 300,
    N_ROUNDS = 200
};

/* A random small vocabulary of the first letters: tokens are merged from tokens. */
typedef struct world {
    sc_arena arena;
    sc_tokenizer_merges merges;
    int n_ids;
    int pairs[N_MERGES][3]; // left, right, result, as listed
    char texts[N_LETTERS + N_MERGES][WORD_MAX];
} world;

static uint64_t draw(uint64_t seed, uint64_t *counter, uint64_t below)
{
    return sc_rng_u64(seed, 5, (*counter)++) % below;
}

static int find_text(const world *w, const char *text)
{
    for (int i = 0; i < w->n_ids; i++) {
        if (strcmp(w->texts[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

/* Some texts arise from several pairs, and some pairs are listed twice: the later place counts. */
static void make_world(world *w, uint64_t seed, uint64_t *counter)
{
    memset(w, 0, sizeof *w);
    w->n_ids = N_LETTERS;
    for (int i = 0; i < N_LETTERS; i++) {
        w->texts[i][0] = (char)('a' + i);
    }
    assert_true(sc_tokenizer_merges_init(&w->merges, N_MERGES, &w->arena));
    for (int i = 0; i < N_MERGES; i++) {
        char text[2 * WORD_MAX];
        int left = (int)draw(seed, counter, (uint64_t)w->n_ids);
        int right = (int)draw(seed, counter, (uint64_t)w->n_ids);
        (void)snprintf(text, sizeof text, "%s%s", w->texts[left], w->texts[right]);
        int id = find_text(w, text);
        if (id < 0 && strlen(text) < 20) {
            id = w->n_ids++;
            memcpy(w->texts[id], text, strlen(text) + 1);
        }
        int *pair = w->pairs[i];
        pair[0] = id < 0 ? -1 : left;
        pair[1] = right;
        pair[2] = id;
        if (id >= 0) {
            sc_tokenizer_merges_add(&w->merges, left, right, id);
        }
    }
}

/* Place of a pair in the list, the last one, -1 for none. */
static int find_pair(const world *w, int left, int right)
{
    for (int i = N_MERGES - 1; i >= 0; i--) {
        if (w->pairs[i][0] == left && w->pairs[i][1] == right) {
            return i;
        }
    }
    return -1;
}

/* By definition: the pair that stands first in the list, the leftmost of several. */
static size_t merge_plainly(const world *w, uint16_t *ids, size_t n)
{
    for (;;) {
        int best = N_MERGES;
        size_t best_at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            int rank = find_pair(w, ids[i], ids[i + 1]);
            if (rank >= 0 && rank < best) {
                best = rank;
                best_at = i;
            }
        }
        if (best == N_MERGES) {
            return n;
        }
        ids[best_at] = (uint16_t)w->pairs[best][2];
        memmove(&ids[best_at + 1], &ids[best_at + 2], (n - best_at - 2) * sizeof *ids);
        n--;
    }
}

static void test_the_heap_merges_by_rank_then_place(void **state)
{
    (void)state;
    sc_tokenizer_bpe bpe = {0};
    size_t n_merged = 0;
    uint64_t counter = 0;
    for (uint64_t seed = 0; seed < N_ROUNDS; seed++) {
        static world w;
        uint16_t ids[WORD_MAX];
        make_world(&w, seed, &counter);
        size_t n = seed < 40 ? 1 + seed / 4 : 1 + draw(seed, &counter, WORD_MAX);
        assert_true(sc_tokenizer_bpe_reserve(&bpe, n));
        for (size_t i = 0; i < n; i++) {
            ids[i] = (uint16_t)draw(seed, &counter, N_LETTERS);
        }
        memcpy(bpe.ids, ids, n * sizeof *ids);
        size_t want = merge_plainly(&w, ids, n);
        assert_int_equal(sc_tokenizer_bpe_merge(&bpe, &w.merges, n), want);
        assert_memory_equal(bpe.ids, ids, want * sizeof *ids);
        n_merged += n - want;
        sc_arena_done(&w.arena);
    }
    assert_true(n_merged > 1000);
    sc_tokenizer_bpe_done(&bpe);
}

/* A million bytes without a space: n log n, or the test would not end. */
static void test_a_long_word_comes_back(void **state)
{
    (void)state;
    const size_t n = 1000 * 1000;
    sc_tokenizer *tokenizer = sc_tokenizer_rig_load("tokenizer.json");
    char *text = malloc(n);
    char *back = NULL;
    size_t n_tokens = 0;
    size_t n_back = 0;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        text[i] = (char)(i % 7 == 0 || i > n / 2 ? 'a' : "theos"[sc_rng_u64(1, 2, i) % 5]);
    }
    int32_t *tokens = sc_tokenizer_rig_encode(tokenizer, text, n, &n_tokens);
    assert_true(n_tokens < n / 2);
    assert_int_equal(sc_tokenizer_decode(tokenizer, tokens, n_tokens, &back, &n_back, NULL), SC_OK);
    assert_int_equal(n_back, n);
    assert_memory_equal(back, text, n);
    free(tokens);
    free(text);
    free(back);
    sc_tokenizer_free(&tokenizer);
}

static void test_a_word_over_the_limit_is_refused(void **state)
{
    (void)state;
    enum {
        PIECE = 1024 * 1024
    };
    sc_tokenizer *tokenizer = sc_tokenizer_rig_load("tokenizer.json");
    sc_tokenizer_encode *encode = NULL;
    const int32_t *tokens = NULL;
    size_t n = 0;
    sc_err err = {0};
    char *piece = malloc(PIECE);
    assert_non_null(piece);
    memset(piece, '=', PIECE);
    assert_int_equal(sc_tokenizer_encode_new(tokenizer, &encode, NULL), SC_OK);
    assert_int_equal(
        sc_tokenizer_encode_push(encode, "three words, ", 13, false, &tokens, &n, &err), SC_OK);
    sc_status status = SC_OK;
    for (int i = 0; i < 40 && status == SC_OK; i++) {
        status = sc_tokenizer_encode_push(encode, piece, PIECE, false, &tokens, &n, &err);
    }
    assert_int_equal(status, SC_LIMIT);
    assert_string_equal(err.text,
                        "byte 12: a word of over 16777216 bytes, without a change between "
                        "letters, numbers, signs and spaces; split it");
    // The next call begins another text.
    assert_int_equal(sc_tokenizer_encode_push(encode, "a", 1, true, &tokens, &n, &err), SC_OK);
    assert_int_equal(n, 1);
    assert_int_equal(tokens[0], sc_tokenizer_find(tokenizer, "a", 1));
    free(piece);
    sc_tokenizer_encode_free(&encode);
    sc_tokenizer_free(&tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_heap_merges_by_rank_then_place),
        cmocka_unit_test(test_a_long_word_comes_back),
        cmocka_unit_test(test_a_word_over_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
