/*
 * tokeninfo - what is in a token file: count, largest token, the most common ones, its start.
 */
#ifndef SC_CLI_TOKENINFO_H
#define SC_CLI_TOKENINFO_H

#include "formats/tokenizer.h"
#include "formats/tokens.h"

enum {
    SC_TOKENINFO_FIRST = 64,
    SC_TOKENINFO_COMMON = 8
};

typedef struct sc_tokeninfo {
    const char *path;              // borrowed
    const sc_tokenizer *tokenizer; // borrowed; NULL: only bytes have a text
    sc_tokens_info file;
    uint32_t max_token;
    uint32_t n_distinct;
    uint16_t common[SC_TOKENINFO_COMMON]; // most common first
    uint64_t n_common[SC_TOKENINFO_COMMON];
    size_t n_commons;
    int32_t first[SC_TOKENINFO_FIRST]; // the file's start
    size_t n_first;
} sc_tokeninfo;

/* Reads a whole token file. The tokenizer it was made with, if given, gives the tokens a text. */
sc_status sc_tokeninfo_read(const char *path, sc_tokens_format format,
                            const sc_tokenizer *tokenizer, sc_tokeninfo *out, sc_err *err);
/* To standard output. */
void sc_tokeninfo_print(const sc_tokeninfo *info);
sc_status sc_tokeninfo_print_json(const sc_tokeninfo *info, sc_err *err);

#endif
