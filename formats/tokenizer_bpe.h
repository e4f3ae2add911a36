/*
 * tokenizer_bpe - merges the bytes of one word: always the pair of lowest rank, the leftmost first.
 *
 * A heap holds the pairs of a linked list, so a word of n bytes takes n log n steps.
 */
#ifndef SC_FORMATS_TOKENIZER_BPE_H
#define SC_FORMATS_TOKENIZER_BPE_H

#include "formats/tokenizer_merges.h"

/* Memory of the work, kept from word to word. */
typedef struct sc_tokenizer_bpe {
    uint16_t *ids;  // the word: its symbols, one a byte at first
    int32_t *prev;  // index of the symbol before, -1: none
    int32_t *next;  // index of the symbol behind, -1: none, -2: this one is merged away
    uint64_t *heap; // rank and index of the left symbol, the smallest first
    size_t n_heap;
    size_t capacity; // symbols; the heap has room for twice as many
} sc_tokenizer_bpe;

/* Accepts a zeroed or half-made one. */
void sc_tokenizer_bpe_done(sc_tokenizer_bpe *bpe);
/* Room for a word of n < 2^31 symbols. False when out of memory. Starts from a zeroed one. */
bool sc_tokenizer_bpe_reserve(sc_tokenizer_bpe *bpe, size_t n);
/* Merges bpe->ids[0..n), n > 0 and reserved, in place; returns how many tokens are left there. */
size_t sc_tokenizer_bpe_merge(sc_tokenizer_bpe *bpe, const sc_tokenizer_merges *merges, size_t n);

#endif
