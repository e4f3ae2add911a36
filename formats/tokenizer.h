/*
 * tokenizer - GPT-2's byte-level byte pair encoding: any bytes to tokens and back.
 *
 * A text is searched for added tokens, what lies between is cut into words (tokenizer_split), and
 * a word's bytes are merged pair by pair (tokenizer_bpe). The tokens are those of Hugging Face's
 * `tokenizers`, without what a post-processor would put around a text. tokenizer_load reads the
 * vocabulary, tokenizer_encode makes tokens. Bytes that are not UTF-8 pass as they are.
 *
 * Threads: a tokenizer never changes once loaded; any number may read it.
 */
#ifndef SC_FORMATS_TOKENIZER_H
#define SC_FORMATS_TOKENIZER_H

#include "formats/tokenizer_added.h"
#include "formats/tokenizer_merges.h"
#include "formats/tokenizer_vocab.h"

enum {
    SC_TOKENIZER_N_ADDED = 2
};

typedef struct sc_tokenizer {
    sc_arena arena; // owns what follows
    sc_tokenizer_vocab vocab;
    sc_tokenizer_merges merges;
    /* A text is searched for those of [0], what is left for those of [1]: a normalizer, which is
       not supported, would work between the two. */
    sc_tokenizer_added added[SC_TOKENIZER_N_ADDED];
    uint16_t byte_ids[256]; // token of each byte alone
    bool ignores_merges;    // a word that is a token is taken whole
} sc_tokenizer;

/* Frees and nulls. Accepts NULL. */
void sc_tokenizer_free(sc_tokenizer **tokenizer);

/* The smallest vocab_size of a model of these tokens: the largest number + 1. */
int sc_tokenizer_vocab_size(const sc_tokenizer *tokenizer);
/* Number of the token that stands for just these bytes, an added one first; -1 for none. */
int sc_tokenizer_find(const sc_tokenizer *tokenizer, const void *bytes, size_t n);
/* Bytes that a token stands for, borrowed, their count in *n_out; NULL when there is no such token.
   A token may end in the middle of a UTF-8 character. */
const uint8_t *sc_tokenizer_bytes(const sc_tokenizer *tokenizer, int32_t token, size_t *n_out);
/* The bytes of n tokens one after the other; caller frees *out, which has a NUL behind its *n_out
   bytes. SC_INVALID names a token that is not in the vocabulary. */
sc_status sc_tokenizer_decode(const sc_tokenizer *tokenizer, const int32_t *tokens, size_t n,
                              char **out, size_t *n_out, sc_err *err);

#endif
