#include "formats/tokenizer_build.h"

#include "formats/tokenizer_alphabet.h"

#include <stdlib.h>
#include <string.h>

static sc_status no_memory(sc_err *err)
{
    return sc_status_fail(err, SC_NO_MEMORY, "no memory for a tokenizer");
}

sc_status sc_tokenizer_build_new(sc_tokenizer **out, sc_err *err)
{
    sc_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer == NULL) {
        return no_memory(err);
    }
    sc_arena_init(&tokenizer->arena, 0);
    if (!sc_tokenizer_vocab_init(&tokenizer->vocab, &tokenizer->arena)) {
        sc_tokenizer_free(&tokenizer);
        return no_memory(err);
    }
    *out = tokenizer;
    return SC_OK;
}

static sc_status check_id(const sc_tokenizer *tokenizer, const char *where, double number, int *id,
                          sc_err *err)
{
    if (number >= SC_TOKENIZER_VOCAB_MAX) {
        return sc_status_fail(err, SC_UNSUPPORTED,
                              "%s: token number %.10g; a token file holds uint16, numbers below "
                              "%d: take a tokenizer with a smaller vocabulary",
                              where, number, SC_TOKENIZER_VOCAB_MAX);
    }
    if (!(number >= 0) || number != (double)(int)number) {
        return sc_status_fail(err, SC_INVALID, "%s: %g is no number of a token", where, number);
    }
    *id = (int)number;
    if (tokenizer->vocab.tokens[*id].bytes != NULL) {
        return sc_status_fail(err, SC_INVALID, "%s: number %d has another token already", where,
                              *id);
    }
    return SC_OK;
}

static sc_status check_length(const char *where, size_t n, size_t n_max, sc_err *err)
{
    if (n == 0) {
        return sc_status_fail(err, SC_INVALID, "%s: an empty token", where);
    }
    if (n > n_max) {
        return sc_status_fail(err, SC_LIMIT, "%s: a token of %zu bytes, at most %zu may be", where,
                              n, n_max);
    }
    return SC_OK;
}

/* What the text of a token stands for: bytes of the arena, NULL when out of memory; *is_raw when it
   is not spelled in the alphabet. */
static const uint8_t *spell(sc_arena *arena, const char *text, size_t n, size_t *n_bytes,
                            bool *is_raw)
{
    uint8_t *out = sc_arena_alloc(arena, n, 1);
    if (out == NULL) {
        return NULL;
    }
    *is_raw = !sc_tokenizer_alphabet_decode(text, n, out, n_bytes);
    if (*is_raw) {
        memcpy(out, text, n);
        *n_bytes = n;
    }
    return out;
}

sc_status sc_tokenizer_build_token(sc_tokenizer *tokenizer, const char *where, const char *text,
                                   double id, sc_err *err)
{
    int number = 0;
    size_t n_bytes = 0;
    bool is_raw = false;
    SC_TRY(check_id(tokenizer, where, id, &number, err));
    SC_TRY(check_length(where, strlen(text), SC_TOKENIZER_VOCAB_TOKEN_MAX, err));
    const uint8_t *bytes = spell(&tokenizer->arena, text, strlen(text), &n_bytes, &is_raw);
    if (bytes == NULL) {
        return no_memory(err);
    }
    int there = sc_tokenizer_vocab_find(&tokenizer->vocab, bytes, n_bytes, is_raw);
    if (there >= 0) {
        return sc_status_fail(err, SC_INVALID, "%s: the token is there twice, as %d and %d", where,
                              there, number);
    }
    sc_tokenizer_vocab_add(&tokenizer->vocab, number, bytes, n_bytes, is_raw);
    return SC_OK;
}

sc_status sc_tokenizer_build_merges(sc_tokenizer *tokenizer, const char *where, size_t n,
                                    sc_err *err)
{
    if (n > SC_TOKENIZER_MERGES_MAX) {
        return sc_status_fail(err, SC_LIMIT, "%s: %zu merges, at most %d may be", where, n,
                              SC_TOKENIZER_MERGES_MAX);
    }
    return sc_tokenizer_merges_init(&tokenizer->merges, n, &tokenizer->arena) ? SC_OK
                                                                              : no_memory(err);
}

/* A text of a merge, cut for a message. */
static int shown(size_t n)
{
    return n < 64 ? (int)n : 64;
}

