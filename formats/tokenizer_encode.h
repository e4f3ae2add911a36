/*
 * tokenizer_encode - a text to tokens, piece by piece.
 *
 * Owns:    what of the text later bytes could still change, the tokens of the last piece, and a
 *          cache of words.
 * Threads: none of its own; one caller. Several may share one tokenizer.
 */
#ifndef SC_FORMATS_TOKENIZER_ENCODE_H
#define SC_FORMATS_TOKENIZER_ENCODE_H

#include "formats/tokenizer.h"

enum {
    SC_TOKENIZER_ENCODE_WORD_MAX = 16 * 1024 * 1024 // bytes of one word
};

typedef struct sc_tokenizer_encode sc_tokenizer_encode;

/* The tokenizer is borrowed until sc_tokenizer_encode_free. Caller frees. */
sc_status sc_tokenizer_encode_new(const sc_tokenizer *tokenizer, sc_tokenizer_encode **out,
                                  sc_err *err);
/* Frees and nulls. Accepts NULL. */
void sc_tokenizer_encode_free(sc_tokenizer_encode **encode);

/* Takes the next n bytes of a text and gives the tokens that are certain now, borrowed until the
   next call. is_last: the text ends here, all tokens are certain, and the next call begins another
   text. How a text is cut into pieces changes no token. SC_LIMIT, with the place, for a word over
   SC_TOKENIZER_ENCODE_WORD_MAX; the next call then begins another text too. */
sc_status sc_tokenizer_encode_push(sc_tokenizer_encode *encode, const void *bytes, size_t n,
                                   bool is_last, const int32_t **tokens, size_t *n_tokens,
                                   sc_err *err);

#endif
