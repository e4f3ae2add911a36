/*
 * tokenizer_utf8 - one character of UTF-8, strictly: no overlong forms, no surrogates.
 */
#ifndef SC_FORMATS_TOKENIZER_UTF8_H
#define SC_FORMATS_TOKENIZER_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at p, 1 to 4, its code point in *out; 0 when the n bytes do not begin with
   a whole valid character. */
size_t sc_tokenizer_utf8_get(const uint8_t *p, size_t n, uint32_t *out);

#endif
