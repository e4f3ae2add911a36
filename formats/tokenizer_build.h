/*
 * tokenizer_build - puts a tokenizer together, token by token and merge by merge.
 *
 * Checks what is added against what is there. The order is: tokens, merges, added tokens, finish.
 * `where` is the place in a file, for messages.
 */
#ifndef SC_FORMATS_TOKENIZER_BUILD_H
#define SC_FORMATS_TOKENIZER_BUILD_H

#include "formats/tokenizer.h"

/* An empty tokenizer; caller frees with sc_tokenizer_free. */
sc_status sc_tokenizer_build_new(sc_tokenizer **out, sc_err *err);
/* A token of the model, spelled in GPT-2's alphabet; in other text it stands for itself. */
sc_status sc_tokenizer_build_token(sc_tokenizer *tokenizer, const char *where, const char *text,
                                   double id, sc_err *err);
/* Room for n merges; call once. */
sc_status sc_tokenizer_build_merges(sc_tokenizer *tokenizer, const char *where, size_t n,
                                    sc_err *err);
/* The next merge: two tokens, spelled as above, whose bytes together are a token too. */
sc_status sc_tokenizer_build_merge(sc_tokenizer *tokenizer, const char *where, const char *left,
                                   size_t n_left, const char *right, size_t n_right, sc_err *err);
/* Room for n added tokens; call once. */
sc_status sc_tokenizer_build_added(sc_tokenizer *tokenizer, size_t n, sc_err *err);
/* An added token: the text that is looked for; level 0 goes first. It may be one of the model's, of
   the same number. */
sc_status sc_tokenizer_build_add(sc_tokenizer *tokenizer, const char *where, int level,
                                 const char *text, double id, sc_err *err);
/* Every byte must have a token. */
sc_status sc_tokenizer_build_finish(sc_tokenizer *tokenizer, const char *file, sc_err *err);

#endif
