#include "formats/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void sc_tokenizer_free(sc_tokenizer **tokenizer)
{
    if (*tokenizer != NULL) {
        sc_arena_done(&(*tokenizer)->arena);
        free(*tokenizer);
        *tokenizer = NULL;
    }
}

int sc_tokenizer_vocab_size(const sc_tokenizer *tokenizer)
{
    return tokenizer->vocab.n_ids;
}

int sc_tokenizer_find(const sc_tokenizer *tokenizer, const void *bytes, size_t n)
{
    for (int i = 0; i < SC_TOKENIZER_N_ADDED; i++) {
        sc_tokenizer_added_match match;
        if (sc_tokenizer_added_find(&tokenizer->added[i], bytes, 0, n, &match) &&
            match.n_bytes == n) {
            return match.id;
        }
    }
    return sc_tokenizer_vocab_find(&tokenizer->vocab, bytes, n, false);
}

const uint8_t *sc_tokenizer_bytes(const sc_tokenizer *tokenizer, int32_t token, size_t *n_out)
{
    if (token < 0 || token >= tokenizer->vocab.n_ids) {
        return NULL;
    }
    *n_out = tokenizer->vocab.tokens[token].n_bytes;
    return tokenizer->vocab.tokens[token].bytes;
}

static sc_status count_bytes(const sc_tokenizer *tokenizer, const int32_t *tokens, size_t n,
                             size_t *out, sc_err *err)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes = 0;
        if (sc_tokenizer_bytes(tokenizer, tokens[i], &n_bytes) == NULL) {
            return sc_status_fail(err, SC_INVALID,
                                  "token %zu is %" PRId32 ", which the tokenizer does not have; it "
                                  "has %zu, the largest %d: take the one the tokens were made with",
                                  i, tokens[i], tokenizer->vocab.n_tokens,
                                  tokenizer->vocab.n_ids - 1);
        }
        total += n_bytes;
    }
    *out = total;
    return SC_OK;
}

sc_status sc_tokenizer_decode(const sc_tokenizer *tokenizer, const int32_t *tokens, size_t n,
                              char **out, size_t *n_out, sc_err *err)
{
    size_t total = 0;
    SC_TRY(count_bytes(tokenizer, tokens, n, &total, err));
    char *text = malloc(total + 1);
    if (text == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %zu bytes of text", total);
    }
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes = 0;
        const uint8_t *bytes = sc_tokenizer_bytes(tokenizer, tokens[i], &n_bytes);
        memcpy(text + used, bytes, n_bytes);
        used += n_bytes;
    }
    text[used] = '\0';
    *out = text;
    *n_out = used;
    return SC_OK;
}
