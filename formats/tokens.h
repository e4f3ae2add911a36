/*
 * tokens - token files: llm.c's (a header of 256 int32, then uint16 tokens) and raw uint16.
 *
 * Everything is little-endian. Works on byte ranges that the caller read; opens nothing. Errors
 * start with the file's name, which is only for the message.
 */
#ifndef SC_FORMATS_TOKENS_H
#define SC_FORMATS_TOKENS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SC_TOKENS_MAGIC = 20240520,
    SC_TOKENS_VERSION = 1,
    SC_TOKENS_HEADER_BYTES = 1024,
    SC_TOKENS_TOKEN_BYTES = 2
};

typedef enum sc_tokens_format {
    SC_TOKENS_AUTO, // llm.c when the header is there, raw uint16 otherwise
    SC_TOKENS_LLMC,
    SC_TOKENS_RAW16
} sc_tokens_format;

typedef struct sc_tokens_info {
    sc_tokens_format format; // what the file is: never AUTO
    uint64_t data_offset;    // byte of the first token
    uint64_t n_tokens;       // token i lies at data_offset + 2 i
} sc_tokens_info;

/* "auto", "llmc" or "raw16". */
const char *sc_tokens_format_text(sc_tokens_format format);
/* False for any other text. */
bool sc_tokens_format_parse(const char *text, sc_tokens_format *out);

/* Finds out what a file of file_bytes bytes is. head: its first n_head bytes, n_head being the
   smaller of file_bytes and SC_TOKENS_HEADER_BYTES. Refuses a wrong magic or version, a count that
   does not fit the size, an odd size and a file without tokens. */
sc_status sc_tokens_parse(const char *name, const void *head, size_t n_head, uint64_t file_bytes,
                          sc_tokens_format format, sc_tokens_info *out, sc_err *err);

/* Samples of T tokens, each with the token behind it as last target, that n_tokens hold: sample i
   starts at token i T. */
uint64_t sc_tokens_n_samples(uint64_t n_tokens, int T);
/* SC_INVALID when the file holds fewer samples than one global batch. */
sc_status sc_tokens_check_batch(const char *name, const sc_tokens_info *info, uint64_t n_samples,
                                int T, sc_err *err);

/* Index of the first of n tokens that is not below vocab_size; n when all are. */
size_t sc_tokens_find_invalid(const void *tokens, size_t n, int vocab_size);
/* The same over tokens [first, first + n) of a file, as an error with the file position. */
sc_status sc_tokens_check_range(const char *name, const sc_tokens_info *info, uint64_t first,
                                const void *tokens, size_t n, int vocab_size, sc_err *err);

/* n tokens as int32. */
void sc_tokens_unpack(const void *tokens, size_t n, int32_t *out);
/* n bytes of text as n tokens of 2 bytes each: the byte vocabulary of 256. */
void sc_tokens_pack_bytes(const void *text, size_t n, void *out);
/* n tokens, each from 0 to 65535, as 2 bytes each. */
void sc_tokens_pack(const int32_t *tokens, size_t n, void *out);
/* llm.c's header; SC_LIMIT when its int32 cannot hold the count. */
sc_status sc_tokens_pack_header(uint64_t n_tokens, uint8_t out[SC_TOKENS_HEADER_BYTES],
                                sc_err *err);

#endif
