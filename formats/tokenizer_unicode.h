/*
 * tokenizer_unicode - which characters are letters, numbers and white space.
 *
 * The table in the C file is made by tests/golden/make_unicode.py from the Unicode Character
 * Database: general categories L* and N*, and the property White_Space. Its first lines say which
 * version.
 */
#ifndef SC_FORMATS_TOKENIZER_UNICODE_H
#define SC_FORMATS_TOKENIZER_UNICODE_H

#include <stddef.h>
#include <stdint.h>

typedef enum sc_tokenizer_unicode_class {
    SC_TOKENIZER_UNICODE_OTHER,
    SC_TOKENIZER_UNICODE_LETTER,
    SC_TOKENIZER_UNICODE_NUMBER,
    SC_TOKENIZER_UNICODE_SPACE
} sc_tokenizer_unicode_class;

/* Code points first..last, all of one class. */
typedef struct sc_tokenizer_unicode_range {
    uint32_t first : 24;
    uint32_t kind : 8; // sc_tokenizer_unicode_class
    uint32_t last;
} sc_tokenizer_unicode_range;

/* In rising order, without overlaps; what is in none is OTHER. */
extern const sc_tokenizer_unicode_range sc_tokenizer_unicode_ranges[];
extern const size_t sc_tokenizer_unicode_n_ranges;

#endif
