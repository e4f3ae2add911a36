/*
 * tokenizer_rig - what the tokenizer's tests share: files of tests/golden/tokenizer, whole texts.
 * Any failure fails the test.
 */
#ifndef SC_TESTS_FORMATS_TOKENIZER_RIG_H
#define SC_TESTS_FORMATS_TOKENIZER_RIG_H

#include "formats/tokenizer_encode.h"
#include "formats/tokenizer_load.h"

/* A file of the golden folder; caller frees its text. */
sc_tokenizer_load_file sc_tokenizer_rig_read(const char *name);
/* From a golden file of the tokenizer.json kind; caller frees. */
sc_tokenizer *sc_tokenizer_rig_load(const char *name);
/* From the golden vocab.json and merges.txt; caller frees. */
sc_tokenizer *sc_tokenizer_rig_load_pair(void);
/* Tokens of a whole text; caller frees. */
int32_t *sc_tokenizer_rig_encode(const sc_tokenizer *tokenizer, const void *text, size_t n,
                                 size_t *n_out);
/* The same, the text coming in pieces of `piece` bytes. */
int32_t *sc_tokenizer_rig_encode_pieces(sc_tokenizer_encode *encode, const uint8_t *text, size_t n,
                                        size_t piece, size_t *n_out);

#endif
