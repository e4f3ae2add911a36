/*
 * tokenizer_load - a tokenizer from the files that Hugging Face's libraries write.
 *
 * Either tokenizer.json (a byte-level BPE: its model, pre-tokenizer and added tokens), or GPT-2's
 * older pair vocab.json and merges.txt, where <|endoftext|>, if there, is an added token. What
 * would change tokens in a way that is not built here is refused by name; truncation, padding and
 * the post-processor, which only shape batches, are not applied. Every byte must have a token.
 */
#ifndef SC_FORMATS_TOKENIZER_LOAD_H
#define SC_FORMATS_TOKENIZER_LOAD_H

#include "formats/tokenizer.h"

enum {
    SC_TOKENIZER_LOAD_BYTES_MAX = 64 * 1024 * 1024 // of one file
};

/* A file that the caller read. */
typedef struct sc_tokenizer_load_file {
    const char *name; // for messages
    const char *text;
    size_t n;
} sc_tokenizer_load_file;

/* From tokenizer.json. Caller frees. */
sc_status sc_tokenizer_load_json(const sc_tokenizer_load_file *file, sc_tokenizer **out,
                                 sc_err *err);
/* From vocab.json and merges.txt. Caller frees. */
sc_status sc_tokenizer_load_pair(const sc_tokenizer_load_file *vocab,
                                 const sc_tokenizer_load_file *merges, sc_tokenizer **out,
                                 sc_err *err);

/* From a folder's tokenizer.json or, without one, vocab.json and merges.txt (io/tokenizer_folder
   reads them). Caller frees. SC_NOT_FOUND when the folder has neither. */
sc_status sc_tokenizer_folder_load(const char *folder, sc_tokenizer **out, sc_err *err);

#endif
