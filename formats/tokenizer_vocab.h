/*
 * tokenizer_vocab - tokens by number and by bytes.
 *
 * Numbers may have gaps. A token whose text is not spelled in GPT-2's alphabet is `raw`: it stands
 * for the text's own bytes and is never made by merging.
 */
#ifndef SC_FORMATS_TOKENIZER_VOCAB_H
#define SC_FORMATS_TOKENIZER_VOCAB_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SC_TOKENIZER_VOCAB_MAX = 65536,      // numbers that a uint16 holds
    SC_TOKENIZER_VOCAB_TOKEN_MAX = 65536 // bytes of one token
};

typedef struct sc_tokenizer_vocab_token {
    const uint8_t *bytes; // NULL: no token has this number
    uint32_t n_bytes;
    bool is_raw;
    bool is_added; // tokenizer_added finds it too
} sc_tokenizer_vocab_token;

typedef struct sc_tokenizer_vocab {
    int n_ids;                        // largest number + 1
    size_t n_tokens;                  // without the gaps
    sc_tokenizer_vocab_token *tokens; // (SC_TOKENIZER_VOCAB_MAX)
    int32_t *slots;                   // number + 1 by hash, 0: empty
} sc_tokenizer_vocab;

/* An empty vocabulary. The arena owns all of it. False when out of memory. */
bool sc_tokenizer_vocab_init(sc_tokenizer_vocab *vocab, sc_arena *arena);
/* Takes over a token whose number and bytes are both new. Its bytes are borrowed as long as the
   vocabulary is used. */
void sc_tokenizer_vocab_add(sc_tokenizer_vocab *vocab, int id, const uint8_t *bytes, size_t n,
                            bool is_raw);
/* Number of the token of these bytes, -1 for none. */
int sc_tokenizer_vocab_find(const sc_tokenizer_vocab *vocab, const uint8_t *bytes, size_t n,
                            bool is_raw);
/* A well mixed hash of some bytes; never 0. */
uint64_t sc_tokenizer_vocab_hash(const uint8_t *bytes, size_t n);

#endif
