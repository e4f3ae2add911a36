/*
 * tokenizer_split - cuts a text into the words that byte pair encoding works on, as GPT-2 does.
 *
 * The rule is this regular expression, first alternative first, written out by hand:
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * Every byte lands in exactly one word. A byte that belongs to no valid UTF-8 character counts as
 * a character of the third kind, neither letter nor number nor space.
 */
#ifndef SC_FORMATS_TOKENIZER_SPLIT_H
#define SC_FORMATS_TOKENIZER_SPLIT_H

#include <stddef.h>
#include <stdint.h>

enum {
    /* The word at p does not depend on bytes further than this behind its end. */
    SC_TOKENIZER_SPLIT_AHEAD = 8
};

/* Bytes of the first word of n > 0 bytes of text, the text ending there. */
size_t sc_tokenizer_split_next(const uint8_t *p, size_t n);

#endif
