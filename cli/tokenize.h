/*
 * tokenize - text files -> one token file, of the byte vocabulary or a tokenizer's.
 */
#ifndef SC_CLI_TOKENIZE_H
#define SC_CLI_TOKENIZE_H

#include "formats/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

/* Writes the tokens of the texts, one after the other, as an llm.c token file; "-" is standard
   input. Without a tokenizer (NULL) every byte is a token; with one, each text is tokenized by
   itself, and nothing is put between two. The file appears at out_path whole or not at all: it is
   written beside it under another name, synced and renamed. An existing out_path is SC_EXISTS
   unless is_forced. */
sc_status sc_tokenize_files(const char *const *texts, size_t n_texts, const char *out_path,
                            bool is_forced, const sc_tokenizer *tokenizer, uint64_t *n_tokens_out,
                            sc_err *err);

#endif
