/*
 * tokenizer_added - tokens that are found in a text as they stand, before it is cut into words.
 *
 * `<|endoftext|>` is one. At each place the longest one wins, and the leftmost place first.
 */
#ifndef SC_FORMATS_TOKENIZER_ADDED_H
#define SC_FORMATS_TOKENIZER_ADDED_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SC_TOKENIZER_ADDED_BYTES_MAX = 1024 // of one of them
};

typedef struct sc_tokenizer_added_token {
    const uint8_t *bytes; // borrowed
    size_t n_bytes;
    int id;
} sc_tokenizer_added_token;

typedef struct sc_tokenizer_added {
    sc_tokenizer_added_token *tokens; // sorted by bytes once ready
    size_t n_tokens;
    size_t max_bytes; // of the longest, 0 when there are none
    bool starts[256]; // bytes that one begins with
} sc_tokenizer_added;

/* Where one was found. */
typedef struct sc_tokenizer_added_match {
    size_t start;
    size_t n_bytes;
    int id;
} sc_tokenizer_added_match;

/* Room for n tokens, owned by the arena. False when out of memory. */
bool sc_tokenizer_added_init(sc_tokenizer_added *added, size_t n, sc_arena *arena);
/* Adds one of 1 to SC_TOKENIZER_ADDED_BYTES_MAX bytes that is not there yet. */
void sc_tokenizer_added_add(sc_tokenizer_added *added, const uint8_t *bytes, size_t n, int id);
/* Call once behind the last sc_tokenizer_added_add. */
void sc_tokenizer_added_sort(sc_tokenizer_added *added);
/* The first one in text [from, n). False when there is none. */
bool sc_tokenizer_added_find(const sc_tokenizer_added *added, const uint8_t *text, size_t from,
                             size_t n, sc_tokenizer_added_match *out);

#endif