sc_status sc_tokenizer_build_merge(sc_tokenizer *tokenizer, const char *where, const char *left,
                                   size_t n_left, const char *right, size_t n_right, sc_err *err)
{
    const char *const texts[] = {left, right};
    const size_t sizes[] = {n_left, n_right};
    uint8_t both[2 * SC_TOKENIZER_VOCAB_TOKEN_MAX];
    size_t n_both = 0;
    int ids[3] = {0};
    for (int i = 0; i < 2; i++) {
        size_t n = 0;
        SC_TRY(check_length(where, sizes[i], SC_TOKENIZER_VOCAB_TOKEN_MAX, err));
        bool is_spelled = sc_tokenizer_alphabet_decode(texts[i], sizes[i], both + n_both, &n);
        ids[i] = is_spelled ? sc_tokenizer_vocab_find(&tokenizer->vocab, both + n_both, n, false)
                            : sc_tokenizer_vocab_find(&tokenizer->vocab, (const uint8_t *)texts[i],
                                                      sizes[i], true);
        if (ids[i] < 0) {
            return sc_status_fail(err, SC_INVALID, "%s: '%.*s' is not in the vocabulary", where,
                                  shown(sizes[i]), texts[i]);
        }
        if (!is_spelled) {
            return SC_OK; // bytes never become such a token, so this merge never happens
        }
        n_both += n;
    }
    ids[2] = sc_tokenizer_vocab_find(&tokenizer->vocab, both, n_both, false);
    if (ids[2] < 0) {
        return sc_status_fail(err, SC_INVALID, "%s: '%.*s%.*s' is not in the vocabulary", where,
                              shown(n_left), left, shown(n_right), right);
    }
    sc_tokenizer_merges_add(&tokenizer->merges, ids[0], ids[1], ids[2]);
    return SC_OK;
}

sc_status sc_tokenizer_build_added(sc_tokenizer *tokenizer, size_t n, sc_err *err)
{
    for (int i = 0; i < SC_TOKENIZER_N_ADDED; i++) {
        if (!sc_tokenizer_added_init(&tokenizer->added[i], n, &tokenizer->arena)) {
            return no_memory(err);
        }
    }
    return SC_OK;
}

/* Number of the model's token of this text, -1 for none. Its bytes must be the text's own: a text
   such as U+0120, which spells a space, would be found in one place and made in another. */
static sc_status find_in_model(sc_tokenizer *tokenizer, const char *where, const char *text,
                               int *out, sc_err *err)
{
    const size_t n = strlen(text);
    size_t n_bytes = 0;
    bool is_raw = false;
    const uint8_t *bytes = spell(&tokenizer->arena, text, n, &n_bytes, &is_raw);
    if (bytes == NULL) {
        return no_memory(err);
    }
    *out = sc_tokenizer_vocab_find(&tokenizer->vocab, bytes, n_bytes, is_raw);
    if (*out >= 0 && (n_bytes != n || memcmp(bytes, text, n) != 0)) {
        return sc_status_fail(err, SC_UNSUPPORTED,
                              "%s: the added token is one of the model, which spells other bytes",
                              where);
    }
    return SC_OK;
}

/* The number of an added token that is new to the model becomes a token of its own. */
static sc_status take_new(sc_tokenizer *tokenizer, const char *where, const char *text, double id,
                          int *out, sc_err *err)
{
    const size_t n = strlen(text);
    const char *copy = sc_arena_strndup(&tokenizer->arena, text, n);
    if (copy == NULL) {
        return no_memory(err);
    }
    if (sc_tokenizer_vocab_find(&tokenizer->vocab, (const uint8_t *)copy, n, true) >= 0) {
        return sc_status_fail(err, SC_INVALID, "%s: the added token is there twice", where);
    }
    SC_TRY(check_id(tokenizer, where, id, out, err));
    sc_tokenizer_vocab_add(&tokenizer->vocab, *out, (const uint8_t *)copy, n, true);
    return SC_OK;
}

sc_status sc_tokenizer_build_add(sc_tokenizer *tokenizer, const char *where, int level,
                                 const char *text, double id, sc_err *err)
{
    int number = -1;
    SC_TRY(check_length(where, strlen(text), SC_TOKENIZER_ADDED_BYTES_MAX, err));
    SC_TRY(find_in_model(tokenizer, where, text, &number, err));
    if (number < 0) {
        SC_TRY(take_new(tokenizer, where, text, id, &number, err));
    } else if (number != id) {
        return sc_status_fail(err, SC_INVALID, "%s: number %g, but %d in the model", where, id,
                              number);
    }
    sc_tokenizer_vocab_token *token = &tokenizer->vocab.tokens[number];
    if (token->is_added) {
        return sc_status_fail(err, SC_INVALID, "%s: the added token is there twice", where);
    }
    token->is_added = true;
    sc_tokenizer_added_add(&tokenizer->added[level], token->bytes, token->n_bytes, number);
    return SC_OK;
}

sc_status sc_tokenizer_build_finish(sc_tokenizer *tokenizer, const char *file, sc_err *err)
{
    for (int i = 0; i < SC_TOKENIZER_N_ADDED; i++) {
        sc_tokenizer_added_sort(&tokenizer->added[i]);
    }
    for (int i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        int id = sc_tokenizer_vocab_find(&tokenizer->vocab, &byte, 1, false);
        if (id < 0) {
            return sc_status_fail(err, SC_UNSUPPORTED,
                                  "%s: the vocabulary has no token for byte 0x%02x: no byte-level "
                                  "BPE, or one trained without the whole alphabet",
                                  file, (unsigned)i);
        }
        tokenizer->byte_ids[i] = (uint16_t)id;
    }
    return SC_OK;
}
