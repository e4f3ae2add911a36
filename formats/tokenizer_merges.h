/*
 * tokenizer_merges - which two tokens become which one, and what goes first.
 */
#ifndef SC_FORMATS_TOKENIZER_MERGES_H
#define SC_FORMATS_TOKENIZER_MERGES_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SC_TOKENIZER_MERGES_MAX = 1 << 20
};

typedef struct sc_tokenizer_merge {
    uint32_t key;  // left token in the upper, right token in the lower 16 bits
    uint32_t rank; // place in the list + 1; the smallest goes first; 0: empty
    uint16_t id;   // token that the two become
} sc_tokenizer_merge;

typedef struct sc_tokenizer_merges {
    sc_tokenizer_merge *slots; // by hash of the key
    uint32_t n_slots;          // a power of two
    uint32_t n_listed;         // repeated pairs counted
} sc_tokenizer_merges;

/* Room for n <= SC_TOKENIZER_MERGES_MAX merges, owned by the arena. False when out of memory. */
bool sc_tokenizer_merges_init(sc_tokenizer_merges *merges, size_t n, sc_arena *arena);
/* The next merge of the list. A pair that is listed again takes the later place, as it does in
   Hugging Face's library. */
void sc_tokenizer_merges_add(sc_tokenizer_merges *merges, int left, int right, int id);
/* NULL when the two are never merged. */
const sc_tokenizer_merge *sc_tokenizer_merges_find(const sc_tokenizer_merges *merges, uint16_t left,
                                                   uint16_t right);

#endif
