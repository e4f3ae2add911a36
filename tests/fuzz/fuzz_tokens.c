/*
 * fuzz_tokens - any bytes as a token file: no crash, and what is accepted lies within the file.
 */
#include "formats/tokens.h"

#include <stdlib.h>

/* libFuzzer gives the name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The first byte chooses the format, the rest is the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) {
        return 0;
    }
    sc_tokens_format format = (sc_tokens_format)(data[0] % 3);
    const uint8_t *file = data + 1;
    size_t n_file = n - 1;
    size_t n_head = n_file < SC_TOKENS_HEADER_BYTES ? n_file : SC_TOKENS_HEADER_BYTES;
    sc_tokens_info info;
    sc_err err;
    if (sc_tokens_parse("f", file, n_head, n_file, format, &info, &err) != SC_OK) {
        return 0;
    }
    if (info.n_tokens == 0 || info.data_offset + info.n_tokens * SC_TOKENS_TOKEN_BYTES != n_file) {
        abort();
    }
    size_t n_tokens = (size_t)info.n_tokens;
    int32_t *tokens = malloc(n_tokens * sizeof *tokens);
    if (tokens == NULL) {
        return 0;
    }
    sc_tokens_unpack(file + info.data_offset, n_tokens, tokens);
    size_t at = sc_tokens_find_invalid(file + info.data_offset, n_tokens, 256);
    if (at < n_tokens ? tokens[at] < 256 : tokens[n_tokens - 1] >= 256) {
        abort();
    }
    free(tokens);
    return 0;
}
