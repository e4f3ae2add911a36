/*
 * tokenizer_alphabet - GPT-2's alphabet: one printable character for each of the 256 bytes.
 *
 * Vocabulary files are JSON and text, so they spell a token's bytes in characters: a byte that
 * Latin-1 prints is itself, the other 68 are U+0100 and up, in order. A space is U+0120.
 */
#ifndef SC_FORMATS_TOKENIZER_ALPHABET_H
#define SC_FORMATS_TOKENIZER_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes that n bytes of UTF-8 text spell; out has room for n. False when a character is not of
   the alphabet or the text is not UTF-8. */
bool sc_tokenizer_alphabet_decode(const char *text, size_t n, uint8_t *out, size_t *n_out);

#endif
